"""What a cell left behind: its report, its exit code beside it, and its evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.facts import CellFacts, TestProgress, TestResult
from runner.model import Culprit, Outcome, Proof
from runner.verdict import judge
from tests.runner.verdict.factory import (
    AXES,
    EVIDENCE,
    EXPECT,
    GOOD,
    NO_REPORT,
    RANKS,
    UNQUANTIZED,
    Row,
    case,
    error,
    facts,
    failing,
    report,
)

TABLE: list[Row] = [
    # ---- passed
    ("tests passed and the evidence proves the cell", facts(), Outcome.PASSED, Culprit.NONE, ""),
    (
        "a suite that promises tests alone passes on report and exit code alone",
        facts(proof=Proof.TESTS, evidence=None),
        Outcome.PASSED,
        Culprit.NONE,
        "",
    ),
    (
        "an error in the log of a cell whose tests all passed was caused on purpose",
        facts(finding=error("refused", process="")),
        Outcome.PASSED,
        Culprit.NONE,
        "",
    ),
    ("oom flag with exit 0 is a remark (C02)", facts(oom_killed=True), Outcome.PASSED, Culprit.NONE, ""),
    # ---- failed
    (
        "a plain failing test is failed, product, with its first message",
        facts(1, failing("AssertionError: tokens differ\nE  more")),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "test_bad: AssertionError: tokens differ",
    ),
    (
        "exit 0 with a failing report is failed (C14)",
        facts(0, failing("no")),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "test_bad: no",
    ),
    (
        "exit non-zero with an all-passing report is no agreement, never a pass",
        facts(1),
        Outcome.FAILED,
        Culprit.UNKNOWN,
        "exit code 1, but no test of the report failed (2 passed)",
    ),
    (
        "exit 5 with passed tests is no agreement",
        facts(5),
        Outcome.FAILED,
        Culprit.UNKNOWN,
        "exit code 5, but no test of the report failed (2 passed)",
    ),
    (
        "a file that cannot be collected is the suite's fault",
        facts(2, report(case("", TestResult.ERROR, "collection failure"))),
        Outcome.FAILED,
        Culprit.TEST,
        ": collection failure",
    ),
    (
        "a failing test that says nothing of the engine is not explained by an error in the log",
        facts(1, failing("assert 3 == 4"), finding=error("refused", process="")),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "test_bad: assert 3 == 4",
    ),
    (
        "evidence of another dtype than the cell's is failed",
        facts(evidence=replace(EVIDENCE, dtype="float16")),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "the engine ran in float16, the cell is bfloat16",
    ),
    (
        "evidence of the wrong expert weight dtype is failed",
        facts(
            evidence=replace(
                EVIDENCE, ranks=(RANKS[0], replace(RANKS[1], expert_weight_dtypes=("bfloat16",)))
            )
        ),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "rank 1 reports expert weight dtype bfloat16, expected int8",
    ),
    (
        "only some ranks unquantized is failed, not fell_back",
        facts(evidence=replace(EVIDENCE, ranks=(RANKS[0], UNQUANTIZED[1]))),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "rank 1 reports MoE method UnquantizedFusedMoEMethod, expected Int8OnlineMoEMethod",
    ),
    (
        "a failing report stands although the cell was killed after it",
        facts(137, failing("no")),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "test_bad: no",
    ),
    # ---- fell_back
    (
        "every rank reports the unquantized method class: fell_back, though all tests passed",
        facts(evidence=replace(EVIDENCE, ranks=UNQUANTIZED)),
        Outcome.FELL_BACK,
        Culprit.PRODUCT,
        "every rank reports UnquantizedFusedMoEMethod, expected Int8OnlineMoEMethod: the experts are not quantized",
    ),
    (
        "fell_back outranks failed",
        facts(
            1,
            failing("AssertionError: UnquantizedFusedMoEMethod"),
            evidence=replace(EVIDENCE, ranks=UNQUANTIZED),
        ),
        Outcome.FELL_BACK,
        Culprit.PRODUCT,
        "every rank reports UnquantizedFusedMoEMethod, expected Int8OnlineMoEMethod: the experts are not quantized",
    ),
    (
        "a platform's own variant of the unquantized class is a fall-back too",
        facts(
            evidence=replace(
                EVIDENCE,
                ranks=tuple(replace(rank, moe_methods=("ZenUnquantizedFusedMoEMethod",)) for rank in RANKS),
            )
        ),
        Outcome.FELL_BACK,
        Culprit.PRODUCT,
        "every rank reports ZenUnquantizedFusedMoEMethod, expected Int8OnlineMoEMethod: the experts are not quantized",
    ),
    (
        "a kernel backend other than asked is a fall-back",
        facts(expect=replace(EXPECT, moe_backend="triton")),
        Outcome.FELL_BACK,
        Culprit.PRODUCT,
        "rank 0 reports MoE backend CPU, expected triton (and 1 more)",
    ),
    # ---- unproven
    (
        "tests passed, evidence missing",
        facts(evidence=None),
        Outcome.UNPROVEN,
        Culprit.TEST,
        "the cell left no evidence of the engine that ran",
    ),
    (
        "tests passed, evidence of another engine version than the candidate",
        facts(expect_engine="0.33.0"),
        Outcome.UNPROVEN,
        Culprit.CONFIG,
        "engine 0.32.0 ran, but 0.33.0 is the candidate",
    ),
    (
        "tests passed on another platform than the cell's",
        facts(axes=AXES | {"platform": "rocm"}),
        Outcome.UNPROVEN,
        Culprit.CONFIG,
        "the engine ran as ZenCpuPlatform on cpu, which is not platform rocm",
    ),
    (
        "a rank without a record",
        facts(evidence=replace(EVIDENCE, ranks=RANKS[:1])),
        Outcome.UNPROVEN,
        Culprit.TEST,
        "2 ranks should report themselves, but these did: 0",
    ),
    # ---- no_report, bad_report, no_tests, skipped
    (
        "exit 0 and no report is never green, and the running test is named (C05)",
        facts(0, None, progress=NO_REPORT),
        Outcome.NO_REPORT,
        Culprit.TEST,
        "no test report was written; exit code 0; 3 tests finished, 1 failed, running test_dies.py::test_b",
    ),
    (
        "exit 1 and no report (C05)",
        facts(1, None),
        Outcome.NO_REPORT,
        Culprit.TEST,
        "no test report was written; exit code 1",
    ),
    (
        "exit 0 and no report stays no_report although the log holds an error",
        facts(0, None, finding=error("crashed")),
        Outcome.NO_REPORT,
        Culprit.TEST,
        "no test report was written; exit code 0; first error of the log: rank 1: RuntimeError: words",
    ),
    (
        "a truncated report is never a pass, not even with exit 0 (J12)",
        facts(0, None, report_problem="truncated report: it ends at line 2"),
        Outcome.BAD_REPORT,
        Culprit.TEST,
        "truncated report: it ends at line 2; exit code 0",
    ),
    (
        "tests that began and are not in the report were lost (J22)",
        facts(0, replace(GOOD, lost=3), progress=TestProgress(running="t::c")),
        Outcome.BAD_REPORT,
        Culprit.TEST,
        "3 tests that the header promises are not in the report, and t::c began and did not end",
    ),
    (
        "promised tests that no test log accounts for were lost, exit 0 or not (J22)",
        facts(0, replace(GOOD, lost=9), proof=Proof.TESTS),
        Outcome.BAD_REPORT,
        Culprit.TEST,
        "9 tests that the header promises are not in the report, and no test log says that the session ran to its end",
    ),
    (
        "a test log that was cut before the session's end does not account for them either",
        facts(0, replace(GOOD, lost=9), progress=TestProgress(finished=2, passed=2)),
        Outcome.BAD_REPORT,
        Culprit.TEST,
        "9 tests that the header promises are not in the report, and no test log says that the session ran to its end",
    ),
    (
        "with a session that finished they are subtests (J23)",
        facts(0, replace(GOOD, lost=9), progress=TestProgress(finished=2, passed=2, session_finished=True)),
        Outcome.PASSED,
        Culprit.NONE,
        "",
    ),
    (
        "an empty report is no_tests with exit 0",
        facts(0, report()),
        Outcome.NO_TESTS,
        Culprit.TEST,
        "the report holds no test that ran; exit code 0",
    ),
    (
        "an empty report is no_tests with exit 5 (J26)",
        facts(5, report()),
        Outcome.NO_TESTS,
        Culprit.TEST,
        "the report holds no test that ran; exit code 5",
    ),
    (
        "exit 5 without a report",
        facts(5, None),
        Outcome.NO_TESTS,
        Culprit.TEST,
        "no test was collected (exit code 5) and no report written",
    ),
    (
        "all skipped is skipped, with the common reason (J26)",
        facts(0, report(*(case(f"t{n}", TestResult.SKIPPED, "no accelerator visible") for n in range(3)))),
        Outcome.SKIPPED,
        Culprit.TEST,
        "all 3 tests were skipped: no accelerator visible",
    ),
    (
        "an expected failure is no pass",
        facts(0, report(case("t", TestResult.XFAILED))),
        Outcome.SKIPPED,
        Culprit.TEST,
        "all 1 tests were skipped, without a reason",
    ),
    # ---- flaky
    (
        "a test that failed and then passed within the report is flaky (J06)",
        facts(0, report(case("test_a", TestResult.PASSED), case("test_f", TestResult.FLAKY))),
        Outcome.FLAKY,
        Culprit.PRODUCT,
        "test_f failed first and passed when it was run again",
    ),
    (
        "flaky with exit 1",
        facts(1, report(case("test_f", TestResult.FLAKY))),
        Outcome.FLAKY,
        Culprit.PRODUCT,
        "test_f failed first and passed when it was run again",
    ),
]


@pytest.mark.parametrize(
    ("given_facts", "outcome", "culprit", "cause"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_rule(given_facts: CellFacts, outcome: Outcome, culprit: Culprit, cause: str) -> None:
    verdict = judge(given_facts)
    assert (verdict.outcome, verdict.culprit, verdict.cause) == (outcome, culprit, cause)
