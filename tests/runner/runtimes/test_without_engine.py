"""Docker tests on a host without an engine: left out with a word, or failing where they are required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
TARGET = "tests/runner/runtimes/test_docker_hardening.py"


def run_pytest(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {
        name: value for name, value in os.environ.items() if name not in {"REQUIRE_DOCKER", "PYTEST_ADDOPTS"}
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, TARGET],
        cwd=PROJECT, capture_output=True, text=True, check=False,
        env=known | {"DOCKER_HOST": "unix:///none.sock"} | environment,
    )  # fmt: skip


def test_they_are_left_out_and_that_is_said() -> None:
    done = run_pytest()
    assert "7 docker tests were left out: no Docker engine answers" in done.stdout
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(("options", "require"), [((), "1"), (("-m", "docker"), "")])
def test_they_fail_where_they_are_asked_for(options: tuple[str, ...], require: str) -> None:
    done = run_pytest("-k", "no_network", *options, REQUIRE_DOCKER=require)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "no Docker engine answers" in done.stdout


def test_they_can_be_left_out_on_purpose() -> None:
    done = run_pytest("-m", "not docker")
    assert "left out" not in done.stdout
    assert "7 deselected" in done.stdout
