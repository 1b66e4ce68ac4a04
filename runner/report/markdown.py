"""A run as Markdown, bounded in bytes: ``summary.md``, the Buildkite annotation, a CI job summary. Never empty.

Sizes are bytes of UTF-8: Buildkite refuses an annotation over 1 MiB as a whole, so it is better to show less. What
matters most is written first and gets the room first: verdict, totals, names of what is red, then details.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from runner.facts import TestCase
from runner.model import Cell
from runner.records import Run
from runner.report.grid import fold, grid
from runner.report.groups import left_out
from runner.report.markup import code, cut_bytes, fold_out, inline, raw_code
from runner.report.qualified import qualified
from runner.report.rerun import rerun_line
from runner.report.text import count, cut, cut_lines, seconds
from runner.report.triaged import News, Told, news, numbers, told
from runner.report.view import CellView, RunView, outcome_sum, plan_sum, view
from runner.report.vocabulary import LOOKS, MISSING, Tone
from runner.triage import Comparison
from runner.vendors import never_ran

SMALLEST = 2_048
"""Fewest bytes in which the verdict, the totals and the pointer to the page always fit."""

MOST_ROWS = 200
"""Rows of the grid up to which it is shown."""

MOST_CAUSES, MOST_CHANGES = 30, 50
"""Lines of triage and of changes: what follows needs room too, and the page has all."""

_MESSAGE_LINES, _MESSAGE_CHARS = 60, 3_000
_MARK = {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.DOUBT: "?", Tone.HOST: "◆", Tone.VOID: "·"}


class _Page:
    """Pieces in reading order with the bytes that are left; ``keep`` is held back for what must come last."""

    def __init__(self, max_bytes: int, keep: str) -> None:
        self._pieces: list[str] = []
        self._left = max_bytes - _size(keep)

    def add(self, piece: str) -> bool:
        """Add a whole piece, or nothing."""
        if _size(piece) > self._left:
            return False
        self._pieces.append(piece)
        self._left -= _size(piece)
        return True

    def add_list(self, title: str, pieces: Iterable[str], total: int, noun: str) -> None:
        """A heading, as many whole pieces as fit, and how many of how many are shown where some are not."""
        room = _size(f"\n\n_showing {total:,} of {count(total, noun)}_\n")
        heading = f"\n### {title}\n\n"
        if self._left < _size(heading) + 2 * room:
            return
        self.add(heading)
        self._left -= room
        shown = 0
        for piece in pieces:
            if not self.add(piece):
                break
            shown += 1
        self._left += room
        if shown < total:
            self.add(f"\n_showing {shown:,} of {count(total, noun)}_\n")

    def text(self, end: str) -> str:
        """Everything, with the end that was held back."""
        return "".join([*self._pieces, end])


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def markdown(
    run: Run,
    *,
    max_bytes: int = 1_048_576,
    comparison: Comparison | None = None,
    since: Mapping[str, str] | None = None,
) -> str:
    """The summary in at most ``max_bytes`` bytes. Raises ValueError below :data:`SMALLEST`.

    ``comparison`` sets the run against a baseline; ``since`` names the first bad run by cell id, from history.
    """
    if max_bytes < SMALLEST:
        msg = f"a summary needs at least {SMALLEST:,} bytes, got {max_bytes:,}"
        raise ValueError(msg)
    shown = view(run)
    end = "\n" + _end(run)
    page = _Page(max_bytes, end)
    page.add(_head(shown))
    red = shown.red
    tests = sum(cell.failing_total for cell in red)
    lines = told(shown, comparison, since)
    if red:
        numbered = (_told(line, several=len(lines) > 1) for line in lines[:MOST_CAUSES])
        page.add_list("Triage", numbered, len(lines), "cause")
    if shown.notices:
        page.add_list("Beyond the cells", map(_notice, shown.notices), len(shown.notices), "notice")
    if comparison is not None:
        page.add(f"\n{inline(cut(comparison.text, 300))}\n")
        listed = [
            one for one in news(shown, comparison) if not (one.cell and one.cell.red)
        ]  # red ones: triage
        if listed:
            page.add_list("Changes", map(_news, listed[:MOST_CHANGES]), len(listed), "change")
    page.add(_grid(shown, numbers(lines)))
    if red:
        page.add_list("Not passed", map(_red_line, red), len(red), "cell")
        if tests:
            page.add_list("Failing tests", _test_names(red), tests, "failing test")
    groups = left_out(shown.cells, run.plan.axes)
    if groups:
        reasons = (f"- {len(g.cells):,} {LOOKS[g.word].label}: {code(cut(g.text, 400))}\n" for g in groups)
        page.add_list("Left out", reasons, len(groups), "reason")
    if red:
        page.add_list("Cells in detail", (_cell_detail(cell, run) for cell in red), len(red), "cell")
    if tests:
        page.add_list("Messages of failing tests", _messages(red), tests, "failing test")
    return page.text(end)


def _head(shown: RunView) -> str:
    run, what = shown.run, qualified(shown.run)
    facts = [what.engine, what.runtime, f"host {what.host}", f"run {run.run_id}"]
    lines = [
        f"## {_MARK[shown.tone]} {inline(shown.headline)}",
        "",
        ", ".join(code(cut(fact, 100)) for fact in facts) + "  ",
        *(f"image {code(cut(image, 160))}  " for image in what.images[:3]),
    ]
    if what.mismatch:
        lines.append(f"**{inline(cut(what.mismatch, 120))}**  ")
    lines += [f"{inline(plan_sum(run.plan))}  ", inline(outcome_sum(shown))]
    return cut_bytes("\n".join(lines), SMALLEST - 700) + "\n"


def _end(run: Run) -> str:
    return (
        "Everything, with logs: `index.html` and `junit.xml` in the artifacts of run "
        f"{code(cut(run.run_id, 80))}. Again: {code(cut(run.command or 'python -m runner ' + run.plan.matrix, 160))}\n"
    )


def _grid(shown: RunView, causes: Mapping[Cell, int]) -> str:
    table = fold(grid(shown.cells, shown.run.plan.axes))
    if not table.rows or len(table.rows) > MOST_ROWS:
        return ""
    lines = [
        _row([*map(_key, table.axes), *map(_key, table.columns)]),
        _row(["---"] * (len(table.axes) + len(table.columns))),
    ]
    for row in table.rows:
        keys = [_key(" ".join(values)) for values in row.keys]
        lines.append(_row([*keys, *(_slot(slot, causes) for slot in row.slots)]))
    text = "\n" + "\n".join(lines) + "\n"
    if any(cell.proven_by_tests_only and cell.record for cell in shown.cells):
        text += "\n\\* no engine proof: judged by tests and exit code alone\n"
    notes = never_ran(shown.run.plan.axes.get("platform", ()))
    return text + "".join(f"\n{note}\n" for note in notes)


def _row(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _key(text: str) -> str:
    return (
        text
        if re.fullmatch(r"[A-Za-z0-9](?:[\w. -]*[A-Za-z0-9])?", text, re.ASCII)
        else code(text, in_table=True)
    )


def _slot(slot: CellView | None, causes: Mapping[Cell, int]) -> str:
    if slot is None:
        return ""
    mark = "\\*" if slot.proven_by_tests_only and slot.record else ""
    time = f" {seconds(slot.record.ran_s)}" if slot.record and slot.record.ran_s else ""
    label = f"**{slot.look.label}**" if slot.red else slot.look.label
    number = causes.get(slot.entry.cell)
    return f"{slot.look.symbol} {label}{mark}{f' ({number})' if number else ''}{time}"


def _red_line(cell: CellView) -> str:
    cause = f": {code(cut(cell.cause, 200))}" if cell.cause else ""
    return f"- {cell.look.symbol} **{cell.look.label}** {code(cell.id)} ({cell.culprit}){cause}\n"


def _test_names(red: Iterable[CellView]) -> Iterator[str]:
    for cell in red:
        for case in cell.failing:
            yield f"- {code(cut(_name(case), 300))} in {code(cell.slug)}\n"


def _name(case: TestCase) -> str:
    return f"{case.classname}::{case.name}" if case.classname else case.name


def _notice(notice: tuple[bool, str, str]) -> str:
    red, culprit, text = notice
    return f"- {f'{_MARK[Tone.BAD]} **red** ({culprit}): ' if red else ''}{code(cut(text, 400))}\n"


def _told(line: Told, *, several: bool) -> str:
    head = f"- {f'({line.number}) ' if several else ''}{line.look.symbol} **{count(line.size, 'cell')} {line.look.label}** ({line.culprit}): "
    more = [
        code(cut(line.rule, 300)),
        inline(cut(line.masked, 300)),
        code(cut(line.since, 200)),
        inline(line.advice),
    ]
    return head + code(cut(line.cause, 300)) + "".join(f"  \n  {part}" for part in more if part) + "\n"


def _news(one: News) -> str:
    why = f": {code(cut(one.why, 200))}" if one.why else ""
    return f"- **{one.change}** {code(one.id)} (before {inline(one.before)}){why}\n"


def _messages(red: Iterable[CellView]) -> Iterator[str]:
    for cell in red:
        for case in cell.failing:
            text = cut_lines(
                "\n".join(case.messages) or "no message", lines=_MESSAGE_LINES, chars=_MESSAGE_CHARS
            )
            yield fold_out(f"{raw_code(cut(_name(case), 300))} in {raw_code(cell.slug)}", text)


def _cell_detail(cell: CellView, run: Run) -> str:
    lines = [f"cause: {cell.cause}", f"culprit: {cell.culprit}"]
    for attempt in cell.record.attempts if cell.record else ():
        verdict = attempt.verdict
        lines.append(
            f"attempt {attempt.number}: {LOOKS[verdict.outcome].label}, {verdict.culprit}: {verdict.cause}"
        )
    if log := cell.log:
        lines.append(f"log: {log}")
    elif cell.word == MISSING:
        lines.append("log: none, the run holds no record of this cell")
    lines.append(f"rerun: {rerun_line(run, cell.entry.cell)}")
    text = cut_lines("\n".join(lines), lines=_MESSAGE_LINES, chars=_MESSAGE_CHARS)
    return fold_out(f"{cell.look.symbol} {cell.look.label} {raw_code(cell.id)}", text)
