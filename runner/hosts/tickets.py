"""A line of waiting requests, so that a wide cell is not starved by a stream of narrow ones, of whatever runner."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from runner.codec import dumps, loads
from runner.hosts.locks import open_lock, opened, read_record, try_lock, write_record
from runner.hosts.topology import choose, groups
from runner.machine import Device

STALE_S = 60.0
"""A ticket that did not ask for this long no longer reserves anything: its runner is stopped or busy elsewhere."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a ticket waits for: so many of these. ``asked_at_s`` is the host's monotonic clock."""

    devices: tuple[str, ...] = ()
    count: int = 0
    cores: tuple[int, ...] = ()
    core_count: int = 0
    asked_at_s: float = 0.0


@dataclass(slots=True)
class Ticket:
    """A place in line, held by a locked file; it is lost when its owner dies. Older tickets have smaller numbers."""

    number: int
    path: Path
    wanted: Wanted
    _descriptor: int

    @classmethod
    def draw(cls, folder: Path, wanted: Wanted) -> Self:
        """Take the last place. Call while holding the gate."""
        number = max((_number(path) for path in _files(folder)), default=0) + 1
        path = folder / f"want-{number:08d}-{os.getpid()}-{next(_numbers)}.lock"
        descriptor = open_lock(path)
        try_lock(descriptor)
        ticket = cls(number, path, wanted, descriptor)
        ticket.touch()
        return ticket

    def touch(self) -> None:
        """Say that it is still waited for."""
        self.wanted = replace(self.wanted, asked_at_s=time.monotonic())
        with contextlib.suppress(OSError):  # a full disk costs the place in line, not the run
            write_record(self._descriptor, dumps(self.wanted, indent=0))

    def close(self) -> None:
        """Leave the line."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ahead(folder: Path, mine: Ticket | None, now_s: float) -> tuple[Wanted, ...]:
    """What older tickets wait for, oldest first; all of them for a request without a ticket. Call inside the gate."""
    found: list[Wanted] = []
    for path in _files(folder):
        if mine is not None and _number(path) >= mine.number:
            break
        wanted = _read(path)
        if wanted is not None and now_s - wanted.asked_at_s < STALE_S:
            found.append(wanted)
    return tuple(found)


def unclaimed(devices: tuple[Device, ...], tickets: Iterable[Wanted]) -> tuple[Device, ...]:
    """The free devices that no older ticket claims. One that cannot be met yet claims what it could use of them."""
    left = devices
    for wanted in tickets:
        usable = tuple(device for device in left if device.id in wanted.devices)
        claim = choose(usable, wanted.count)
        if not claim and wanted.count:
            claim = max(groups(usable), key=len, default=())
        left = tuple(device for device in left if device not in claim)
    return left


def unclaimed_cores(cores: tuple[int, ...], tickets: Iterable[Wanted]) -> tuple[int, ...]:
    """The same for cores."""
    left = cores
    for wanted in tickets:
        usable = [core for core in left if core in set(wanted.cores)]
        claim = set(usable[: wanted.core_count])
        left = tuple(core for core in left if core not in claim)
    return left


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("want-*.lock"))


def _number(path: Path) -> int:
    digits = path.name.split("-")[1]
    return int(digits) if digits.isdigit() else 0


def _read(path: Path) -> Wanted | None:
    """What a live ticket waits for. One whose owner died is removed; one that cannot be read reserves nothing."""
    with opened(path) as descriptor:
        if descriptor is None:
            return None
        if try_lock(descriptor):
            with contextlib.suppress(OSError):  # another user's, in a sticky folder
                path.unlink()
            return None
        try:
            return loads(read_record(descriptor), Wanted)
        except ValueError:
            return None
