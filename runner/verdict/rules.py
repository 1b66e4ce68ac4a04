"""The rules of a verdict, in order: the first one that matches decides. Each rule's docstring is its reason.

The order is the meaning: what the runner itself did; what the host did; what the kernel said; what the engine said;
how the process died; what the report says; whether report and exit code agree; what the evidence proves; passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from runner.facts import CellFacts
from runner.model import Culprit, Outcome, Verdict
from runner.verdict import endings, reports
from runner.verdict.case import Case
from runner.verdict.faults import classify_message

Decide = Callable[[Case], Verdict | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table: a name, and a function that gives a verdict or passes on."""

    name: str
    decide: Decide

    @property
    def reason(self) -> str:
        """Why the rule is as it is."""
        return (self.decide.__doc__ or "").strip()


RULES: tuple[Rule, ...] = tuple(
    Rule(decide.__name__, decide)
    for decide in (
        endings.cancelled,
        endings.host_fault,
        endings.hung,
        endings.timed_out,
        endings.kernel_out_of_memory,
        endings.timeout_wrapper,
        endings.engine_says,
        endings.died,
        endings.killed,
        endings.not_started,
        reports.bad_report,
        reports.no_report,
        reports.worker_crash,
        reports.fell_back,
        reports.failed,
        reports.disagreement,
        reports.no_tests,
        reports.skipped,
        reports.exit_unknown,
        reports.flaky,
        reports.lost_tests,
        reports.contradicted,
        reports.unproven,
        reports.passed,
    )
)
"""The table. The tests hold one sentence of the specification for each row."""


def judge(facts: CellFacts) -> Verdict:
    """Outcome, culprit, cause and remarks of one attempt. Never raises for any facts; never green by absence."""
    case = Case(facts)
    for rule in RULES:
        decided = rule.decide(case)
        if decided is not None:
            return replace(decided, remarks=case.remarks() + _what_to_do(decided))
    # Facts that contradict each other (counts below zero, say) end here: not known is never green.
    return case.verdict(
        Outcome.BAD_REPORT, Culprit.UNKNOWN, f"the report contradicts itself; {case.ending()}"
    )


def _what_to_do(verdict: Verdict) -> tuple[str, ...]:
    """For a fault of the host: what to mend, where the table of faults knows the words (F05)."""
    known = classify_message(verdict.cause) if verdict.fault is not None else None
    return (f"what to do: {known.hint}",) if known is not None else ()
