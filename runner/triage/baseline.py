"""What changed against an earlier run: only cells with the same test definition and model are compared."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from runner.model import Cell, Outcome, PlanEntry, Status
from runner.records import CellRecord, Run

DEFAULT_SHARE = 0.3
"""A cell is slower from 30% on where nothing is known of its noise. CPU cells took 39 to 42 s on a quiet host."""

LEAST_SLOWER_S = 5.0
"""Seconds below which no cell is called slower: start-up and the scheduler alone make as much."""

ENOUGH_TIMES = 5
"""Passing times from which the noise is taken from them: median + 3 deviations (1.4826 times the median absolute one)."""

SAYS_NOTHING = frozenset({Outcome.INFRA, Outcome.CANCELLED})
NOT_RUN = frozenset({Outcome.SKIPPED, Outcome.NO_TESTS})


class Change(StrEnum):
    """What became of a cell since the baseline."""

    NEW = "new"
    NEWLY_FLAKY = "newly flaky"
    MISSING = "missing"
    SKIPPED = "skipped"
    STILL = "still failing"
    SLOWER = "slower"
    FIXED = "fixed"
    SAME = "same"
    ADDED = "added"
    NO_ANSWER = "no answer"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One cell against the baseline. ``before`` is its word there; ``why`` says what a person needs besides."""

    cell: Cell
    change: Change
    before: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run against a baseline: every cell that is planned in one of them, in plan order."""

    baseline: str
    cells: tuple[Compared, ...]

    def counts(self) -> dict[Change, int]:
        """Cells by change, in the order of :class:`Change`; only those that occur."""
        made = dict.fromkeys(Change, 0)
        for one in self.cells:
            made[one.change] += 1
        return {change: number for change, number in made.items() if number}

    @property
    def text(self) -> str:
        """``against RUN: 2 new, 1 fixed, 3 same``."""
        parts = ", ".join(f"{number:,} {change}" for change, number in self.counts().items())
        why = dict.fromkeys(one.why for one in self.cells if one.change is Change.NOT_COMPARABLE)
        reasons = f" ({', '.join(why)})" if why else ""
        return f"against {self.baseline}: {parts or 'no cell in common'}{reasons}"


def compare(run: Run, baseline: Run, times: Mapping[str, Sequence[float]] | None = None) -> Comparison:
    """Compare two runs. ``times`` are earlier passing times in seconds by cell id, from history, where there are any."""
    now, before = _Side(run), _Side(baseline)
    made = []
    for entry in run.plan.entries:
        old = before.entries.get(entry.cell.id)
        if entry.status is Status.PLANNED or (old is not None and old.status is Status.PLANNED):
            made.append(_compared(entry, old, now, before, (times or {}).get(entry.cell.id, ())))
    known = {entry.cell.id for entry in run.plan.entries}
    made += [
        Compared(cell=old.cell, change=Change.MISSING, before=before.word(old), why="no longer in the matrix")
        for old in baseline.plan.planned()
        if old.cell.id not in known
    ]
    return Comparison(baseline=baseline.run_id, cells=tuple(made))


def definition(run: Run, entry: PlanEntry) -> str:
    """Hash of the tests a cell runs; empty where it was not recorded. The suite's tests and command are part of it."""
    suite = entry.settings.suite
    tree = run.prepared.suites.get(suite.path, "")
    chosen = " ".join((*suite.tests, *suite.command))
    return f"{tree} {chosen}".strip() if tree else ""


def model(run: Run, entry: PlanEntry) -> str:
    """What identifies the model of a cell: the digest of its files, or what was asked for where none was recorded."""
    asked = entry.settings.model
    if asked is None:
        return "none"
    made = run.prepared.models.get(f"{entry.settings.image}|{asked.name}")
    digest = made.digest if made else ""
    return digest or f"{asked.name} {asked.recipe or asked.hub or ''} {asked.revision or ''}".strip()


