"""Which waivers hold for which cells of a run, and what is to be said of those that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from runner.errors import UsageError
from runner.expr import parse
from runner.model import Cell, PlanEntry, Status, Verdict
from runner.records import Run
from runner.release.patterns import fits
from runner.release.values import Waived, Waiver, WaiverReport, WaiverState


@dataclass(frozen=True, slots=True)
class Waiving:
    """Waived cells in plan order, what to say of each waiver, and why a red cell in a scope is not waived."""

    waived: tuple[Waived, ...]
    reports: tuple[WaiverReport, ...]
    misfits: dict[Cell, str]


def apply(run: Run, waivers: Sequence[Waiver], today: date, max_days: int | None = None) -> Waiving:
    """Hold waivers against what the cells of a run came to. Cells that did not run are never waived.

    Of two waivers that fit one cell the first of the file has it; both count as used. ``max_days`` bounds how long a
    waiver may still have to go.
    """
    verdicts = {record.cell: record.verdict for record in run.records}
    waived: dict[Cell, Waived] = {}
    reports: list[WaiverReport] = []
    misfits: dict[Cell, str] = {}
    product = [(entry, dict(entry.cell.axes)) for entry in run.plan.entries] if waivers else []
    for waiver in waivers:
        scope, problem = _scope(run.plan.axes, product, waiver)
        if waiver.expires < today:
            text = f"expired on {waiver.expires}"
            reports.append(_report(waiver, WaiverState.EXPIRED, text, scope))
            misfits |= {cell: f"{waiver.source} {text}" for cell in scope if cell not in misfits}
        elif max_days is not None and waiver.expires > today + timedelta(days=max_days):
            text = f"holds until {waiver.expires}, more than {max_days} days from now"
            reports.append(_report(waiver, WaiverState.TOO_LONG, text, scope))
            misfits |= {cell: f"{waiver.source} {text}" for cell in scope if cell not in misfits}
        elif not scope:
            reports.append(_report(waiver, WaiverState.UNMATCHED, problem))
        else:
            reports += _sort(waiver, scope, verdicts, waived, misfits)
    order = [record.cell for record in run.records]
    return Waiving(tuple(waived[cell] for cell in order if cell in waived), tuple(reports), misfits)


def _report(waiver: Waiver, state: WaiverState, text: str, cells: Sequence[Cell] = ()) -> WaiverReport:
    return WaiverReport(waiver=waiver, state=state, text=text, cells=tuple(cells))


def _scope(
    axes: Mapping[str, tuple[str, ...]], product: Sequence[tuple[PlanEntry, dict[str, str]]], waiver: Waiver
) -> tuple[list[Cell], str]:
    """The cells of a scope that the matrix file does not exclude, or why there are none."""
    try:
        expression = parse(waiver.scope, values=axes)
        entries = [entry for entry, facts in product if expression.matches(facts)]
    except UsageError as error:
        return [], f"scope: {error}"
    cells = [entry.cell for entry in entries if entry.status is not Status.EXCLUDED]
    if entries and not cells:
        return [], "the matrix file excludes every cell of its scope"
    return cells, "" if cells else "its scope is no cell of the product"


def _sort(
    waiver: Waiver,
    scope: Sequence[Cell],
    verdicts: dict[Cell, Verdict],
    waived: dict[Cell, Waived],
    misfits: dict[Cell, str],
) -> list[WaiverReport]:
    """Sort the cells of a scope into waived, passing, red for another cause, and not run."""
    used, passing, other = [], [], []
    for cell in scope:
        verdict = verdicts.get(cell)
        if verdict is None:
            continue
        if verdict.green:
            passing.append(cell)
            continue
        misfit = _misfit(waiver, verdict)
        if misfit:
            other.append(cell)
            misfits.setdefault(cell, f"{waiver.source} {misfit}")
            continue
        used.append(cell)
        waived.setdefault(
            cell, Waived(cell=cell, outcome=verdict.outcome, cause=verdict.cause, waiver=waiver)
        )
    found = []
    if used:
        found.append(_report(waiver, WaiverState.USED, f"holds until {waiver.expires}", used))
    if passing:
        narrow = "narrow its scope" if used or other else "remove it"
        found.append(_report(waiver, WaiverState.PASSING, f"a cell it waives passes: {narrow}", passing))
    if other:
        found.append(_report(waiver, WaiverState.OTHER, "does not fit what happened", other))
    return found or [_report(waiver, WaiverState.IDLE, "none of its cells ran", scope)]


def _misfit(waiver: Waiver, verdict: Verdict) -> str:
    if verdict.outcome not in waiver.outcomes:
        return f"expects {' or '.join(waiver.outcomes)}"
    if not fits(waiver.cause, verdict.cause):
        return f"expects a cause with {waiver.cause!r}"
    return ""
