"""Handed cases C05, C06 and C14, run for real as cells: ends that a report or an exit code alone would tell wrongly."""

from __future__ import annotations

import sys
from pathlib import Path

from runner.model import Outcome
from runner.records import CellRecord
from tests.runner.cells.program import Program

DATA = "{project}/tests/runner/cells/data"
PYTEST = f"""\
version: 1
suite: {{path: "{DATA}/SUITE", proof: tests}}
axes: {{platform: [cpu], mode: [MODES]}}
platforms: {{cpu: {{image: "{sys.prefix}"}}}}
limits: {{total: 2m}}
overrides: [OVERRIDES]
"""
SHELL = f"""\
version: 1
suite: {{path: "{DATA}/C14", proof: tests, command: [sh, "-c", "cd {{suite}}/../C14 && cp *.sh {{out}} && cd {{out}} && sh ./$SCRIPT; code=$?; mv out/report.xml junit.xml; exit $code"]}}
axes: {{platform: [cpu], script: [pipe, after, after-noreport]}}
platforms: {{cpu: {{image: "{sys.prefix}"}}}}
limits: {{total: 2m}}
overrides:
  - {{when: script=pipe, env: {{SCRIPT: pipe.sh}}}}
  - {{when: script=after, env: {{SCRIPT: after.sh}}}}
  - {{when: script=after-noreport, env: {{SCRIPT: after-noreport.sh}}}}
"""


def run(folder: Path, text: str, axis: str) -> dict[str, CellRecord]:
    program = Program.start(folder, text, "--runtime", "process", "--jobs", "2")
    program.end()
    return {record.cell.get(axis): record for record in program.run().records}


def suite(name: str, modes: list[str]) -> str:
    overrides = ", ".join(f"{{when: mode={mode}, env: {{MODE: {mode}}}}}" for mode in modes)
    return PYTEST.replace("SUITE", name).replace("MODES", ", ".join(modes)).replace("OVERRIDES", overrides)


def test_c05_a_suite_that_dies_before_its_report_is_never_green_and_the_running_test_is_named(
    tmp_path: Path,
) -> None:
    found = run(tmp_path, suite("C05", ["exit0", "exit1", "abort", "segv"]), "mode")
    assert {name: record.verdict.outcome for name, record in found.items()} == {
        "exit0": Outcome.NO_REPORT,
        "exit1": Outcome.NO_REPORT,
        "abort": Outcome.CRASHED,
        "segv": Outcome.CRASHED,
    }
    for record in found.values():
        assert "running test_dies.py::test_b" in record.verdict.cause
        assert "1 passed" in record.verdict.cause


def test_c06_a_crash_after_a_green_report_is_a_crash_and_says_what_passed(tmp_path: Path) -> None:
    record = run(tmp_path, suite("C06", ["any"]), "mode")["any"]
    assert record.verdict.outcome is Outcome.CRASHED
    assert "SIGSEGV" in record.verdict.cause
    (attempt,) = record.attempts
    assert attempt.exit is not None
    assert attempt.tally is not None
    assert (attempt.exit.exit_code, attempt.tally.passed, attempt.tally.total) == (139, 2, 2)


def test_c14_a_report_outweighs_an_exit_code_of_0(tmp_path: Path) -> None:
    found = run(tmp_path, SHELL, "script")
    assert {name: record.verdict.outcome for name, record in found.items()} == {
        "pipe": Outcome.FAILED,
        "after": Outcome.FAILED,
        "after-noreport": Outcome.NO_REPORT,
    }
    (attempt,) = found["pipe"].attempts
    assert attempt.exit is not None
    assert attempt.tally is not None
    assert (attempt.exit.exit_code, attempt.tally.failed, attempt.tally.total) == (0, 1, 2)
