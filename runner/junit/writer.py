"""The merged JUnit file of a run: a suite for each cell of the product, written with junitparser.

The form is the one of Jenkins' xunit plugin (``junit-10.xsd``): Surefire's rerun and flaky elements, and a type on
each of them. Headers are counted once from the rows, so writing stays linear in their number. A passed cell has no
failure or error element, any other planned cell has one; cells left out are skipped with their reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.facts import JUnitReport
from runner.junit.rows import Mark, Row, Section, sections
from runner.junit.text import clean, cut, shorten
from runner.model import Status
from runner.records import Run

if TYPE_CHECKING:
    from junitparser import Element

MAX_BYTES = 20_000_000
"""Readers that matter take this much (GitLab stops at 30 MB, Jenkins grows slow): above it texts are shortened."""

_DECLARATION = b'<?xml version="1.0" encoding="utf-8"?>\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How much is told. ``line_chars``: of a message attribute; ``text_chars``: of the text. ``rows``: at most so many failing tests of a cell; ``whole``: each cell left out by itself."""

    text_chars: int
    passing: bool
    line_chars: int = 300
    rows: int = 1_000_000
    whole: bool = True
    said: str = ""


LEVELS = (
    Level(text_chars=4_000, passing=True),
    Level(text_chars=1_000, passing=True, said="texts cut to 1,000 characters"),
    Level(text_chars=300, passing=False, said="texts cut to 300 characters, passing tests not listed"),
    Level(
        text_chars=0,
        passing=False,
        rows=20,
        said="no texts, passing tests not listed, at most 20 others of a cell",
    ),
    Level(
        text_chars=0, passing=False, rows=1, whole=False, said="one failing test of a cell, no texts or facts"
    ),
)
"""Tried in this order until the file fits. No level drops a planned cell, so the last one is bounded by their number."""


@dataclass(slots=True)
class _Counts:
    tests: int = 0
    failure: int = 0
    error: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, other: _Counts) -> None:
        self.tests += other.tests
        self.failure += other.failure
        self.error += other.error
        self.skipped += other.skipped
        self.seconds += other.seconds


def write(run: Run, reports: Mapping[str, JUnitReport] | None = None, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The merged file as UTF-8. ``reports``: by cell id, what the last attempt's file said, to list passing tests too.

    Files over ``max_bytes`` are written again with less text, which each suite then says in ``shortened``.
    """
    for level in LEVELS[:-1]:
        data = _file(run, reports or {}, level, max_bytes)
        if data is not None:
            return data
    return _file(run, reports or {}, LEVELS[-1], None) or b""


def _file(run: Run, reports: Mapping[str, JUnitReport], level: Level, limit: int | None) -> bytes | None:
    """One level's file, or None as soon as it is over the limit."""
    parts: list[bytes] = []
    size = len(_DECLARATION)
    total = _Counts()
    for section in _told(sections(run, reports), level):
        counts, raw = _suite(section, run.inventory.hostname, level)
        total.add(counts)
        parts.append(raw)
        size += len(raw) + 1
        if limit is not None and size > limit:
            return None
    return b"".join([_DECLARATION, _root(run, total), *(part + b"\n" for part in parts), b"</testsuites>\n"])


def _told(all_sections: Iterator[Section], level: Level) -> Iterator[Section]:
    """Sections as a level tells them."""
    left_out: dict[Status, int] = {}
    for section in all_sections:
        if not level.whole and section.status is not Status.PLANNED:
            left_out[section.status] = left_out.get(section.status, 0) + 1
            continue
        facts = dict(section.facts) if level.whole else {}
        if level.said:
            facts["shortened"] = level.said
        yield replace(section, facts=facts, rows=_fewer(section.rows, level))
    for status, number in left_out.items():
        mark = Mark(
            tag="skipped", type=status.value, message=f"{number:,} cells are {status.value.replace('_', ' ')}"
        )
        row = Row(name=f"{number} cells", classname=status.value, marks=(mark,))
        yield Section(name=status.value, facts={}, rows=(row,), status=status)


def _fewer(rows: tuple[Row, ...], level: Level) -> tuple[Row, ...]:
    if level.passing:
        return rows
    other = [row for row in rows if row.marks]
    bad = [row for row in other if row.kind in {"failure", "error"}]
    if len(other) > level.rows:
        other = (bad or other)[: level.rows]
        more = max(len(bad) - level.rows, 0)
        if more:
            mark = Mark(tag="failure", type="more", message=f"{more:,} more tests failed")
            other.append(Row(name=f"{more} more", classname=rows[0].classname, marks=(mark,)))
    return tuple(other) or rows[:1]


def _root(run: Run, total: _Counts) -> bytes:
    from junitparser.xunit2 import JUnitXml

    root = JUnitXml(clean(run.run_id))
    root.tests, root.failures, root.errors = total.tests, total.failure, total.error
    root.time = round(total.seconds, 3)
    raw = bytes(root.tostring())  # type: ignore[no-untyped-call]
    return raw[: raw.rindex(b"/>")].rstrip() + b">\n"


def _suite(section: Section, hostname: str, level: Level) -> tuple[_Counts, bytes]:
    from junitparser.xunit2 import TestSuite

    counts = _Counts(tests=len(section.rows), seconds=section.seconds)
    suite = TestSuite(clean(section.name))  # type: ignore[no-untyped-call]
    for name, value in section.facts.items():
        suite.add_property(clean(name), shorten(clean(value), 1_000))
    for row in section.rows:
        kind = row.kind
        if kind:
            setattr(counts, kind, getattr(counts, kind) + 1)
        suite.append(_case(row, level))  # type: ignore[no-untyped-call]
    suite.tests, suite.failures, suite.errors = counts.tests, counts.failure, counts.error
    suite.skipped, suite.time = counts.skipped, round(section.seconds, 3)
    suite.hostname = clean(hostname)
    if section.timestamp:
        suite.timestamp = clean(section.timestamp)
    return counts, bytes(suite.tostring())  # type: ignore[no-untyped-call]


def _case(row: Row, level: Level) -> Element:
    from junitparser.xunit2 import TestCase

    case = TestCase(
        clean(row.name), clean(row.classname), None if row.time_s is None else round(row.time_s, 3)
    )
    for mark in row.marks:
        case.append(_child(mark, level))  # type: ignore[no-untyped-call]
    return case


def _child(mark: Mark, level: Level) -> Element:
    import junitparser
    from junitparser import xunit2

    kinds = {
        "failure": junitparser.Failure,
        "error": junitparser.Error,
        "skipped": junitparser.Skipped,
        "flakyFailure": xunit2.FlakyFailure,
        "flakyError": xunit2.FlakyError,
        "rerunFailure": xunit2.RerunFailure,
        "rerunError": xunit2.RerunError,
    }
    message, text = shorten(clean(mark.message), level.line_chars), clean(mark.text)
    element = kinds[mark.tag](message, clean(mark.type))
    text = cut(text, level.text_chars) if level.text_chars and text != message else ""
    if text and isinstance(element, xunit2.InterimResult):
        element.stack_trace = text
    elif text:
        element.text = text
    return element
