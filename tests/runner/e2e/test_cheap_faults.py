"""Planted faults whose outcome does not depend on an engine, each in a real container through the whole program."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest

from runner.model import Culprit, Outcome
from tests.runner.e2e.conftest import Ended, Program

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

SHELL = """\
version: 1
suite:
  path: "{project}/tests/runner/e2e/data"
  proof: tests
  command: [sh, -c, '. "$0"/cells.sh; "$HOW"', "{suite}"]
axes:
  platform: [cpu]
  how: [fine, loud, waits]
platforms: {cpu: {image: "{project}/tests/runner/runtimes/data/cheap"}}
overrides:
  - {when: how=fine, env: {HOW: fine}}
  - {when: how=loud, env: {HOW: loud}}
  - {when: how=waits, env: {HOW: waits}}
limits: {memory: 200m, log: 4m, total: 3m}
"""

PYTEST = """\
version: 1
suite: {path: "{project}/tests/runner/e2e/data/SUITE", proof: tests}
axes: {platform: [cpu]}
platforms: {cpu: {image: "{project}/images/cpu"}}
"""


def kill_from_outside(stop: threading.Event) -> None:
    """SIGKILL the container of the waiting cell, as a person or another tool on the host would."""
    while not stop.is_set():
        listed = subprocess.run(
            ["docker", "ps", "-q", "--filter", "label=vllm-matrix.cell=platform=cpu,how=waits"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        if listed:
            subprocess.run(["docker", "kill", *listed], capture_output=True, check=False)
            return
        time.sleep(0.2)


@pytest.fixture(scope="module")
def shell(program: Program) -> Ended:
    stop = threading.Event()
    killer = threading.Thread(target=kill_from_outside, args=(stop,))
    killer.start()
    try:
        return program.run(SHELL)
    finally:
        stop.set()
        killer.join()


def test_a_cell_that_only_passes_is_passed_without_engine_proof(shell: Ended) -> None:
    assert shell.record(how="fine").verdict.outcome is Outcome.PASSED


def test_200_mb_of_output_are_passed_with_the_log_capped_and_the_cut_stated(shell: Ended) -> None:
    record = shell.record(how="loud")
    exit_ = record.attempts[0].exit
    assert record.verdict.outcome is Outcome.PASSED
    assert exit_ is not None
    assert exit_.log_bytes > 200_000_000
    log = shell.log(record)
    assert len(log) <= (4 << 20) + 1024  # the cap, and the line that states the cut
    assert log.splitlines()[-1] == b"TAIL MARKER"
    assert str(exit_.log_cut_bytes).encode() in log.replace(b",", b"")


def test_a_container_killed_from_outside_is_killed_and_not_out_of_memory(shell: Ended) -> None:
    verdict = shell.record(how="waits").verdict
    assert (verdict.outcome, verdict.culprit) == (Outcome.KILLED, Culprit.UNKNOWN)
    assert shell.exit_code == 10


def test_nothing_of_the_run_is_left(shell: Ended) -> None:
    left = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=vllm-matrix.run={shell.run.run_id}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert left.stdout == ""


@pytest.mark.parametrize(
    ("suite", "outcome", "words"),
    [
        ("exits", Outcome.NO_REPORT, "test_leaves"),
        ("skips", Outcome.SKIPPED, "no GPU on this host"),
    ],
)
def test_a_suite_that_ends_without_a_verdict_is_never_green(
    program: Program, suite: str, outcome: Outcome, words: str
) -> None:
    ended = program.run(PYTEST.replace("SUITE", suite))
    (record,) = ended.run.records
    assert (record.verdict.outcome, record.verdict.culprit) == (outcome, Culprit.TEST)
    assert words in record.verdict.cause + " ".join(record.verdict.remarks)
    assert ended.exit_code == 10
    assert "✓" not in ended.output
