"""How a cell ended: by the runner, the host, the kernel, the engine's word, or a signal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.facts import CellFacts, Evidence, TestResult
from runner.model import Culprit, Fault, Outcome, Stop
from runner.verdict import judge
from tests.runner.verdict.factory import (
    ENGINE_DIED,
    EVIDENCE,
    GOOD,
    NO_REPORT,
    Row,
    case,
    error,
    facts,
    failing,
    report,
)

TABLE: list[Row] = [
    # ---- crashed
    (
        "the engine died: crashed, product, first worker error and not 'Engine core initialization failed'",
        facts(1, failing(ENGINE_DIED), finding=error("crashed", "IndexError: Dimension out of range")),
        Outcome.CRASHED,
        Culprit.PRODUCT,
        "rank 1: IndexError: Dimension out of range",
    ),
    (
        "the engine died for something missing in the image: crashed, image",
        facts(1, None, finding=error("image", "FileNotFoundError: '/sbin/ldconfig'", "EngineCore", None)),
        Outcome.CRASHED,
        Culprit.IMAGE,
        "FileNotFoundError: '/sbin/ldconfig'",
    ),
    (
        "all tests passed, the report is complete, then SIGSEGV at exit (C06)",
        facts(139),
        Outcome.CRASHED,
        Culprit.PRODUCT,
        "2 passed, then SIGSEGV after the report was written; exit code 139",
    ),
    (
        "abort before the report (C05)",
        facts(134, None, progress=NO_REPORT),
        Outcome.CRASHED,
        Culprit.PRODUCT,
        "3 tests finished, 1 failed, running test_dies.py::test_b, then SIGABRT; exit code 134",
    ),
    (
        "a signal that a wrapper reports as a negative number",
        facts(-11, None),
        Outcome.CRASHED,
        Culprit.PRODUCT,
        "SIGSEGV; exit code -11",
    ),
    (
        "a worker crash of xdist needs eyes although the test passed later (J22)",
        facts(
            0, report(case("test_ok", TestResult.PASSED), case("test_boom", TestResult.FLAKY, crashed=True))
        ),
        Outcome.CRASHED,
        Culprit.PRODUCT,
        "worker crash while running test_boom; 1 passed",
    ),
    (
        "a program that is not in the image",
        facts(127, None),
        Outcome.CRASHED,
        Culprit.IMAGE,
        "the cell's program could not be started in this image: exit code 127",
    ),
    (
        "a build step that fails",
        facts(None, None, fault=Fault.BUILD, message="step 7 of images/cpu failed"),
        Outcome.CRASHED,
        Culprit.IMAGE,
        "step 7 of images/cpu failed",
    ),
    # ---- killed, out_of_memory
    (
        "137 without an oom event is killed, never out of memory (C02)",
        facts(137, None, evidence=None),
        Outcome.KILLED,
        Culprit.UNKNOWN,
        "ended by SIGKILL from elsewhere, without an out-of-memory event; exit code 137 (SIGKILL)",
    ),
    (
        "SIGTERM that the runner did not send",
        facts(143, None),
        Outcome.KILLED,
        Culprit.UNKNOWN,
        "ended by SIGTERM from elsewhere, without an out-of-memory event; exit code 143 (SIGTERM)",
    ),
    (
        "a rank that was killed from elsewhere",
        facts(1, failing(ENGINE_DIED), finding=error("rank_killed", process="EngineCore")),
        Outcome.KILLED,
        Culprit.UNKNOWN,
        "rank 1: RuntimeError: words",
    ),
    (
        "the kernel's own word for out of memory",
        facts(137, None, oom_killed=True),
        Outcome.OUT_OF_MEMORY,
        Culprit.HOST,
        "the kernel's out-of-memory killer ended it; exit code 137 (SIGKILL)",
    ),
    (
        "the engine's own word for out of memory",
        facts(1, failing(ENGINE_DIED), finding=error("out_of_memory")),
        Outcome.OUT_OF_MEMORY,
        Culprit.PRODUCT,
        "rank 1: RuntimeError: words",
    ),
    (
        "memory that another holds is the host's",
        facts(1, failing(ENGINE_DIED), finding=error("memory_taken")),
        Outcome.OUT_OF_MEMORY,
        Culprit.HOST,
        "rank 1: RuntimeError: words",
    ),
    # ---- hung, timed_out, cancelled
    (
        "no progress within the idle limit, in the engine: hung, product",
        facts(143, None, stopped=Stop.HUNG, evidence=replace(EVIDENCE, phase="generate"), progress=NO_REPORT),
        Outcome.HUNG,
        Culprit.PRODUCT,
        "no progress within the idle limit in phase generate; 3 tests finished, 1 failed, running test_dies.py::test_b",
    ),
    (
        "a suite that is stopped still writes its report: what was done by then and the test it hung in are both said",
        facts(
            2,
            stopped=Stop.HUNG,
            evidence=replace(EVIDENCE, phase="generate"),
            message="no progress for 300 s, in phase generate",
            progress=replace(NO_REPORT, passed=2, session_finished=True),
        ),
        Outcome.HUNG,
        Culprit.PRODUCT,
        "no progress for 300 s, in phase generate; 2 passed, running test_dies.py::test_b",
    ),
    (
        "tests of a killed cell that passed by then are counted from the streamed log",
        facts(137, None, stopped=Stop.TIMED_OUT, message="past 60 s", progress=replace(NO_REPORT, passed=2)),
        Outcome.TIMED_OUT,
        Culprit.UNKNOWN,
        "past 60 s; 2 passed, 1 failed, running test_dies.py::test_b",
    ),
    (
        "no progress and no engine seen: hung, unknown",
        facts(137, None, stopped=Stop.HUNG, evidence=None, message="no output for 300 s"),
        Outcome.HUNG,
        Culprit.UNKNOWN,
        "no output for 300 s",
    ),
    (
        "alive but past the total limit, although every test passed",
        facts(0, GOOD, stopped=Stop.TIMED_OUT),
        Outcome.TIMED_OUT,
        Culprit.UNKNOWN,
        "past its total limit; 2 passed",
    ),
    (
        "124 from a timeout wrapper is named as such (C02)",
        facts(124),
        Outcome.TIMED_OUT,
        Culprit.UNKNOWN,
        "exit code 124: a `timeout` inside the cell ended it; 2 passed",
    ),
    (
        "stopped by a person or the CI",
        facts(143, None, stopped=Stop.CANCELLED),
        Outcome.CANCELLED,
        Culprit.NONE,
        "stopped",
    ),
    # ---- infra
    (
        "a fault set by the runtime is infra, host",
        facts(None, None, fault=Fault.DAEMON, message="the daemon went away"),
        Outcome.INFRA,
        Culprit.HOST,
        "the daemon went away",
    ),
    (
        "a port clash in the log is infra (D04)",
        facts(1, None, finding=error("port_clash", "DistNetworkError: EADDRINUSE", "", None)),
        Outcome.INFRA,
        Culprit.HOST,
        "DistNetworkError: EADDRINUSE",
    ),
    (
        "a good report whose exit code the runtime lost",
        facts(None),
        Outcome.INFRA,
        Culprit.HOST,
        "the runtime does not know how the cell ended; 2 passed",
    ),
    # ---- refused, unsupported
    (
        "the engine's validation refused the configuration: refused, config",
        facts(
            1,
            None,
            evidence=None,
            finding=error("refused", "Chunked prefill is required for mamba cache mode 'align'.", "", None),
        ),
        Outcome.REFUSED,
        Culprit.CONFIG,
        "Chunked prefill is required for mamba cache mode 'align'.",
    ),
    (
        "a failed test whose message tells of the refusal is refused, config",
        facts(
            1,
            failing(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
                "  Assertion failed, Chunked prefill is required for Mamba prefix caching. [type=assertion_error, x]",
                result=TestResult.ERROR,
            ),
            evidence=Evidence(started=True, phase="load"),
        ),
        Outcome.REFUSED,
        Culprit.CONFIG,
        "Chunked prefill is required for Mamba prefix caching.",
    ),
    (
        "a refusal in a cell whose engine came up is of a configuration that a test made up: failed",
        facts(
            1, failing("ValidationError: 1 validation error for VllmConfig\n  Value error, no. [type=a, x]")
        ),
        Outcome.FAILED,
        Culprit.PRODUCT,
        "test_bad: ValidationError: 1 validation error for VllmConfig",
    ),
    (
        "a failed test whose log names a gate: unsupported, host, with the rank",
        facts(
            1,
            failing(ENGINE_DIED, result=TestResult.ERROR),
            finding=error("unsupported_host", "NotImplementedError: No Int8 MoE backend supports ..."),
        ),
        Outcome.UNSUPPORTED,
        Culprit.HOST,
        "rank 1: NotImplementedError: No Int8 MoE backend supports ...",
    ),
    (
        "what the engine cannot do anywhere is the product's",
        facts(1, failing(ENGINE_DIED), finding=error("unsupported_product")),
        Outcome.UNSUPPORTED,
        Culprit.PRODUCT,
        "rank 1: RuntimeError: words",
    ),
]


@pytest.mark.parametrize(
    ("given_facts", "outcome", "culprit", "cause"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_rule(given_facts: CellFacts, outcome: Outcome, culprit: Culprit, cause: str) -> None:
    verdict = judge(given_facts)
    assert (verdict.outcome, verdict.culprit, verdict.cause) == (outcome, culprit, cause)
