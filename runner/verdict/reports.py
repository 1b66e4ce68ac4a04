"""Rules about what a cell left behind: its report, whether the exit code agrees, and what the evidence proves.

Each docstring is the rule's reason; :mod:`runner.verdict.rules` holds their order.
"""

from __future__ import annotations

import re
from dataclasses import replace

from runner.facts import TestResult
from runner.model import Culprit, Fault, Outcome, Verdict
from runner.verdict.case import Case, say
from runner.verdict.exits import NO_TESTS_COLLECTED, exit_words
from runner.verdict.proof import Kind

_COLLECTION = re.compile(r"collection failure|ImportError while (?:loading conftest|importing test module)")


def bad_report(case: Case) -> Verdict | None:
    """A report that is cut off or unreadable is no report, whatever the exit code says (J12)."""
    problem = case.facts.report_problem
    return case.verdict(Outcome.BAD_REPORT, Culprit.TEST, f"{problem}; {case.ending()}") if problem else None


def no_report(case: Case) -> Verdict | None:
    """No report: never green, not even with exit 0 (C05, C14). pytest's 5 says that nothing was collected."""
    if case.report is not None:
        return None
    if case.code == NO_TESTS_COLLECTED:
        return case.verdict(
            Outcome.NO_TESTS, Culprit.TEST, "no test was collected (exit code 5) and no report written"
        )
    words = f"no test report was written; {case.ending()}"
    if case.code is None and not case.facts.exit.message:
        words = "no test report was written and the exit code is not known"
    if case.facts.finding is not None:
        words += f"; first error of the log: {say(case.facts.finding)}"
    return case.verdict(Outcome.NO_REPORT, Culprit.TEST, words)


def worker_crash(case: Case) -> Verdict | None:
    """A test worker died (pytest-xdist): a crash needs eyes, even where the test passed when it was run again (J22)."""
    report = case.report
    if report is None:
        return None
    crashed = [test for test in report.cases if test.crashed]
    if not crashed and not report.crashed:
        return None
    where = f" while running {crashed[0].name}" if crashed else ""
    return case.verdict(Outcome.CRASHED, Culprit.PRODUCT, f"worker crash{where}; {case.counted()}")


def fell_back(case: Case) -> Verdict | None:
    """Unquantized experts or another backend than asked: says more than the failed test that noticed it."""
    return _by_doubt(case, Kind.FELL_BACK, Outcome.FELL_BACK)


def failed(case: Case) -> Verdict | None:
    """A test failed; the report is believed over an exit code of 0 (C14). A file that cannot be collected is the suite's."""
    if not case.bad:
        return None
    failing = case.failing
    collecting = bool(failing) and all(_COLLECTION.search("\n".join(test.messages)) for test in failing)
    culprit = Culprit.TEST if collecting else Culprit.PRODUCT
    return case.verdict(Outcome.FAILED, culprit, case.first_failure())


def disagreement(case: Case) -> Verdict | None:
    """Exit code and report must agree: a failing command without a failing test is a contradiction, not a pass.

    Two codes agree with a report that has no failed test: 5 where nothing ran, and 1 where a test was flaky.
    """
    agrees = case.code in {0, None} or (
        case.nothing_ran if case.code == NO_TESTS_COLLECTED else case.code == 1 and case.tally.flaky > 0
    )
    if agrees:
        return None
    lost = f"; {case.report.lost} tests are not in the report" if case.report and case.report.lost > 0 else ""
    words = f"{exit_words(case.code)}, but no test of the report failed ({case.counted()}){lost}"
    return case.verdict(Outcome.FAILED, Culprit.UNKNOWN, words)


def no_tests(case: Case) -> Verdict | None:
    """A whole report without a test: a renamed folder or a marker that matches nothing (J26)."""
    if case.tally.total > 0 and not (case.nothing_ran and not case.tally.skipped and not case.tally.xfailed):
        return None
    return case.verdict(
        Outcome.NO_TESTS, Culprit.TEST, f"the report holds no test that ran; {exit_words(case.code)}"
    )


def skipped(case: Case) -> Verdict | None:
    """Every test skipped itself (or was expected to fail): nothing was tested, and pytest says 0 (J26)."""
    if case.tally.passed or case.tally.flaky:
        return None
    reason = case.skip_reason()
    words = f"all {case.tally.total} tests were skipped" + (f": {reason}" if reason else ", without a reason")
    return case.verdict(Outcome.SKIPPED, Culprit.TEST, words)


def exit_unknown(case: Case) -> Verdict | None:
    """A good report without an exit code: the runtime lost the cell, so what happened after the report is not known."""
    if case.code is not None:
        return None
    words = case.facts.exit.message or "the runtime does not know how the cell ended"
    decided = case.verdict(Outcome.INFRA, Culprit.HOST, f"{words}; {case.counted()}")
    return replace(decided, fault=Fault.DAEMON)


def flaky(case: Case) -> Verdict | None:
    """A test failed and then passed within this report: never a clean pass (J06)."""
    if not case.tally.flaky:
        return None
    named = [
        test.name for test in (case.report.cases if case.report else ()) if test.result is TestResult.FLAKY
    ]
    who = named[0] if named else f"{case.tally.flaky} tests"
    return case.verdict(
        Outcome.FLAKY, Culprit.PRODUCT, f"{who} failed first and passed when it was run again"
    )


def lost_tests(case: Case) -> Verdict | None:
    """The header promises more tests than there are: they were lost (J22), unless a test log saw the session end.

    With exit 0 and such a log, subtests explain the header, so that only a remark is left (J23).
    """
    progress, report = case.facts.progress, case.report
    if report is None or report.lost <= 0:
        return None
    if progress is not None and progress.session_finished and not progress.running:
        return None
    unfinished = "no test log says that the session ran to its end"
    why = f"{progress.running} began and did not end" if progress and progress.running else unfinished
    words = f"{report.lost} tests that the header promises are not in the report, and {why}"
    return case.verdict(Outcome.BAD_REPORT, Culprit.TEST, words)


def contradicted(case: Case) -> Verdict | None:
    """The evidence says other than the cell: a wrong class, dtype, world size or number is a failed test."""
    return _by_doubt(case, Kind.CONTRADICTS, Outcome.FAILED)


def unproven(case: Case) -> Verdict | None:
    """Tests passed, but the evidence is missing, incomplete, or of another engine or platform."""
    return _by_doubt(case, Kind.MISSING, Outcome.UNPROVEN)


def passed(case: Case) -> Verdict | None:
    """A whole report with a passed test and none failed, exit 0, and no doubt left."""
    good = case.report is not None and case.tally.passed > 0 and not case.bad and case.code == 0
    return Verdict(outcome=Outcome.PASSED) if good and not case.doubts else None


def _by_doubt(case: Case, kind: Kind, outcome: Outcome) -> Verdict | None:
    if case.report is None or case.nothing_ran:
        return None
    found = [doubt for doubt in case.doubts if doubt.kind is kind]
    if not found:
        return None
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return case.verdict(outcome, found[0].culprit, found[0].text + more)
