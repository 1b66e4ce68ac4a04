"""Whole runs of the program in Docker: the main program in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner import runs
from runner.records import CellRecord, Run

PROJECT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Ended:
    """A run of the program that ended."""

    run: Run
    folder: Path
    exit_code: int
    output: str

    def record(self, **axes: str) -> CellRecord:
        """The one record whose cell has these axis values."""
        (found,) = [r for r in self.run.records if all(r.cell.get(k) == v for k, v in axes.items())]
        return found

    def log(self, record: CellRecord) -> bytes:
        """The stored log of a record's last attempt."""
        number = record.attempts[-1].number
        return (self.folder / "cells" / record.cell.slug / f"attempt-{number}" / "log.txt").read_bytes()


class Program:
    """Runs the program on a matrix text whose ``{project}`` stands for the project's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, text: str, *options: str) -> Ended:
        """Run to the end. The cache is the user's own: it is keyed by content."""
        (self.folder / "matrix.yaml").write_text(text.replace("{project}", str(PROJECT)))
        out = self.folder / "reports"
        argv = [
            sys.executable,
            "-m",
            "runner",
            "matrix.yaml",
            "--runtime",
            "docker",
            "--out",
            str(out),
            *options,
        ]
        env = {**os.environ, "PYTHONPATH": str(PROJECT)}
        before = set(out.glob("*/plan.json"))
        ended = subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        # Not by name: names of runs that began within one second are in no order.
        added = [path.parent for path in set(out.glob("*/plan.json")) - before]
        assert len(added) == 1, ended.stdout + ended.stderr
        return Ended(runs.load(added[0]), added[0], ended.returncode, ended.stdout + ended.stderr)


@pytest.fixture(scope="module")
def program(docker_runtime: object, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program, where a Docker engine answers."""
    return Program(tmp_path_factory.mktemp("program"))
