"""Where each blocking cell stands: what the record claims is believed only as far as the record itself bears it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runner.model import Cell, PlanEntry, Proof, Status
from runner.records import Attempt, CellRecord

UNQUANTIZED = "none"
"""The value of the axis ``quantization`` that asks for none."""


class Standing(StrEnum):
    """Where a cell of the product stands in a decision. Every cell has exactly one."""

    PASSED = "passed"
    WAIVED = "waived"
    NOT_PASSED = "not_passed"
    UNPROVEN = "unproven"
    MISSING = "missing"
    NOT_RUNNABLE = "not_runnable"
    NOT_SELECTED = "not_selected"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class Placed:
    """One cell with its standing; ``text`` says what is wrong with one that counts against the run."""

    entry: PlanEntry
    record: CellRecord | None
    standing: Standing
    text: str = ""

    @property
    def cell(self) -> Cell:
        """The cell."""
        return self.entry.cell


def place(entry: PlanEntry, record: CellRecord | None, *, waived: bool, proof: Proof) -> Placed:
    """Where a cell stands. ``proof`` is the evidence that the policy asks of a pass."""
    if entry.status is not Status.PLANNED:
        reasons = "; ".join(reason.text for reason in entry.reasons)
        return Placed(entry, None, Standing(entry.status.value), reasons)
    if record is None:
        return Placed(entry, None, Standing.MISSING, "no record of it")
    if not record.verdict.green:
        if waived:
            return Placed(entry, record, Standing.WAIVED)
        verdict = record.verdict
        text = f"{verdict.outcome.value}, culprit {verdict.culprit.value}: {verdict.cause or 'no cause is recorded'}"
        return Placed(entry, record, Standing.NOT_PASSED, text)
    problem = _problem(entry, record, proof)
    return Placed(entry, record, Standing.UNPROVEN if problem else Standing.PASSED, problem)


def passing_attempt(record: CellRecord) -> Attempt | None:
    """The attempt that the pass rests on: the last one that passed."""
    return next((one for one in reversed(record.attempts) if one.verdict.green), None)


def _problem(entry: PlanEntry, record: CellRecord, proof: Proof) -> str:
    """Why a cell that is recorded as passed is not taken for one."""
    attempt = passing_attempt(record)
    if attempt is None:
        return "recorded as passed, but no attempt of it passed"
    if entry.settings.suite.proof is Proof.TESTS and proof is Proof.ENGINE:
        return "its suite gives no engine proof (proof: tests)"
    if entry.settings.suite.proof is Proof.TESTS:
        return _contradiction(attempt)
    return _contradiction(attempt) or _evidence(attempt) or _asks_nothing(entry)


def _asks_nothing(entry: PlanEntry) -> str:
    """A quantized cell that expects no MoE method passes with unquantized experts too: its pass says nothing of it.

    Axis and engine argument count. Only ``none`` is taken for unquantized by its name; what else leaves the experts as they
    are says so in ``expect``.
    """
    asked = (entry.cell.get("quantization"), entry.settings.engine_args.get("quantization"))
    quantization = next((each for each in asked if each not in (None, "", UNQUANTIZED)), None)
    if quantization is None or entry.settings.expect.moe_method:
        return ""
    return f"its settings expect no moe_method, so nothing shows that {quantization} was in use; add it to expect"


def _contradiction(attempt: Attempt) -> str:
    tally = attempt.tally
    if tally is None or tally.passed < 1:
        return "recorded as passed, but no test passed"
    if tally.failed or tally.errors or tally.flaky:
        return f"recorded as passed, but {tally.failed + tally.errors + tally.flaky} tests did not"
    if attempt.exit is None or attempt.exit.exit_code != 0:
        return "recorded as passed, but its exit code was not 0"
    if f"attempt-{attempt.number}/junit.xml" not in attempt.files:
        return "recorded as passed, but no report is kept"
    return ""


def _evidence(attempt: Attempt) -> str:
    evidence = attempt.evidence
    if evidence is None or not evidence.started:
        return "recorded as passed, but there is no evidence of the engine"
    if not evidence.engine_version:
        return "the evidence does not say the engine's version"
    if not evidence.ranks or (evidence.tp is not None and len(evidence.ranks) != evidence.tp):
        return f"the evidence has {len(evidence.ranks)} ranks of {evidence.tp or 'an unknown number'}"
    if f"attempt-{attempt.number}/evidence.jsonl" not in attempt.files:
        return "recorded as passed, but no evidence file is kept"
    return ""
