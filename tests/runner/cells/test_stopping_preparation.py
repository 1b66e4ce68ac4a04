"""Signals, limits and SIGKILL while something is being made ready: nothing has run, and nothing is left at work."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.model import Culprit, Outcome
from runner.runtimes.labels import read_mark
from runner.runtimes.process_tree import marked
from tests.runner.cells.program import Program

MATRIX = """\
version: 1
suite: {path: suite, proof: PROOF}
axes: {platform: [cpu], case: [a, b]}
platforms: {cpu: {image: "IMAGE"}}
model: m
models: {m: {recipe: slow}}
limits: {total: 5m, prepare: LIMIT}
"""
SLEEPS = "import time\nprint('it began', flush=True)\ntime.sleep(600)\n"
PROBE = "print('{}')\n"


def begin(folder: Path, what: str, limit: str = "1h") -> Program:
    """The program, whose recipe or probe never ends, as soon as that has begun."""
    for name, text in (
        ("recipes/__init__.py", ""),
        ("recipes/__main__.py", SLEEPS),
        ("probe.py", SLEEPS if what == "probe" else PROBE),
    ):
        path = folder / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    text = MATRIX.replace("PROOF", "engine").replace("LIMIT", limit).replace("IMAGE", sys.prefix)
    program = Program.start(
        folder, text, "--runtime", "process", env={"VLLM_MATRIX_CACHE": str(folder / "cache")}
    )
    program.until(lambda: any("it began" in log.read_text() for log in logs(folder, what)))
    return program


def logs(folder: Path, what: str) -> list[Path]:
    return list(folder.glob(f"reports/*/prepare/{what}-*.log"))


def at_work(program: Program) -> list[str]:
    """Marks of what the program started and still runs."""
    marks = ((mark, read_mark(mark)) for _, mark in marked())
    return [mark for mark, said in marks if said is not None and said.owner.pid == program.process.pid]


def check_cancelled(program: Program) -> None:
    run = program.run()
    assert (run.finished, run.interrupted, run.missing()) == (True, "SIGTERM", ())
    assert [record.verdict.outcome for record in run.records] == [Outcome.CANCELLED] * 2
    assert at_work(program) == []


@pytest.mark.parametrize("what", ["recipe", "probe"])
def test_e05_a_signal_ends_what_is_being_prepared(tmp_path: Path, what: str) -> None:
    program = begin(tmp_path, what)
    program.signal_group(signal.SIGTERM)
    assert program.end() == 143
    check_cancelled(program)


def test_a_recipe_that_never_ends_is_ended_at_its_limit(tmp_path: Path) -> None:
    program = begin(tmp_path, "recipe", "3s")
    assert program.end() == 10
    (first, second) = program.run().records
    assert first.verdict == second.verdict
    assert (first.verdict.outcome, first.verdict.culprit) == (Outcome.CRASHED, Culprit.IMAGE)
    assert first.verdict.cause.startswith(
        "recipe-m ran past its limit of 3 s (limits.prepare): it began (log: "
    )
    assert at_work(program) == []


def test_what_a_killed_runner_was_preparing_goes_with_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    killed = begin(tmp_path / "killed", "recipe")
    killed.process.kill()
    assert killed.end() == -signal.SIGKILL
    (tmp_path / "next").mkdir()
    following = begin(tmp_path / "next", "recipe", "3s")
    assert at_work(killed) == []
    following.end()


@pytest.fixture
def venv(tmp_path: Path) -> Iterator[Program]:
    """The program, whose venv comes from an index that takes connections and never answers."""
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "requirements.txt").write_text("pinned==1.5\n")
    (tmp_path / "suite").mkdir()
    text = MATRIX.replace("PROOF", "tests").replace("LIMIT", "1h").replace("IMAGE", "image")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        env = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": address,
            "VLLM_MATRIX_CACHE": str(tmp_path / "cache"),
        }
        program = Program.start(tmp_path, text, "--runtime", "process", env=env)
        program.until(lambda: any("Looking in links" in log.read_text() for log in logs(tmp_path, "image")))
        yield program


def test_e05_a_signal_ends_pip(venv: Program) -> None:
    venv.signal_group(signal.SIGTERM)
    assert venv.end() == 143
    check_cancelled(venv)


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_e05_a_signal_ends_an_image_build(
    tmp_path: Path, docker_runtime: object, cheap_image: object
) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "suite").mkdir()
    step = "RUN echo it-began; sleep 600"
    (tmp_path / "image" / "Dockerfile").write_text(f"ARG BASE=debian:bookworm-slim\nFROM ${{BASE}}\n{step}\n")
    text = MATRIX.replace("PROOF", "tests").replace("LIMIT", "1h").replace("IMAGE", "image")
    program = Program.start(tmp_path, text, "--runtime", "docker")
    program.until(lambda: any("\nit-began" in log.read_text() for log in logs(tmp_path, "image")))
    program.signal_group(signal.SIGTERM)
    assert program.end() == 143
    check_cancelled(program)
    (built,) = re.findall(r"Running in ([0-9a-f]{12})", logs(tmp_path, "image")[0].read_text())
    there = subprocess.run(["docker", "inspect", built], capture_output=True, check=False)
    assert there.returncode != 0
