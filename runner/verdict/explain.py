"""``explain``: the same tables applied to files from anywhere, with nothing known that was not given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from runner.facts import CellExit, CellFacts, JUnitReport, Tally
from runner.model import Culprit, Outcome, Proof, Verdict
from runner.verdict.events import read_evidence
from runner.verdict.finding import find_cause
from runner.verdict.rules import judge

_LIFE = ("init engine (profile", "Processed prompts: 100%", "[shutdown]")
"""An engine's log from its start over a generation to its shutdown (vLLM 0.26 to 0.32)."""


class _Life:
    """Passes lines on and notes whether they show a whole life of an engine."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._left = list(_LIFE)

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            while self._left and self._left[0] in line[:4096]:
                self._left.pop(0)
            yield line

    @property
    def whole(self) -> bool:
        return not self._left


def explain(
    junit: JUnitReport | None,
    junit_problem: str,
    log_lines: Iterable[str] | None,
    exit_code: int | None,
    evidence_lines: Iterable[str] | None,
    *,
    partial: Tally | None = None,
) -> dict[str, Any]:
    """Outcome, culprit, cause and counts of tests for what is given; None (or an empty problem) is not given.

    An exit code that is not given is taken to agree with the report. Where evidence is given, it must prove a cell.
    A log alone is judged alone: an error in it decides; a whole life of an engine without one is called passed, and
    the cause says that nothing but the log was seen. A run never says that: there, no report is no pass.
    ``partial`` are counts of a report that cannot be read to its end: they are shown as such, and judge nothing.
    """
    life = _Life(log_lines or ())
    finding = find_cause(life)
    facts = CellFacts(
        exit=CellExit(exit_code=_assumed(junit, exit_code), duration_s=0.0),
        proof=Proof.TESTS if evidence_lines is None else Proof.ENGINE,
        report=junit,
        report_problem=junit_problem,
        report_missing=junit is None and not junit_problem,
        evidence=None if evidence_lines is None else read_evidence(evidence_lines),
        finding=finding,
    )
    log_alone = log_lines is not None and junit is None and not junit_problem and evidence_lines is None
    if log_alone and finding is None and life.whole and exit_code in {0, None}:
        words = "judged by the log alone: the engine started, generated and shut down without an error"
        verdict = Verdict(outcome=Outcome.PASSED, culprit=Culprit.NONE, cause=words)
    else:
        verdict = judge(facts)
    cause = verdict.cause or "; ".join(verdict.remarks)
    return {
        "outcome": verdict.outcome.value,
        "culprit": verdict.culprit.value,
        "cause": cause,
        "tests": _counts(junit.tally if junit is not None else partial or Tally()),
    } | ({"tests_partial": True} if partial is not None else {})


def _assumed(junit: JUnitReport | None, exit_code: int | None) -> int | None:
    if exit_code is not None or junit is None:
        return exit_code
    return 1 if junit.tally.failed + junit.tally.errors else 0


def _counts(tally: Tally) -> dict[str, int]:
    """Counts that add up: an expected failure is written as skipped, and a flaky test passed in the end."""
    return {
        "total": tally.total,
        "passed": tally.passed + tally.flaky,
        "failed": tally.failed,
        "errors": tally.errors,
        "skipped": tally.skipped + tally.xfailed,
    }
