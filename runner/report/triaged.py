"""What is broken, over how many cells, since when, whose fault, what to do: triage as every form of the report says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.model import Cell
from runner.report.text import clean, count
from runner.report.view import CellView, RunView
from runner.report.vocabulary import LOOKS, Look
from runner.triage import Cause, Change, Comparison, causes

NEWS = (Change.NEW, Change.NEWLY_FLAKY, Change.MISSING, Change.SKIPPED, Change.SLOWER, Change.FIXED)
"""Changes that are listed cell by cell, the gravest first; the others are counted."""

TONES = {
    Change.NEW: "bad",
    Change.NEWLY_FLAKY: "doubt",
    Change.MISSING: "bad",
    Change.SKIPPED: "doubt",
    Change.STILL: "bad",
    Change.SLOWER: "doubt",
    Change.FIXED: "good",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One cause as a reader gets it. ``since``, ``rule`` and ``masked`` are empty where nothing is known.

    ``number`` counts from 1; the grid names each red cell's cause by it.
    """

    look: Look
    culprit: str
    cause: str
    cells: tuple[CellView, ...]
    number: int
    rule: str
    since: str
    advice: str
    settle: tuple[CellView, ...]
    masked: str = ""

    @property
    def size(self) -> int:
        """How many cells."""
        return len(self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One cell whose result is not what the baseline had."""

    cell: CellView | None
    id: str
    change: Change
    before: str
    why: str


def told(
    shown: RunView, comparison: Comparison | None = None, since: Mapping[str, str] | None = None
) -> tuple[Told, ...]:
    """Every cause of the run, the largest first. ``since`` is the first bad run by cell id, from history."""
    views = {cell.entry.cell: cell for cell in shown.cells}
    return tuple(
        Told(
            look=LOOKS[cause.word],
            culprit=cause.culprit,
            cause=clean(cause.line) or LOOKS[cause.word].meaning,
            cells=tuple(views[cell] for cell in cause.cells),
            number=number,
            rule=clean(cause.rule.text) if cause.rule else "",
            since=_since(cause, shown, comparison, since or {}),
            advice=cause.advice,
            settle=tuple(views[cell] for cell in cause.settle),
            masked=_masked(cause),
        )
        for number, cause in enumerate(causes(shown.run), 1)
    )


def numbers(lines: Sequence[Told]) -> dict[Cell, int]:
    """The number of each red cell's cause; none where there is but one cause."""
    if len(lines) < 2:
        return {}
    return {cell.entry.cell: line.number for line in lines for cell in line.cells}


def _masked(cause: Cause) -> str:
    if not cause.masked:
        return ""
    verb = "was" if len(cause.masked) == 1 else "were"
    return (
        f"{count(len(cause.masked), 'cell')} inside failed of something else, which may hide this: "
        f"{clean(cause.masked[0].id)}"
        + (" and others" if len(cause.masked) > 1 else "")
        + f" {verb} not seen past it"
    )


def _since(cause: Cause, shown: RunView, comparison: Comparison | None, since: Mapping[str, str]) -> str:
    parts = []
    firsts = Counter(since[cell.id] for cell in cause.cells if cell.id in since)
    if firsts:
        first = min(firsts)  # run ids sort by time
        here = "new in this run" if first == shown.run.run_id else f"since run {clean(first)}"
        parts.append(here + (f" ({firsts[first]} of {len(cause.cells)})" if len(firsts) > 1 else ""))
    if comparison:
        inside = set(cause.cells)
        changes = Counter(one.change for one in comparison.cells if one.cell in inside)
        counted = ", ".join(f"{changes[change]:,} {change}" for change in Change if changes[change])
        parts.append(f"{counted} against {clean(comparison.baseline)}" if counted else "")
    return "; ".join(filter(None, parts))


def news(shown: RunView, comparison: Comparison) -> tuple[News, ...]:
    """Cells that changed in a way worth a line, the gravest change first."""
    views = {cell.entry.cell: cell for cell in shown.cells}
    listed = [one for one in comparison.cells if one.change in NEWS]
    listed.sort(key=lambda one: NEWS.index(one.change))
    return tuple(
        News(
            cell=views.get(one.cell),
            id=clean(one.cell.id),
            change=one.change,
            before=LOOKS[one.before].label if one.before in LOOKS else one.before,
            why=clean(one.why),
        )
        for one in listed
    )


def settle_line(shown: RunView, lines: tuple[Told, ...], folder: str) -> str:
    """The command that runs the few cells that would settle the causes; empty where none would."""
    import shlex

    if not any(line.settle for line in lines):
        return ""
    return f"python -m runner {shlex.quote(clean(shown.run.plan.matrix))} --settle {shlex.quote(folder)}"


def settle_note(line: Told) -> str:
    """How many cells would settle a cause."""
    return f"{count(len(line.settle), 'cell')} would settle it" if line.settle else ""