class _Side:
    """One run, by cell id."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.entries = {entry.cell.id: entry for entry in run.plan.entries}
        self.records = {record.cell.id: record for record in run.records}

    def word(self, entry: PlanEntry) -> str:
        record = self.records.get(entry.cell.id)
        if entry.status is not Status.PLANNED:
            return entry.status
        return record.verdict.outcome if record else "missing"


def _compared(
    entry: PlanEntry, old: PlanEntry | None, now: _Side, before: _Side, times: Sequence[float]
) -> Compared:
    word = before.word(old) if old else ""
    change, why = _change(entry, old, now, before, times)
    return Compared(cell=entry.cell, change=change, before=word, why=why)


def _change(
    entry: PlanEntry, old: PlanEntry | None, now: _Side, before: _Side, times: Sequence[float]
) -> tuple[Change, str]:
    if old is None or old.status is not Status.PLANNED:
        return Change.ADDED, "not planned in the baseline"
    if entry.status is not Status.PLANNED:
        return Change.SKIPPED, "; ".join(reason.text for reason in entry.reasons) or entry.status
    record, was = now.records.get(entry.cell.id), before.records.get(old.cell.id)
    if record is None:
        return Change.MISSING, "planned, and this run holds no record of it"
    if was is None:
        return Change.NO_ANSWER, "the baseline holds no record of it"
    if why := _differs(entry, old, now.run, before.run):
        return Change.NOT_COMPARABLE, why
    if record.verdict.outcome in SAYS_NOTHING or was.verdict.outcome in SAYS_NOTHING:
        which = "this run" if record.verdict.outcome in SAYS_NOTHING else "the baseline"
        return Change.NO_ANSWER, f"{which} has a host fault or a stop for it"
    return _judged(record, was, times)


def _differs(entry: PlanEntry, old: PlanEntry, run: Run, baseline: Run) -> str:
    tests, tests_before = definition(run, entry), definition(baseline, old)
    if entry.refused or old.refused:
        return ""
    if not tests or not tests_before:
        return "the hash of the tests was not recorded"
    if tests != tests_before:
        return "the tests changed"
    return "" if model(run, entry) == model(baseline, old) else "the model changed"


def _judged(record: CellRecord, was: CellRecord, times: Sequence[float]) -> tuple[Change, str]:
    outcome = record.verdict.outcome
    if outcome in NOT_RUN and was.verdict.outcome not in NOT_RUN:
        return Change.SKIPPED, record.verdict.cause
    if outcome is Outcome.FLAKY and was.verdict.outcome is not Outcome.FLAKY:
        return Change.NEWLY_FLAKY, record.verdict.cause
    if not record.verdict.green:
        if was.verdict.green:
            return Change.NEW, record.verdict.cause
        other = "" if was.verdict.cause == record.verdict.cause else f"before: {was.verdict.cause}"
        return Change.STILL, other
    if not was.verdict.green:
        return Change.FIXED, was.verdict.cause
    return _timed(seconds(record), [*times, *passing_times(was)])


def passing_times(record: CellRecord) -> list[float]:
    """Seconds of every passing attempt."""
    return [a.exit.duration_s for a in record.attempts if a.verdict.green and a.exit is not None]


def seconds(record: CellRecord) -> float:
    """The typical passing attempt of a cell, in seconds; 0 where none was timed."""
    found = passing_times(record)
    return statistics.median(found) if found else 0.0


def slower_from(times: Sequence[float]) -> float:
    """Seconds beyond which a cell is slower than these passing times; infinite where there are none."""
    if not times:
        return float("inf")
    middle = statistics.median(times)
    if len(times) >= ENOUGH_TIMES:
        spread = 1.4826 * statistics.median(abs(value - middle) for value in times)
        return max(middle + 3 * spread, middle * 1.05, middle + LEAST_SLOWER_S)
    return max(middle * (1 + DEFAULT_SHARE), middle + LEAST_SLOWER_S)


def _timed(took: float, times: Sequence[float]) -> tuple[Change, str]:
    limit = slower_from(times)
    if took <= limit:
        return Change.SAME, ""
    how = (
        f"noise of {len(times)} earlier runs"
        if len(times) >= ENOUGH_TIMES
        else f"{DEFAULT_SHARE:.0%} allowed"
    )
    return Change.SLOWER, f"{took:.0f} s, before {statistics.median(times):.0f} s ({how})"
