"""What a run says, computed once for every form of the report: words, totals, headline. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from runner.facts import TestCase
from runner.model import Culprit, Outcome, Plan, PlanEntry, Proof, Status
from runner.records import Attempt, CellRecord, Run
from runner.report.text import clean, count
from runner.report.vocabulary import LOOKS, MISSING, Look, Tone


@dataclass(frozen=True)
class CellView:
    """One cell of the product with the word it is shown by: a status, an outcome, or ``missing``."""

    entry: PlanEntry
    word: str
    record: CellRecord | None = None
    prepare_log: str = ""
    """Log of the preparation that failed, relative to the run folder, where the cell has no attempt for that reason."""

    @cached_property
    def id(self) -> str:
        """The cell's id, safe to show on one line."""
        return clean(self.entry.cell.id)

    @cached_property
    def slug(self) -> str:
        """The cell's file-safe name."""
        return self.entry.cell.slug

    @cached_property
    def look(self) -> Look:
        """Symbol, label and tone of the word."""
        return LOOKS[self.word]

    @property
    def planned(self) -> bool:
        """Whether the run must account for this cell."""
        return self.entry.status is Status.PLANNED

    @property
    def red(self) -> bool:
        """Whether the cell is planned and anything but passed."""
        return self.planned and self.word != Outcome.PASSED

    @property
    def proven_by_tests_only(self) -> bool:
        """Whether the suite promises no evidence of the engine."""
        return self.planned and self.entry.settings.suite.proof is Proof.TESTS

    @property
    def culprit(self) -> Culprit:
        """Whose fault; unknown where there is no record."""
        return self.record.verdict.culprit if self.record else Culprit.UNKNOWN

    @cached_property
    def attempt(self) -> Attempt | None:
        """The attempt to look at: the last that did not pass, otherwise the last."""
        attempts = self.record.attempts if self.record else ()
        bad = [attempt for attempt in attempts if not attempt.verdict.green]
        at_hand = bad or attempts
        return at_hand[-1] if at_hand else None

    @property
    def failing(self) -> tuple[TestCase, ...]:
        """Failing tests kept in the attempt to look at."""
        return self.attempt.failing if self.attempt else ()

    @property
    def failing_total(self) -> int:
        """How many tests failed, kept or not."""
        tally = self.attempt.tally if self.attempt else None
        return max(len(self.failing), tally.failed + tally.errors if tally else 0)

    @cached_property
    def cause(self) -> str:
        """One line: why the cell has its word. Empty for a plain pass."""
        if self.planned:
            if self.record:
                return clean(self.record.verdict.cause) or ("" if not self.red else self.look.meaning)
            return self.look.meaning
        return "; ".join(clean(reason.text) for reason in self.entry.reasons) or "no reason recorded"

    @property
    def log(self) -> str:
        """Path, relative to the run folder, of the log to look at; empty where there is none."""
        own = f"cells/{self.slug}/attempt-{self.attempt.number}/log.txt" if self.attempt else self.prepare_log
        return own if own in self.files() else ""

    def files(self) -> tuple[str, ...]:
        """Paths, relative to the run folder, of what there is to look at. An attempt names its files by cell folder."""
        if self.attempt:
            return tuple(f"cells/{self.slug}/{name}" for name in self.attempt.files)
        return (self.prepare_log,) if self.prepare_log else ()


MOST_KINDS = 4
"""Outcomes that the headline names; the totals name all."""


