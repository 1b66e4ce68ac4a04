"""The main program in a process of its own, as a user or a CI starts it, and signals to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner import runs
from runner.records import Run

PROJECT = Path(__file__).resolve().parents[3]
WAIT_S = 240.0


@dataclass
class Program:
    """One runner in its own process group. ``folder`` holds matrix file, reports and output."""

    process: subprocess.Popen[bytes]
    folder: Path

    @classmethod
    def start(cls, folder: Path, matrix: str, *options: str, env: dict[str, str] | None = None) -> Program:
        """Start it on a matrix text. As root it gets a lock folder of its own: other runs of this host do not delay it."""
        (folder / "matrix.yaml").write_text(matrix.replace("{project}", str(PROJECT)))
        argv = [sys.executable, "-m", "runner", "matrix.yaml", "--out", "reports", *options]
        locks = folder / "lock"
        locks.mkdir(exist_ok=True)
        locks.chmod(0o1777)
        if os.getuid() == 0:
            script = 'mount --bind "$0" /run/lock && exec "$@"'
            argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(locks), *argv]
        with (folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                argv, cwd=folder, env={**os.environ, **(env or {}), "PYTHONPATH": str(PROJECT)},
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return cls(process, folder)

    @property
    def run_folder(self) -> Path | None:
        """The folder of its run, once there is one."""
        return next(iter(sorted(self.folder.glob("reports/*"))), None)

    @property
    def output(self) -> str:
        """What it said."""
        return (self.folder / "output.txt").read_text()

    def run(self) -> Run:
        """Its run, read from disk."""
        assert self.run_folder is not None, self.output
        return runs.load(self.run_folder)

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something holds; where it does not come, end the program and fail with its output."""
        deadline = time.monotonic() + WAIT_S
        while not ready():
            assert self.process.poll() is None, self.output
            if time.monotonic() > deadline:
                self.signal_group(
                    signal.SIGTERM
                )  # else it holds the lock of an image for the tests that follow
                self.process.wait(WAIT_S)
                raise AssertionError(self.output)
            time.sleep(0.05)

    def signal_group(self, number: signal.Signals) -> None:
        """Signal its whole process group, as a terminal and a CI do."""
        os.killpg(self.process.pid, number)

    def end(self) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(WAIT_S)
