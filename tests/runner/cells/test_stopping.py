"""Signals to the real program with real containers and processes (E05): who is stopped, what is kept, what is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.model import Culprit, Outcome, Stop
from tests.runner.cells.program import Program

STUBBORN = """\
version: 1
suite: {path: "{project}/tests/runner/runtimes/data", proof: tests, command: [sh, "{suite}/stubborn.sh"]}
axes: {platform: [cpu], case: [a, b, c, d, e, f, g, h]}
platforms: {cpu: {image: "{project}/tests/runner/runtimes/data/cheap"}}
limits: {memory: 100m, total: 5m}
"""

SLOW = """\
version: 1
suite: {path: "{project}/tests/runner/cells/data/slow", proof: tests, tests: [slow.py]}
axes: {platform: [cpu]}
platforms: {cpu: {image: "IMAGE"}}
limits: {start: 2m, idle: 10s, total: 5m}
retry: {infra: 0}
"""


def containers(run_id: str) -> list[str]:
    listed = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=vllm-matrix.run={run_id}"], capture_output=True, text=True, check=True
    )  # fmt: skip
    return listed.stdout.split()


@pytest.fixture
def stubborn(tmp_path: Path, docker_runtime: object, cheap_image: object) -> Program:
    """The program on eight stubborn cells, as soon as one of them runs."""
    program = Program.start(tmp_path, STUBBORN, "--runtime", "docker", "--jobs", "8")

    def one_runs() -> bool:
        return any(
            b"ready" in log.read_bytes() for log in tmp_path.glob("reports/*/cells/*/attempt-1/log.txt")
        )

    program.until(one_runs)
    return program


def check_all_cancelled(program: Program, name: str) -> None:
    run = program.run()
    assert (run.finished, run.interrupted, run.missing()) == (True, name, ())
    assert {record.verdict.outcome for record in run.records} == {Outcome.CANCELLED}
    assert len(run.records) == 8
    started = [record.attempts[0].exit for record in run.records if record.attempts]
    assert Stop.CANCELLED in {exit_.stopped for exit_ in started if exit_ is not None}
    assert containers(run.run_id) == []
    assert program.run_folder is not None
    assert (program.run_folder / "index.html").is_file()


@pytest.mark.docker
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 143)])
def test_e05_a_signal_stops_stubborn_cells_and_accounts_for_every_cell(
    stubborn: Program, name: str, code: int
) -> None:
    stubborn.signal_group(signal.Signals[name])
    assert stubborn.end() == code
    check_all_cancelled(stubborn, name)


@pytest.mark.docker
def test_e05_more_signals_leave_no_container_and_no_cell_unaccounted(stubborn: Program) -> None:
    stubborn.signal_group(signal.SIGTERM)
    for _ in range(3):
        try:
            stubborn.process.wait(1.1)
            break
        except subprocess.TimeoutExpired:
            stubborn.signal_group(signal.SIGTERM)
    assert stubborn.end() == 143
    check_all_cancelled(stubborn, "SIGTERM")


@pytest.mark.docker
def test_the_orphans_of_a_killed_runner_go_with_the_next_start(stubborn: Program) -> None:
    stubborn.process.kill()
    assert stubborn.end() == -signal.SIGKILL
    left = stubborn.run()
    assert (left.finished, len(left.missing())) == (False, 8)
    assert containers(left.run_id) != []
    resumed = Program.start(stubborn.folder, STUBBORN, "--runtime", "docker", "--jobs", "2", "-k", "case=a")
    resumed.until(lambda: containers(left.run_id) == [])
    resumed.signal_group(signal.SIGINT)
    resumed.end()
    assert containers(left.run_id) == []


def check_partial(program: Program) -> None:
    """The suite wrote its report when it was stopped, and the verdict says what was done by then."""
    program.end()
    run = program.run()
    (record,) = run.records
    assert (record.verdict.outcome, record.verdict.culprit) == (Outcome.HUNG, Culprit.UNKNOWN)
    assert (
        record.verdict.cause == "no progress for 10 s, in phase start; 3 passed, running slow.py::test_stuck"
    )
    (attempt,) = record.attempts
    assert attempt.tally is not None
    assert (attempt.tally.passed, attempt.tally.total) == (3, 3)
    assert "attempt-1/junit.xml" in attempt.files


def test_a_hung_suite_writes_its_report_before_it_is_killed_in_a_process(tmp_path: Path) -> None:
    image = str(Path(sys.prefix))
    check_partial(Program.start(tmp_path, SLOW.replace("IMAGE", image), "--runtime", "process"))


@pytest.mark.docker
@pytest.mark.timeout(900)
def test_a_hung_suite_writes_its_report_before_it_is_killed_in_docker(
    docker_runtime: object, tmp_path: Path
) -> None:
    text = SLOW.replace("IMAGE", "{project}/images/cpu")
    check_partial(Program.start(tmp_path, text, "--runtime", "docker"))
