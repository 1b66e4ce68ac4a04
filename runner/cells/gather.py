"""What an attempt left, as facts for the verdict: report, evidence, streamed test log, first error of the logs."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from runner import junit, verdict
from runner.codec import sha256
from runner.errors import BadReport
from runner.facts import CellExit, CellFacts, JUnitReport, TestCase, TestResult
from runner.machine import Given
from runner.model import PlanEntry

KEPT_FAILING = 50
"""Tests that did not pass which a record keeps in full; the report file has all of them."""


def facts_of(
    entry: PlanEntry, here: Path, ended: CellExit, expect_engine: str | None, given: Given | None
) -> CellFacts:
    """Everything that is known of an attempt whose files lie in ``here``."""
    report, problem, missing = _report(here / "junit.xml")
    with _lines(here / "evidence.jsonl") as evidence, _lines(here / "tests.jsonl") as tests:
        seen = None if evidence is None else verdict.read_evidence(evidence)
        progress = None if tests is None else verdict.read_progress(tests)
    if report is not None and progress is not None and ended.stopped is not None:
        report = _without(report, progress.running)
    # Workers log their errors to a file of their own as well: it survives where a kill loses what a pipe still held.
    with _lines(here / "engine-errors.log") as errors:
        apart = sum(1 for _ in errors or ())
    with _lines(here / "engine-errors.log") as errors, _lines(here / "log.txt") as log:
        finding = verdict.find_cause(chain(errors or (), log or ()))
    if finding is not None:  # its line counts in log.txt, 0 where it is not in there
        finding = replace(finding, line_number=max(0, finding.line_number - apart))
    return CellFacts(
        exit=ended,
        proof=entry.settings.suite.proof,
        expect=entry.settings.expect,
        memory_limit_bytes=entry.settings.limits.memory_bytes,
        axes=dict(entry.cell.axes),
        report=report,
        report_problem=problem,
        report_missing=missing,
        progress=progress,
        evidence=seen,
        finding=finding,
        expect_engine=expect_engine,
        given=given,
        compared=entry.settings.model is not None and entry.settings.model.recipe is not None,
    )


def _without(report: JUnitReport, running: str) -> JUnitReport:
    """A report without the test that was stopped, which reads as passed.

    pytest 9 writes it as ``<testcase time="..."/>``: without a result, and without its names, which it adds at the end.
    """
    name = running.rpartition("::")[2]
    passed = [case for case in report.cases if case.result is TestResult.PASSED]
    cut = [case for case in passed if case.name == name or not (case.classname or case.file)]
    if not running or len(cut) != 1:
        return report
    tally = replace(report.tally, total=report.tally.total - 1, passed=report.tally.passed - 1)
    return replace(report, tally=tally, cases=tuple(case for case in report.cases if case is not cut[0]))


def _report(path: Path) -> tuple[JUnitReport | None, str, bool]:
    try:
        return junit.read(path), "", False
    except FileNotFoundError:
        return None, "", True
    except BadReport as error:
        return None, str(error), False


@contextlib.contextmanager
def _lines(path: Path) -> Iterator[Iterator[str] | None]:
    try:
        plain = stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        plain = False
    if not plain:
        yield None
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        yield iter(file)


def failing_of(report: JUnitReport | None) -> tuple[TestCase, ...]:
    """The tests that did not pass, as many as a record keeps."""
    if report is None:
        return ()
    bad = {TestResult.FAILED, TestResult.ERROR, TestResult.FLAKY}
    return tuple(case for case in report.cases if case.result in bad)[:KEPT_FAILING]


def hashes_of(here: Path) -> dict[str, str]:
    """The content hash of every plain file of an attempt, by its path below the cell's folder."""
    found = {}
    for path in sorted(here.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[f"{here.name}/{path.relative_to(here).as_posix()}"] = sha256(path)
    return found
