"""Facts of a good cell, and small changes to them, for the tests of the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runner.facts import (
    CellExit,
    CellFacts,
    Evidence,
    Finding,
    JUnitReport,
    RankFacts,
    Tally,
    TestCase,
    TestProgress,
    TestResult,
)
from runner.model import Culprit, Expectation, Outcome, Proof

Row = tuple[str, CellFacts, Outcome, Culprit, str]
"""A sentence of the specification, facts, and the outcome, culprit and cause that they must give."""

AXES = {"platform": "cpu", "dtype": "bfloat16", "tp": "2", "quantization": "experts_int8"}
EXPECT = Expectation(moe_method="Int8OnlineMoEMethod", expert_weight_dtype="int8")
RANKS = tuple(
    RankFacts(
        rank=rank,
        world_size=2,
        moe_methods=("Int8OnlineMoEMethod",),
        expert_weight_dtypes=("int8",),
        backends=("CPU",),
        linear_schemes=("UnquantizedLinearMethod",),
    )
    for rank in (0, 1)
)
EVIDENCE = Evidence(
    started=True,
    ended=True,
    engine="vllm",
    engine_version="0.32.0",
    platform="ZenCpuPlatform",
    device_type="cpu",
    dtype="bfloat16",
    tp=2,
    ranks=RANKS,
    phase="shutdown",
)
UNQUANTIZED = tuple(replace(rank, moe_methods=("UnquantizedFusedMoEMethod",)) for rank in RANKS)


def case(name: str, result: TestResult, *messages: str, crashed: bool = False) -> TestCase:
    return TestCase(name=name, result=result, messages=messages, crashed=crashed)


def report(*cases: TestCase, **more: Any) -> JUnitReport:
    count = {result: sum(one.result is result for one in cases) for result in TestResult}
    tally = Tally(
        total=len(cases),
        passed=count[TestResult.PASSED],
        failed=count[TestResult.FAILED],
        errors=count[TestResult.ERROR],
        skipped=count[TestResult.SKIPPED],
        xfailed=count[TestResult.XFAILED],
        flaky=count[TestResult.FLAKY],
    )
    return JUnitReport(tally=tally, cases=cases, **more)


GOOD = report(case("test_a", TestResult.PASSED), case("test_b", TestResult.PASSED))


def facts(code: int | None = 0, junit: JUnitReport | None = GOOD, **more: Any) -> CellFacts:
    known = {"oom_killed", "stopped", "fault", "message", "log_cut_bytes", "remarks"}
    ended = CellExit(exit_code=code, duration_s=1.0, **{name: more.pop(name) for name in known & more.keys()})
    base: dict[str, Any] = {"proof": Proof.ENGINE, "axes": AXES, "expect": EXPECT, "evidence": EVIDENCE}
    return CellFacts(exit=ended, report=junit, report_missing=junit is None, **(base | more))


def failing(*messages: str, result: TestResult = TestResult.FAILED) -> JUnitReport:
    return report(case("test_a", TestResult.PASSED), case("test_bad", result, *messages))


def error(
    kind: str, line: str = "RuntimeError: words", process: str = "Worker_TP1", rank: int | None = 1
) -> Finding:
    return Finding(line=line, kind=kind, rank=rank, process=process)


NO_REPORT = TestProgress(finished=3, failed=1, running="test_dies.py::test_b")
ENGINE_DIED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
