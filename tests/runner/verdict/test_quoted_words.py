"""A test that quotes a fault of the host has failed: it is not tried again, and a later pass does not hide it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.facts import Finding, TestResult
from runner.machine import Given
from runner.model import Culprit, Fault, Outcome, Proof
from runner.verdict import combine, find_cause, judge
from tests.runner.verdict.factory import case, facts, failing, report

NO_SPACE = "OSError: [Errno 28] No space left on device"
QUOTING = [
    "AssertionError: tokens differ; stderr was: No space left on device never seen",
    "AssertionError: second engine got: Address already in use",
    "AssertionError: assert 'Failed to initialize NVML: Unknown Error' not in 'x'",
    "assert 'No CUDA GPUs are available' in 'words'",
    "Failed: the log says: Failed to infer device type",
    f"AssertionError: the server said\n{NO_SPACE}",
    "AssertionError: it logged (EngineCore pid=7) ERROR 11-30 13:04:41 [core.py:1] No space left on device",
    'failed on setup with "AssertionError: Connection to x: Network is unreachable"',
    "the second engine must say: No space left on device",
    "E       No space left on device",
]


def printed(message: str) -> list[str]:
    """What pytest prints of such a failure: the test's source, its own mark before each line, and a summary."""
    source = [f"    # {line}" for line in message.splitlines() if "pid=" not in line]
    quoted = [f"E       {line}" for line in message.splitlines()]
    return [*source, *quoted, f"FAILED tests/test_a.py::test_bad - {message.splitlines()[0]}"]


@pytest.mark.parametrize("logged", [False, True], ids=["report alone", "log prints it too"])
@pytest.mark.parametrize("message", QUOTING)
def test_a_quoted_host_word_is_a_failed_test(message: str, logged: bool) -> None:
    found = find_cause(printed(message)) if logged else None
    verdict = judge(facts(1, failing(message), proof=Proof.TESTS, finding=found))
    assert (verdict.outcome, verdict.culprit, verdict.fault) == (Outcome.FAILED, Culprit.PRODUCT, None)
    assert combine([verdict, judge(facts())]).outcome is Outcome.FLAKY


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (NO_SPACE, Fault.DISK),
        (f'failed on setup with "engine.EngineStartFailed: {NO_SPACE}"', Fault.DISK),
        ("RuntimeError: No CUDA GPUs are available", Fault.DEVICE),
        ("torch.distributed.DistNetworkError: The server socket has failed: EADDRINUSE", Fault.NETWORK),
    ],
)
def test_a_test_that_died_of_the_host_is_tried_again(message: str, fault: Fault) -> None:
    verdict = judge(facts(1, failing(message, result=TestResult.ERROR)))
    assert (verdict.outcome, verdict.culprit, verdict.fault) == (Outcome.INFRA, Culprit.HOST, fault)


def test_an_engine_process_that_says_it_is_believed() -> None:
    found = find_cause([f"(EngineCore pid=7) ERROR 11-30 13:04:41 [core.py:1] {NO_SPACE}"])
    verdict = judge(facts(1, failing("EngineDeadError: EngineCore encountered an issue"), finding=found))
    assert (verdict.outcome, verdict.fault) == (Outcome.INFRA, Fault.DISK)


def test_a_failed_assertion_beside_a_fault_of_the_host_is_not_lost() -> None:
    both = report(
        case("test_tokens", TestResult.FAILED, "AssertionError: tokens differ"),
        case("test_disk", TestResult.ERROR, NO_SPACE),
    )
    verdict = judge(facts(1, both))
    assert (verdict.outcome, verdict.cause) == (
        Outcome.FAILED,
        "test_tokens: AssertionError: tokens differ (and 1 more)",
    )


def test_a_log_with_a_quoting_assertion_alone_is_no_fault_of_the_host() -> None:
    for message in QUOTING[:5]:
        found = find_cause(printed(message)[-2:])
        assert found is None or found.kind == "exception"
    verdict = judge(facts(1, None, finding=find_cause(printed(QUOTING[0])[-2:])))
    assert verdict.outcome is Outcome.NO_REPORT


@pytest.mark.parametrize(
    ("contained", "outcome", "culprit"),
    [(True, Outcome.CRASHED, Culprit.PRODUCT), (False, Outcome.INFRA, Culprit.HOST)],
    ids=["network of its own", "the host's network"],
)
def test_a_port_clash_is_the_hosts_only_where_the_cell_shares_its_network(
    contained: bool, outcome: Outcome, culprit: Culprit
) -> None:
    words = "OSError: [Errno 98] Address already in use"
    found = Finding(line=words, kind="port_clash", process="EngineCore")
    given = facts(1, None, finding=found, evidence=None)
    verdict = judge(replace(given, given=Given(platform="cpu", contained=contained)))
    assert (verdict.outcome, verdict.culprit) == (outcome, culprit)
    assert verdict.cause == words
