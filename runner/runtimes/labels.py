"""What marks a container, image or process as ours, and whether the runner that owns it still lives.

A process id alone proves nothing after a reboot or after its reuse, so an owner is the triple of process id, start
time in clock ticks since boot (field 22 of ``/proc/PID/stat``, proc(5)) and boot id. Runners in containers of their own
may share one Docker engine, and then the same number means another process: the owner names its process namespace
(pid_namespaces(7)) as well. Runners of several hosts may share one too (``DOCKER_HOST=tcp://...``), and then another boot
id may be another host's: the owner names its host, which keeps its name from boot to boot.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

RUN = "vllm-matrix.run"
CELL = "vllm-matrix.cell"
OWNER_PID = "vllm-matrix.owner-pid"
OWNER_START = "vllm-matrix.owner-start"
BOOT_ID = "vllm-matrix.boot-id"
OWNER_NAMESPACE = "vllm-matrix.owner-namespace"
OWNER_HOST = "vllm-matrix.owner-host"
IMAGE = "vllm-matrix.image"
"""On images built or imported by this tool; the value is the image folder's name."""
REPOSITORY = "vllm-matrix/"
"""What the name of every image made by this tool begins with."""
KEEPS = "vllm-matrix.keeps"
"""On a container that only sleeps: the id of the image that it keeps from being pruned."""
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
    """One runner process on one boot of a host.

    ``host`` is that host's name where an engine keeps it, "" for what can be of this host alone (processes, folders).
    """

    pid: int
    start: str
    boot_id: str
    namespace: str = ""
    host: str = field(default="", compare=False)

    def labels(self) -> dict[str, str]:
        """The labels that name this owner."""
        return {
            OWNER_PID: str(self.pid),
            OWNER_START: self.start,
            BOOT_ID: self.boot_id,
            OWNER_NAMESPACE: self.namespace,
            OWNER_HOST: self.host,
        }

    def alive(self, proc: Path = Path("/proc")) -> bool:
        """Whether this very process still runs here: same boot, same id, same start time, and no zombie.

        One in another process namespace of this boot cannot be seen from here, and counts as living; but not where this
        is the host's own namespace, which sees them all, and no process of that one is left. One of another host cannot be
        seen either, and counts as living: what it leaves is for a runner over there.
        """
        if self.boot_id != boot_id(proc):
            return self.host not in {"", hostname(proc)}
        if self.namespace and self.namespace != namespace(proc):
            return namespace(proc) != INITIAL or _inhabited(self.namespace, proc)
        try:
            return self.start == start_time(self.pid, proc)
        except OSError:  # such as no descriptor left to look with, or a process that this user may not see
            return True

    @classmethod
    def read(cls, labels: Mapping[str, str]) -> Owner | None:
        """The owner that labels name; None where they name none."""
        pid = labels.get(OWNER_PID, "")
        if not pid.isdecimal() or not labels.get(OWNER_START) or not labels.get(BOOT_ID):
            return None
        return cls(
            int(pid),
            labels[OWNER_START],
            labels[BOOT_ID],
            labels.get(OWNER_NAMESPACE, ""),
            labels.get(OWNER_HOST, ""),
        )


def start_time(pid: int, proc: Path = Path("/proc")) -> str:
    """Start time of a live process in clock ticks since boot; "" where there is none or only its zombie.

    Raises :class:`OSError` where that cannot be told.
    """
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The command name (field 2) may hold spaces and parentheses: count from its last one.
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


@lru_cache(maxsize=4)
def boot_id(proc: Path = Path("/proc")) -> str:
    """The id of this boot of the host."""
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def hostname(proc: Path = Path("/proc")) -> str:
    """The host's name; "" where the kernel does not say."""
    try:
        return (proc / "sys/kernel/hostname").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


INITIAL = "4026531836"
"""The number of a host's own process namespace (Linux, include/linux/proc_ns.h, PROC_PID_INIT_INO)."""


def namespace(proc: Path = Path("/proc"), pid: str = "self") -> str:
    """The number of a process's own process namespace; "" where the kernel does not say."""
    try:
        return "".join(filter(str.isdecimal, str((proc / pid / "ns/pid").readlink())))
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return "0"
    except OSError:
        return ""


def _inhabited(number: str, proc: Path) -> bool:
    """Whether a process of that namespace lives, as far as this user may know: one that may not be asked could be it.

    Process 1 of the initial namespace is in it, also where nobody may ask.
    """
    pids = (entry.name for entry in proc.iterdir() if entry.name.isdecimal() and entry.name != "1")
    return any(namespace(proc, pid) in {number, ""} for pid in pids)


def this_owner() -> Owner:
    """The running process as an owner."""
    return Owner(os.getpid(), start_time(os.getpid()), boot_id(), namespace(), hostname())


def new_mark(owner: Owner, run: str, name: str) -> str:
    """A mark that names its owner (id, start time, boot, namespace), then run and cell, and ends in a random part."""
    parts = (owner.pid, owner.start, owner.boot_id, owner.namespace, run, name, secrets.token_hex(4))
    return ":".join(map(str, parts))


def homes(owner: Owner) -> str:
    """What the names of the private folders begin with that an owner's cells have.

    Short, with the first part of the boot's id alone: engines make sockets there, whose whole path has 107 characters at
    most (unix(7); vLLM adds 37 of its own).
    """
    boot = owner.boot_id.partition("-")[0]
    return f"vllm-matrix-cell-{owner.pid}.{owner.start}.{boot}.{owner.namespace}."


def owner_of_home(name: str) -> Owner | None:
    """The owner of such a folder; None for a name that is none."""
    parts = name.removeprefix("vllm-matrix-cell-").split(".")
    if not name.startswith("vllm-matrix-cell-") or len(parts) != 5 or not parts[0].isdecimal():
        return None
    here = boot_id()
    boot = here if here.partition("-")[0] == parts[2] else parts[2]  # an earlier boot's is no one's now
    return Owner(int(parts[0]), parts[1], boot, parts[3])


@dataclass(frozen=True, slots=True)
class Marked:
    """What a mark says."""

    owner: Owner
    run: str
    name: str


def read_mark(mark: str) -> Marked | None:
    """The owner, run and cell that a mark names; None for a text that is no mark."""
    parts = mark.split(":")
    if len(parts) != 7 or not parts[0].isdecimal():
        return None
    return Marked(Owner(int(parts[0]), parts[1], parts[2], parts[3]), parts[4], parts[5])
