"""A red cell as the page writes it out: cause, first error in its context, failing tests, files, rerun line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from runner.facts import TestCase
from runner.records import Run
from runner.report.page_data import MOST_TESTS, Budget, message
from runner.report.rerun import rerun_line
from runner.report.text import clean, clean_block
from runner.report.view import CellView

CONTEXT_CHARS = 6_000
_RANK = re.compile(r"^rank \d+: ")
"""What a verdict puts before an error of a worker."""

ReadText = Callable[[str], str | None]
"""Reads a file of the run folder by its relative path (the end of it is enough for a log); None where it is not."""


@dataclass(frozen=True, slots=True)
class Context:
    """A part of a log: around ``hit``, the line of the cause, or the end of the log where ``hit`` is 0.

    ``lines`` are the lines as shown, ``first`` the number of the first one in the log, counted from 1; ``hit`` is the
    number of the cause's line.
    """

    lines: tuple[str, ...] = ()
    first: int = 1
    hit: int = 0

    @property
    def text(self) -> str:
        """The whole part."""
        return "\n".join(self.lines)

    @property
    def numbered(self) -> str:
        """The whole part, each line with its number."""
        return "\n".join(f"{self.first + n:>6}  {line}" for n, line in enumerate(self.lines))

    @property
    def rows(self) -> tuple[tuple[int, str], ...]:
        """Number and text of each line."""
        return tuple(enumerate(self.lines, self.first))

    def link(self, path: str) -> str:
        """The log at the line of the cause: a text fragment, which browsers follow in plain text too (WICG, 2023)."""
        line = self.lines[self.hit - self.first].strip()[:80] if self.hit else ""
        # Only words that are in the log as they are shown can be found there.
        found = quote(line, safe="").replace("-", "%2D") if line.isascii() else ""
        return quote(path) + (f"#:~:text={found}" if found else "")


@dataclass(frozen=True, slots=True)
class Card:
    """A red cell as the page writes it out."""

    cell: CellView
    rerun: str
    context: Context
    tests: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]


def card(cell: CellView, run: Run, read_text: ReadText, budget: Budget) -> Card:
    """Gather what a card shows; long texts only while the page's budget lasts."""
    found = context(cell, read_text)
    tests = tuple(
        (_test_name(case), budget.take(message(case.messages))) for case in cell.failing[:MOST_TESTS]
    )
    files = tuple((path.rpartition("/")[2], path) for path in cell.files())
    kept = found if budget.take(found.text) else Context()
    return Card(cell, rerun_line(run, cell.entry.cell), kept, tests, files)


def _test_name(case: TestCase) -> str:
    return clean(f"{case.classname}::{case.name}" if case.classname else case.name)[:300]


def context(cell: CellView, read_text: ReadText) -> Context:
    """The log around the line of the cause, or its end where the cause is not in it."""
    path = cell.log
    text = (read_text(path) or "") if path else ""
    at = _place(cell, text)
    # Only the neighbourhood is cleaned: a log may hold 50 MB, and lines of any length.
    start = max(0, len(text) - 40_000 if at < 0 else at - 20_000)
    near = text[start:] if at < 0 else text[start : at + 20_000]
    first = text.count("\n", 0, start) + 1
    lines = [line[:500] for line in clean_block(near).rstrip("\n").split("\n")]
    hit = text.count("\n", start, at) if at >= 0 else len(lines)
    if hit >= len(lines):
        kept = _last(lines, 24)
        return Context(tuple(kept), first + len(lines) - len(kept)) if "".join(kept).strip() else Context()
    before = _last(lines[max(0, hit - 10) : hit], 10)
    after = lines[hit + 1 : hit + 14]
    return Context((*before, lines[hit], *after), first + hit - len(before), first + hit)


def _place(cell: CellView, text: str) -> int:
    """Where the cause is in a log: on the line that was recorded, or where its words are; below 0 where it is not."""
    if cell.attempt and cell.attempt.cause_line > 0:
        at = -1
        for _ in range(cell.attempt.cause_line - 1):
            at = text.find("\n", at + 1)
            if at < 0:
                return -1
        return at + 1
    cause = cell.record.verdict.cause.strip() if cell.record else ""
    for words in (cause, _RANK.sub("", cause)):
        if len(words) > 8 and (at := text.find(words[:80])) >= 0:
            return at
    return -1


def _last(lines: list[str], most: int) -> list[str]:
    """The last lines, without empty ones at the start, within :data:`CONTEXT_CHARS`."""
    kept = lines[-most:]
    while kept and (not kept[0].strip() or sum(map(len, kept)) > CONTEXT_CHARS):
        kept = kept[1:]
    return kept
