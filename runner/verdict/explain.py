"""``explain``: the same tables applied to files from anywhere, with nothing known that was not given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runner.facts import CellExit, CellFacts, JUnitReport, Tally, TestProgress
from runner.model import Culprit, Outcome, Proof, Verdict
from runner.verdict.causes import ERROR
from runner.verdict.events import read_evidence
from runner.verdict.finding import find_cause
from runner.verdict.loglife import LogLife
from runner.verdict.rules import judge


def explain(
    junit: JUnitReport | None,
    junit_problem: str,
    log_lines: Iterable[str] | None,
    exit_code: int | None,
    evidence_lines: Iterable[str] | None,
    *,
    partial: Tally | None = None,
    report_asked: bool = False,
) -> dict[str, Any]:
    """Outcome, culprit, cause and counts of tests for what is given; None (or an empty problem) is not given.

    An exit code that is not given is taken to agree with the report, and so is the test log, which never is. Where evidence is given, it must prove a cell.
    A log alone is judged alone: an error in it decides; a whole life of an engine without one is called passed, and
    the cause says that nothing but the log was seen. A run never says that: there, no report is no pass.
    ``report_asked``: a report was named, so that a log is not alone where there is none.
    ``partial`` are counts of a report that cannot be read to its end: they are shown as such, and judge nothing.
    """
    life = LogLife(log_lines or ())
    finding = find_cause(life)
    without_report = junit is None and not junit_problem and not report_asked
    log_alone = log_lines is not None and without_report and evidence_lines is None
    if log_alone and finding is None:
        finding = life.spoiled
    facts = CellFacts(
        exit=CellExit(exit_code=_assumed(junit, exit_code), duration_s=0.0),
        proof=Proof.TESTS if evidence_lines is None else Proof.ENGINE,
        report=junit,
        report_problem=junit_problem,
        report_missing=junit is None and not junit_problem,
        progress=TestProgress(session_finished=True) if junit is not None else life.tests.progress(),
        evidence=None if evidence_lines is None else read_evidence(evidence_lines),
        finding=finding,
    )
    host = life.host_fault(exit_code) if log_alone and (finding is None or finding.kind == ERROR) else None
    if host is not None:
        verdict = host
    elif log_alone and finding is None and life.whole and exit_code in {0, None}:
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
