"""The process tree from /proc: processor time (is anything moving?) and what is left of it (did everything end?)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process as /proc/PID/stat has it (proc(5)); `cpu_seconds` counts its reaped children too."""

    pid: int
    parent: int
    state: str
    name: str
    cpu_seconds: float


def read(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """One process, or None where it is gone or unreadable."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        ticks = sum(int(v) for v in fields[11:15])
        return Process(pid, int(fields[1]), fields[0], name, ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None


def tree(root: int, proc: Path = Path("/proc")) -> list[Process]:
    """`root` and all its descendants, the ones alive now; empty where `root` is gone."""
    try:
        pids = [int(p.name) for p in proc.iterdir() if p.name.isdigit()]
    except OSError:
        return []
    found = {p.pid: p for p in (read(pid, proc) for pid in pids) if p is not None}
    if root not in found:
        return []
    inside, grew = {root}, True
    while grew:
        more = {p.pid for p in found.values() if p.parent in inside} - inside
        inside |= more
        grew = bool(more)
    return [found[pid] for pid in sorted(inside)]


def cpu_seconds(root: int) -> float:
    """Processor seconds of the whole tree, user and system, reaped children included."""
    return round(sum(p.cpu_seconds for p in tree(root)), 2)


def descendants(root: int) -> list[Process]:
    """The live descendants of `root`: zombies are dead and left out, and so is `root` itself."""
    return [p for p in tree(root) if p.pid != root and p.state != "Z"]
