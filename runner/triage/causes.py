"""What is broken, over how many cells, since when, whose fault, what to do: one line a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from runner.model import Cell, Culprit, Outcome, PlanEntry, Status
from runner.records import CellRecord, Run
from runner.triage.explain import Explanation, explain
from runner.triage.signature import signature
from runner.triage.wording import joined

MISSING = "missing"
MOST_EXPLAINED = 30
"""Causes for which a rule is sought; the largest come first."""

MASKED_BY_HOST = frozenset({Outcome.INFRA, Outcome.CANCELLED})
"""Ends that say nothing of the cell: it could run again and be seen."""

ADVICE: Mapping[str, str] = {
    Culprit.PRODUCT: "report it to the engine with its log; the rerun line shows it again",
    Culprit.CONFIG: "change the matrix file or the engine arguments",
    Culprit.HOST: "mend the host, then run --failed-in this folder",
    Culprit.IMAGE: "mend the image; its build log is among the files",
    Culprit.TEST: "mend the suite: nothing is known of the engine",
    Culprit.UNKNOWN: "read the log; run it again to see whether it stays",
    Culprit.NONE: "run it again: nothing is known of the cell",
}
"""What to do by whose fault it is."""

ADVICE_BY_WORD: Mapping[str, str] = {
    Outcome.FLAKY: "run it again with --repeat 10 --until-fail to catch it",
    Outcome.FELL_BACK: "the engine ran without the method that was asked: report it, or ask for what it supports",
    Outcome.OUT_OF_MEMORY: "give the cell more memory, or report what grew",
    Outcome.UNSUPPORTED: "take a host that can do it, or say so in the matrix: requires, or a rule with its reason",
    Outcome.REFUSED: "follow the rule that refused it, or ask the engine with --no-rules",
    MISSING: "finish the run with --resume this folder",
}


@dataclass(frozen=True)
class Cause:
    """Cells of one word and culprit with the same cause.

    ``line`` is true of all of them: where they differ in a number, it has the range. ``masked`` are cells that the rule
    would have fail too, and that failed of something else: that may have come first and hidden this.
    """

    word: str
    culprit: Culprit
    line: str
    cells: tuple[Cell, ...]
    rule: Explanation | None = None
    masked: tuple[Cell, ...] = ()

    @property
    def advice(self) -> str:
        """What to do."""
        return ADVICE_BY_WORD.get(self.word) or ADVICE[self.culprit]

    @cached_property
    def settle(self) -> tuple[Cell, ...]:
        """Cells that would settle the rule."""
        return self.rule.settle if self.rule else ()


def causes(run: Run) -> tuple[Cause, ...]:
    """Every cell that is not green, by cause: the largest first, then in plan order. Each cell is in one cause."""
    records = _records(run)
    groups: dict[tuple[str, Culprit, str], list[tuple[Cell, str]]] = {}
    for entry in run.plan.planned():
        record = records.get(entry.cell.id)
        if record is None:
            groups.setdefault((MISSING, Culprit.UNKNOWN, ""), []).append((entry.cell, ""))
        elif not record.verdict.green:
            verdict = record.verdict
            key = (str(verdict.outcome), verdict.culprit, signature(verdict.cause))
            groups.setdefault(key, []).append((entry.cell, verdict.cause))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    passed = [record.cell for record in records.values() if record.verdict.green]
    red = [cell for _, members in ordered for cell, _ in members]
    unseen = [entry.cell for entry in run.plan.entries if _unseen(entry, records.get(entry.cell.id))]
    found = []
    for at, ((word, culprit, _), members) in enumerate(ordered):
        cells = tuple(cell for cell, _ in members)
        sought = at < MOST_EXPLAINED and word not in (MISSING, *MASKED_BY_HOST)
        rule = explain(cells, passed, unseen) if sought else None
        line = joined([cause for _, cause in members])
        masked = _masked(rule, cells, red)
        found.append(Cause(word=word, culprit=culprit, line=line, cells=cells, rule=rule, masked=masked))
    return tuple(found)


def _masked(rule: Explanation | None, cells: tuple[Cell, ...], red: list[Cell]) -> tuple[Cell, ...]:
    """Cells inside a rule that is more than a guess, red of another cause."""
    if rule is None or not rule.said:
        return ()
    own = set(cells)
    return tuple(cell for cell in red if cell not in own and all(term.holds(cell) for term in rule.terms))


def settle(run: Run) -> tuple[str, ...]:
    """Ids of the cells that would settle what explains the failures: over all causes, each once."""
    return tuple(dict.fromkeys(cell.id for cause in causes(run) for cell in cause.settle))


def _records(run: Run) -> dict[str, CellRecord]:
    found: dict[str, CellRecord] = {}
    for record in run.records:
        found.setdefault(record.cell.id, record)
    return {entry.cell.id: found[entry.cell.id] for entry in run.plan.planned() if entry.cell.id in found}


def _unseen(entry: PlanEntry, record: CellRecord | None) -> bool:
    """Whether a cell could run here and nothing is known of it: not selected, sampled out, missing, or stopped.

    A cell that the host failed is none: it would fail so again until the host is mended.
    """
    if entry.status is Status.NOT_SELECTED:
        return True
    if entry.status is not Status.PLANNED or entry.refused is not None:
        return False
    return record is None or record.verdict.outcome is Outcome.CANCELLED
