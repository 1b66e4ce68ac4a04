"""Every process of a cell that is no container: found by its mark, its session and its parents, and ended for sure.

A child may leave its process group and session (a daemonised server does) and outlive its parent; the mark in its
environment stays. A process that also wiped its environment is still known if it had a parent of the cell when seen.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.runtimes.labels import MARK, start_time

GONE_OR_NOT_OURS: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What says that a process is none of a cell's that can be ended. Other errors, such as no descriptor left, say nothing."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one moment; with its start time it cannot be mistaken for a later one of the same id."""

    pid: int
    start: str


class CellTree:
    """The processes of one cell. ``leader`` is the process that was started in a session of its own, where it is known.

    Whoever shares a session with a marked process is of the cell too, since nobody else can enter it (setsid(2)); but not
    where the session's leader lives and is none of ours: then a marked process was started in a session of somebody else.
    """

    def __init__(self, mark: str, leader: int | None, proc: Path = Path("/proc")) -> None:
        self._needle = f"{MARK}={mark}".encode()
        self._leader = leader
        self._proc = proc
        self._known: set[Seen] = set()

    def look(self) -> set[Seen]:
        """All live processes of the cell. Raises :class:`OSError` where this program cannot look."""
        alive: dict[int, Seen] = {}
        parents: dict[int, int] = {}
        sessions: dict[int, int] = {}
        ours: set[int] = set()
        for pid in _pids(self._proc):
            stat = _stat(pid, self._proc)
            if stat is None or pid == os.getpid():
                continue
            state, parent, session, start = stat
            if state in {"Z", "X"}:
                continue
            alive[pid], parents[pid], sessions[pid] = Seen(pid, start), parent, session
            if self._leader in {session, pid} or alive[pid] in self._known or self._marked(pid):
                ours.add(pid)
        theirs = {
            session
            for session in (sessions[pid] for pid in ours)
            if session not in {0, os.getsid(0)} and (session in ours or session not in alive)
        }
        ours |= {pid for pid, session in sessions.items() if session in theirs}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        found = {alive[pid] for pid in ours}
        self._known |= found
        return found

    def _marked(self, pid: int) -> bool:
        try:
            return self._needle in (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except GONE_OR_NOT_OURS:
            return False

    def end(
        self,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> set[Seen]:
        """Kill everything until nothing is left or the time is up; what is left. Raises as :meth:`look`.

        All are stopped before any is killed: a parent neither starts more children nor reports the death of one.
        """
        deadline = clock() + limit_s
        while (left := self.look()) and clock() < deadline:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for seen in left:
                    send(seen, number, self._proc)
            sleep(0.02)
        return left


def send(seen: Seen, number: signal.Signals, proc: Path = Path("/proc")) -> bool:
    """Signal exactly this process: the id is pinned by a descriptor before its start time is compared."""
    try:
        held = os.pidfd_open(seen.pid)
    except OSError:
        return False
    try:
        if start_time(seen.pid, proc) != seen.start:
            return False
        signal.pidfd_send_signal(held, number)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(held)


def marked(proc: Path = Path("/proc")) -> Iterator[tuple[Seen, str]]:
    """Every live process with a mark of this tool, and the mark."""
    needle = f"{MARK}=".encode()
    for pid in _pids(proc):
        try:
            start = start_time(pid, proc)
            entries = (proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        mark = next((entry.removeprefix(needle) for entry in entries if entry.startswith(needle)), None)
        if mark is not None and start:
            yield Seen(pid, start), mark.decode("utf-8", errors="replace")


def oom_kills(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Out-of-memory kills so far in this process's own memory cgroup, or on the whole host where it has none."""
    for file in _counters(proc, cgroups):
        counts = _pairs(file)
        if "oom_kill" in counts:
            return counts["oom_kill"]
    return 0


def _counters(proc: Path, cgroups: Path) -> Iterator[Path]:
    try:
        lines = (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if path != "/" and controllers == "":
            yield cgroups / path.lstrip("/") / "memory.events"
        elif path != "/" and controllers == "memory":
            yield cgroups / "memory" / path.lstrip("/") / "memory.oom_control"
    yield proc / "vmstat"


def _pairs(file: Path) -> Mapping[str, int]:
    try:
        words = (line.split() for line in file.read_text(encoding="ascii").splitlines())
        return {word[0]: int(word[1]) for word in words if len(word) == 2}
    except (OSError, ValueError):
        return {}


def _pids(proc: Path) -> Iterator[int]:
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            yield int(entry.name)


def _stat(pid: int, proc: Path) -> tuple[str, int, int, str] | None:
    """State, parent, session and start time (proc(5), fields 3, 4, 6, 22)."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except GONE_OR_NOT_OURS:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[3]), fields[19]
