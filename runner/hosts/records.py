"""Who holds a lease: the record in a lock file, for people and for the clean-up after a dead owner.

The kernel lock alone says whether a lease lives. The record says whose it is, and it stays when its owner was killed:
a container of that owner may still run on the device, so the device is not free before that has been cleaned up.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runner.codec import dumps, loads
from runner.hosts.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOwner:
    """What a lock file holds. ``started`` is the owner's start in clock ticks since boot, ``since`` UTC time.

    ``runtime`` and ``engine`` say what runs the cell: the runtime's name, and the address of the engine whose containers
    they are. Records of before these fields were written have the defaults, which stand for "not known".
    """

    lease: str
    thing: str
    pid: int
    started: int
    boot_id: str
    hostname: str = ""
    run: str = ""
    cell: str = ""
    since: str = ""
    memory_bytes: int = 0
    runtime: str = ""
    engine: str = ""
    namespace: str = ""
    uid: int = -1
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """By what the cells of a runner run, and from where: what shows later whether one of them still does."""

    runtime: str = ""
    engine: str = ""
    namespace: str = ""


class HolderState(StrEnum):
    """``dead``: its owner is gone and did not clean up. ``unknown``: locked by nobody, and its record is cut."""

    LIVE = "live"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One leased thing and who holds it. ``owner`` is None where the record cannot be read."""

    path: Path
    state: HolderState
    owner: LeaseOwner | None = None
    raw: bytes = b""

    def __str__(self) -> str:
        if self.owner is None:
            whose = "an unknown holder (its record is cut: was the disk full?)"
        else:
            cell = f", cell {self.owner.cell}" if self.owner.cell else ""
            since = f", since {self.owner.since}" if self.owner.since else ""
            whose = f"process {self.owner.pid} on {self.owner.hostname or '?'}, run {self.owner.run or '?'}{cell}{since}"
        thing = self.owner.thing if self.owner else self.path.stem
        return f"{thing} is held by {whose}" + ("" if self.state is HolderState.LIVE else f" ({self.state})")


def read_owner(raw: bytes) -> LeaseOwner | None:
    """The record of a lock file, or None where it is cut, foreign or of another version."""
    try:
        owner = loads(raw, LeaseOwner)
    except (ValueError, UnicodeDecodeError):
        return None
    return owner if owner.version == 1 else None


def write_owner(owner: LeaseOwner) -> bytes:
    """One line of JSON."""
    return dumps(owner, indent=0)


def process_started(source: Source, pid: int) -> int | None:
    """Start of a process in clock ticks since boot (field 22 of ``/proc/PID/stat``), or None if there is none."""
    text = source.text(f"/proc/{pid}/stat") or ""
    words = text.rpartition(")")[2].split()  # the name in front may hold spaces and brackets
    return int(words[19]) if len(words) > 19 and words[0] not in ("Z", "X") else None
