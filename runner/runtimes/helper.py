"""Programs that this one starts on the host to prepare something: found and ended like cells, whoever dies first."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from runner.facts import Watch
from runner.runtimes.labels import MARK, new_mark, this_owner
from runner.runtimes.process_tree import CellTree
from runner.runtimes.stopping import KILL_S

LOOK_S: Final = 0.2
STOPPED: Final = 143
"""The exit code of a program that the watch ended, as a shell says it of SIGTERM."""


def call(argv: Sequence[str], log: IO[str], watch: Watch | None = None) -> int:
    """Run a program to its end, its output to the end of ``log``; the exit code.

    It carries a mark, so that the next start finds it where this program is killed. Raises :class:`OSError`.
    """
    mark = new_mark(this_owner(), "", Path(argv[0]).name)
    with subprocess.Popen(
        argv, env={**os.environ, MARK: mark}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        tree, waited_s = CellTree(mark, process.pid), 0.0
        while True:
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                waited_s += LOOK_S
            if watch is not None and watch.poll(waited_s) is not None:
                tree.end(KILL_S)
                return STOPPED