@dataclass(frozen=True)
class RunView:
    """A run as the report shows it."""

    run: Run
    cells: tuple[CellView, ...]
    stray: int = 0

    @cached_property
    def red(self) -> tuple[CellView, ...]:
        """Every planned cell that did not pass, missing ones included, in plan order."""
        return tuple(cell for cell in self.cells if cell.red)

    @cached_property
    def outcomes(self) -> Mapping[str, int]:
        """Planned cells by word, in the order of the vocabulary; the values add up to the planned cells."""
        counts = Counter(cell.word for cell in self.cells if cell.planned)
        return {word: counts[word] for word in LOOKS if counts[word]}

    @cached_property
    def notices(self) -> tuple[tuple[bool, str, str], ...]:
        """What the run says beyond its cells, red ones first: whether it is red, whose fault, and the line."""
        ordered = sorted(self.run.notices, key=lambda notice: not notice.red)
        return tuple((notice.red, notice.culprit, clean(notice.text)) for notice in ordered)

    @property
    def alarms(self) -> int:
        """How many notices are red."""
        return sum(notice.red for notice in self.run.notices)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Why this run cannot be taken as a whole one; empty where it can."""
        why = []
        if not self.run.finished:
            why.append("the run did not finish")
        if self.run.interrupted:
            why.append(f"interrupted by {clean(self.run.interrupted)}")
        if missing := self.outcomes.get(MISSING, 0):
            why.append(f"{count(missing, 'planned cell')} without a result")
        if self.stray:
            why.append(f"{count(self.stray, 'record')} of no planned cell")
        return tuple(why)

    @property
    def green(self) -> bool:
        """Whether the run is whole, ran something, everything passed, and no notice is red."""
        return not self.incomplete and not self.red and not self.alarms and bool(self.outcomes)

    @property
    def tone(self) -> Tone:
        """Tone of the headline: never good unless :attr:`green`."""
        if self.green:
            return Tone.GOOD
        return Tone.BAD if self.red or self.incomplete or self.alarms else Tone.DOUBT

    @property
    def headline(self) -> str:
        """The verdict as one sentence."""
        said = self._of_cells()
        if not self.alarms:
            return said
        verb = "notice is" if self.alarms == 1 else "notices are"
        word = "and" if self.red else "but"
        return f"{said.removesuffix('.')}, {word} {self.alarms:,} {verb} red."

    def _of_cells(self) -> str:
        planned = sum(self.outcomes.values())
        passed = self.outcomes.get(Outcome.PASSED, 0)
        if self.incomplete:
            what = f"{passed:,} of {count(planned, 'planned cell')} passed so far"
            return f"Incomplete: {', '.join(self.incomplete)}; {what}."
        if not planned:
            return f"Nothing ran: none of {count(len(self.cells), 'cell')} was planned."
        if not self.red:
            verb = "cell passed" if planned == 1 else "cells passed"
            return f"All {planned:,} planned {verb}." if planned > 1 else f"The one planned {verb}."
        kinds = sorted(
            ((n, word) for word, n in self.outcomes.items() if word != Outcome.PASSED), key=lambda k: -k[0]
        )
        words = [f"{n:,} {LOOKS[word].label}" for n, word in kinds]
        if len(words) > MOST_KINDS:
            words[MOST_KINDS - 1 :] = [f"{sum(n for n, _ in kinds[MOST_KINDS - 1 :]):,} others"]
        return f"{len(self.red):,} of {count(planned, 'planned cell')} did not pass: {', '.join(words)}."


def view(run: Run) -> RunView:
    """Give every cell of the product its word."""
    records: dict[str, CellRecord] = {}
    for record in run.records:
        records.setdefault(record.cell.id, record)
    cells = []
    for entry in run.plan.entries:
        if entry.status is Status.PLANNED:
            record_of = records.pop(entry.cell.id, None)
            word = record_of.verdict.outcome if record_of else MISSING
            cells.append(CellView(entry, word, record_of, _prepare_log(run, entry, record_of)))
        else:
            cells.append(CellView(entry, entry.status))
    planned_with_record = sum(cell.record is not None for cell in cells)
    return RunView(run, tuple(cells), stray=len(run.records) - planned_with_record)


def _prepare_log(run: Run, entry: PlanEntry, record: CellRecord | None) -> str:
    if record is None or record.attempts or record.refused:
        return ""
    settings = entry.settings
    models = [model for model in (settings.model, *settings.extra_models) if model]
    names = [settings.suite.path, settings.image, *(f"{settings.image}|{model.name}" for model in models)]
    failures = [run.prepared.failures[name] for name in names if name in run.prepared.failures]
    return next((clean(failure.log) for failure in failures if failure.verdict == record.verdict), "")


def plan_cells(plan: Plan) -> tuple[CellView, ...]:
    """The cells of a plan before anything ran: each shown by its status, refused ones as refused."""
    return tuple(
        CellView(entry, Outcome.REFUSED if entry.refused and entry.status is Status.PLANNED else entry.status)
        for entry in plan.entries
    )


def plan_sum(plan: Plan) -> str:
    """``product 72 = 6 planned + 12 excluded + 54 not runnable + 0 not selected``."""
    totals = plan.totals()
    parts = " + ".join(f"{n:,} {LOOKS[status].label}" for status, n in totals.items())
    return f"product {sum(totals.values()):,} = {parts}"


def outcome_sum(shown: RunView) -> str:
    """``planned 6 = 5 passed + 1 failed``: the sum over outcomes and missing."""
    parts = " + ".join(f"{n:,} {LOOKS[word].label}" for word, n in shown.outcomes.items())
    return f"planned {sum(shown.outcomes.values()):,} = {parts or '0'}"
