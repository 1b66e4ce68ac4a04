"""Error texts of container engines, registries and drivers (F05, F06), and the same words in a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.facts import CellExit, CellFacts
from runner.model import Culprit, Fault, Outcome, Proof
from runner.verdict import Retry, classify_message, find_cause, judge
from runner.verdict.faults import FAULT_ROWS

DATA = Path(__file__).parent / "data"
F05: list[dict[str, Any]] = json.loads((DATA / "F05.json").read_text())
F06: list[dict[str, Any]] = json.loads((DATA / "F06.json").read_text())
CLASSES = {"infra": Culprit.HOST, "config": Culprit.CONFIG, "runner-bug": Culprit.TEST}


def text_of(row: dict[str, Any]) -> str:
    return str(row.get("text") or row.get("log") or row["stream"][-1]["error"])


@pytest.mark.parametrize("row", F05, ids=[text_of(row) for row in F05])
def test_f05_device_errors_at_start(row: dict[str, Any]) -> None:
    found = classify_message(text_of(row))
    assert found is not None
    assert found.culprit is CLASSES[row["class"]]
    assert found.retry_same_host is row["retry_same_host"]
    assert (found.fault is Fault.DEVICE) is (row["class"] == "infra")
    assert found.hint


@pytest.mark.parametrize("row", F06, ids=[text_of(row) for row in F06])
def test_f06_pull_errors(row: dict[str, Any]) -> None:
    found = classify_message(text_of(row))
    assert found is not None
    assert found.culprit is CLASSES[row["class"]]
    assert found.retry_same_host is (row.get("retry", "no")[:2] != "no")
    assert (found.retry is Retry.LATER) is (row.get("retry", "no")[:2] != "no")
    assert found.closes_host is ("no new cell" in row.get("retry", ""))


@pytest.mark.parametrize("row", [row for row in F05 if "log" in row], ids=lambda row: row["log"])
def test_f05_the_same_words_in_a_log_are_no_failed_test(row: dict[str, Any]) -> None:
    ended = CellExit(exit_code=row["exit"], duration_s=1.0)
    facts = CellFacts(exit=ended, proof=Proof.TESTS, report_missing=True, finding=find_cause([row["log"]]))
    verdict = judge(facts)
    assert (verdict.outcome, verdict.culprit, verdict.fault) == (Outcome.INFRA, Culprit.HOST, Fault.DEVICE)
    assert verdict.cause == row["log"]
    hint = classify_message(row["log"])
    assert hint is not None
    assert verdict.remarks == (f"what to do: {hint.hint}",)


@pytest.mark.parametrize(
    ("text", "fault", "retry"),
    [
        (
            "Error while fetching server API version: ('Connection aborted.', x)",
            Fault.DAEMON,
            Retry.SAME_HOST,
        ),
        (
            "UnixHTTPConnectionPool(host='localhost', port=None): Read timed out. (read timeout=60)",
            Fault.DAEMON,
            Retry.SAME_HOST,
        ),
        (
            'Conflict. The container name "/cell-a" is already in use by container "aaaa".',
            Fault.DAEMON,
            Retry.SAME_HOST,
        ),
        ("removal of container cccc is already in progress", Fault.DAEMON, Retry.SAME_HOST),
        ("dial tcp: lookup images.invalid: no such host", Fault.NETWORK, Retry.LATER),
    ],
)
def test_faults_of_daemon_and_network(text: str, fault: Fault, retry: Retry) -> None:
    found = classify_message(text)
    assert found is not None
    assert (found.fault, found.retry, found.culprit) == (fault, retry, Culprit.HOST)


NODE = 'error gathering device information while adding custom device "/dev/{}": no such file or directory'


@pytest.mark.parametrize(
    ("text", "lasts", "closes", "here"),
    [
        ("RuntimeError: No HIP GPUs are available", True, False, True),
        ("RuntimeError: No CUDA GPUs are available", True, False, True),
        (NODE.format("nvidia0"), True, False, True),
        (NODE.format("kfd"), True, True, False),
        ("unresolvable CDI devices nvidia.com/gpu=7", True, False, True),
        ('could not select device driver "cdi" with capabilities: []', True, True, False),
        ("nvidia-container-cli: initialization error", True, True, False),
        ("Failed to initialize NVML: Unknown Error", False, False, True),
        ("cannot set both Count and DeviceIDs on device request", False, False, False),
        ("no space left on device", False, True, False),
        ("TLS handshake timeout", False, False, True),
    ],
)
def test_f05_what_a_fault_means_for_the_next_try(text: str, lasts: bool, closes: bool, here: bool) -> None:
    found = classify_message(text)
    assert found is not None
    assert (found.lasts, found.closes_host, found.retry_here) == (lasts, closes, here)


def test_an_unknown_text_is_not_guessed() -> None:
    assert classify_message("something new happened") is None
    assert classify_message("") is None


def test_every_row_can_be_the_first_to_match() -> None:
    assert len({row.meaning.name for row in FAULT_ROWS}) == len(FAULT_ROWS)
    assert all(row.meaning.hint and row.source for row in FAULT_ROWS)
