"""What marks a container, image or process as ours, and whether the runner that owns it still lives.

A process id alone proves nothing after a reboot or after its reuse, so an owner is the triple of process id, start
time in clock ticks since boot (field 22 of ``/proc/PID/stat``, proc(5)) and boot id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

RUN = "vllm-matrix.run"
CELL = "vllm-matrix.cell"
OWNER_PID = "vllm-matrix.owner-pid"
OWNER_START = "vllm-matrix.owner-start"
BOOT_ID = "vllm-matrix.boot-id"
IMAGE = "vllm-matrix.image"
"""On images built or imported by this tool; the value is the image folder's name."""
REPOSITORY = "vllm-matrix/"
"""What the name of every image made by this tool begins with."""
STAGE = "vllm-matrix.stage"
"""On the builder stage of an image: nothing that carries it is needed after the build."""
PYTHON = "vllm-matrix.python"
"""On an image: the interpreter that has the engine."""
BUILD_BYTES = "vllm-matrix.build-bytes"
VENV_BYTES = "vllm-matrix.venv-bytes"
"""In a Dockerfile: free bytes that its build, or a venv from the same pins, needs."""
MARK = "VLLM_MATRIX_MARK"
"""Environment variable by which the process runtime finds every process of a cell, also those that left its group."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One runner process on one boot of a host."""

    pid: int
    start: str
    boot_id: str

    def labels(self) -> dict[str, str]:
        """The labels that name this owner."""
        return {OWNER_PID: str(self.pid), OWNER_START: self.start, BOOT_ID: self.boot_id}

    def alive(self, proc: Path = Path("/proc")) -> bool:
        """Whether this very process still runs here: same boot, same id, same start time, and no zombie."""
        return self.boot_id == boot_id(proc) and self.start == start_time(self.pid, proc)

    @classmethod
    def read(cls, labels: Mapping[str, str]) -> Owner | None:
        """The owner that labels name; None where they name none."""
        pid = labels.get(OWNER_PID, "")
        if not pid.isdecimal() or not labels.get(OWNER_START) or not labels.get(BOOT_ID):
            return None
        return cls(int(pid), labels[OWNER_START], labels[BOOT_ID])


def start_time(pid: int, proc: Path = Path("/proc")) -> str:
    """Start time of a live process in clock ticks since boot; "" where there is none or only its zombie."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command name (field 2) may hold spaces and parentheses: count from its last one.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


@lru_cache(maxsize=4)
def boot_id(proc: Path = Path("/proc")) -> str:
    """The id of this boot of the host."""
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def this_owner() -> Owner:
    """The running process as an owner."""
    return Owner(os.getpid(), start_time(os.getpid()), boot_id())
