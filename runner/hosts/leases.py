"""Leases of whole devices, cores and memory, shared by all runners of a host.

One kernel lock per physical device, by identity. A slice takes its own lock and shares its parent's, so a whole GPU
and its slices exclude each other. Taking is all or nothing and one step under the folder's gate: nobody holds a part
and waits for the rest.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from runner.hosts.lease import Grip, Lease, Request, binding, core_files, device_files, grip, sign
from runner.hosts.locks import LeaseError, gate, make_folder, opened, read_record, try_lock
from runner.hosts.records import Holder, HolderState, LeaseOwner, Means, process_started, read_owner
from runner.hosts.sources import Source, live
from runner.hosts.tickets import Ticket, Wanted, ahead, unclaimed, unclaimed_cores
from runner.hosts.topology import choose
from runner.machine import Device

_numbers = itertools.count(1)

KINDS = ("device-", "core-", "memory-")
UNKNOWN = Means()


class Leases:
    """The leases of one folder. Any number of processes, threads and objects may use it at once."""

    def __init__(
        self,
        folder: Path,
        *,
        run: str = "",
        means: Means = UNKNOWN,
        source: Source = live,
        wait_s: float = 5.0,
    ) -> None:
        self.folder = make_folder(folder)
        self._wait_s = wait_s
        self._me = LeaseOwner(
            lease="",
            thing="",
            pid=os.getpid(),
            started=process_started(source, os.getpid()) or 0,
            boot_id=(source.text("/proc/sys/kernel/random/boot_id") or "").strip(),
            hostname=(source.text("/proc/sys/kernel/hostname") or "").strip(),
            run=run,
            uid=os.geteuid(),
            runtime=means.runtime,
            engine=means.engine,
            namespace=means.namespace,
        )
        self._said: set[str] = set()
        self._unremoved: set[str] = set()

    def try_acquire(self, request: Request, *, cell: str = "", ticket: Ticket | None = None) -> Lease | None:
        """All that is asked for, or None at once, with nothing held. Raises :class:`LeaseError`.

        What an older ticket waits for is not taken, nor what a dead owner left: clean up, then :meth:`forget`.
        """
        with gate(self.folder, self._wait_s) as mine:
            if not mine:
                return None
            if ticket is not None:
                ticket.touch()
            return self._take(request, cell, ticket)

    def queue(self, request: Request) -> Ticket:
        """A place in line for a request that was not met. Left by ``close()``, by ``with``, or by its owner's death."""
        wanted = Wanted(
            devices=tuple(device.id for device in request.devices),
            count=request.count,
            cores=request.cores,
            core_count=request.core_count,
        )
        with gate(self.folder, self._wait_s) as mine:
            if not mine:
                msg = f"{self.folder}: the gate stays locked: a stopped runner holds it (`doctor` names it)"
                raise LeaseError(msg)
            return Ticket.draw(self.folder, wanted)

    def abandon(self, lease: Lease, handle: str) -> None:
        """Let a lease go but keep its record: what the handle names could not be removed and may still hold devices."""
        lease.abandon()
        self._unremoved.add(handle)

    @property
    def unremoved(self) -> frozenset[str]:
        """Handles of what this runner started and could not remove: a clean-up tries again, then frees the devices."""
        return frozenset(self._unremoved)

    def holders(self) -> tuple[Holder, ...]:
        """All that is leased or left behind. Leases of an earlier boot are void and not named."""
        with gate(self.folder, self._wait_s) as mine:
            return tuple(self._holders()) if mine else ()

    def orphans(self) -> tuple[Holder, ...]:
        """What dead owners left. Remove what still runs of them first, then :meth:`forget` each."""
        return tuple(holder for holder in self.holders() if holder.state is not HolderState.LIVE)

    def left_by_me(self) -> tuple[LeaseOwner, ...]:
        """What this very process let go with its record: a cell of it could not be removed."""
        me = (self._me.pid, self._me.started, self._me.boot_id)
        owners = (each.owner for each in self.orphans())
        return tuple(each for each in owners if each and (each.pid, each.started, each.boot_id) == me)

    def forget(self, orphan: Holder) -> bool:
        """Free what a dead owner left. False where it has changed hands since, or lives."""
        with gate(self.folder, self._wait_s) as mine:
            if not mine:
                return False
            with opened(orphan.path) as descriptor:
                if descriptor is None or not try_lock(descriptor) or read_record(descriptor) != orphan.raw:
                    return False
                os.ftruncate(descriptor, 0)
            if orphan.path.name.startswith("memory-"):
                # Named for one lease: no other can mean it. Another user's stays, empty, in a sticky folder.
                with contextlib.suppress(OSError):
                    orphan.path.unlink()
            return True

    def reclaim(
        self, dead: Iterable[Holder], why_kept: Callable[[LeaseOwner | None], str]
    ) -> tuple[tuple[Holder, ...], tuple[str, ...]]:
        """Free what dead owners left where nothing runs on it any more; gives what was freed, and lines on what is kept.

        ``dead`` are the :meth:`orphans` of before the clean-up: an owner that died since was alive to it, and what
        runs of that one was not removed. ``why_kept`` is asked per owner and gives the reason why something may still
        run; None stands for an owner whose record is cut. A line is given once, however often this is called.
        """
        freed: list[Holder] = []
        lines: list[str] = []
        for each in dead:
            if not (why := why_kept(each.owner)):
                freed += [each] if self.forget(each) else []
                continue
            line = f"{each}: {why}; once nothing of it runs, `truncate -s 0 {each.path}` frees it"
            if line not in self._said:
                self._said.add(line)
                lines.append(line)
        return tuple(freed), tuple(lines)

    def _holders(self) -> Iterator[Holder]:
        for path in sorted(path for path in self.folder.glob("*.lock") if path.name.startswith(KINDS)):
            with opened(path) as descriptor:
                raw = b"" if descriptor is None else read_record(descriptor)
                free = not raw or descriptor is None or try_lock(descriptor)
            owner = read_owner(raw)
            if not free:
                yield Holder(path=path, state=HolderState.LIVE, owner=owner, raw=raw)
            elif raw and owner is None:
                yield Holder(path=path, state=HolderState.UNKNOWN, raw=raw)
            elif owner is not None and binding(raw, self._me.boot_id):
                yield Holder(path=path, state=HolderState.DEAD, owner=owner, raw=raw)

    def _take(self, request: Request, cell: str, ticket: Ticket | None) -> Lease | None:
        if request.memory_total and self._memory_bytes() + request.memory_bytes > request.memory_total:
            return None
        tickets = ahead(self.folder, ticket, time.monotonic())
        free: dict[Device | int, Grip] = {}
        try:
            self._grip_all(free, request)
            devices = unclaimed(tuple(each for each in request.devices if each in free), tickets)
            cores = unclaimed_cores(tuple(core for core in request.cores if core in free), tickets)
            chosen, picked = choose(devices, request.count), together(cores, request.core_count)
            if len(chosen) < request.count or len(picked) < request.core_count:
                return None
            lease = Lease(
                f"{self._me.pid}-{self._me.started}-{next(_numbers)}", chosen, picked, request.memory_bytes
            )
            lease.grips += [*map(free.pop, chosen), *map(free.pop, picked)]
            since = datetime.now(UTC).isoformat(timespec="seconds")
            return sign(lease, self.folder, replace(self._me, cell=cell, since=since))
        finally:
            for each in free.values():
                each.close()

    def _memory_bytes(self) -> int:
        """Memory of all leases, also of those that a dead owner left: its container may still use it."""
        return sum(each.owner.memory_bytes for each in self._holders() if each.owner)

    def _grip_all(self, free: dict[Device | int, Grip], request: Request) -> None:
        """Lock every candidate that is free; the choice is made among these and the rest let go."""
        for device in request.devices if request.count else ():
            if taken := grip(self.folder, device.id, device_files(device), self._me.boot_id):
                free[device] = taken
        for core in request.cores if request.core_count else ():
            if taken := grip(self.folder, f"core {core}", core_files(core), self._me.boot_id):
                free[core] = taken


def together(cores: tuple[int, ...], count: int) -> tuple[int, ...]:
    """``count`` free cores, neighbours where there are enough in a row, otherwise the lowest."""
    ordered = sorted(cores)
    for first in range(len(ordered) - count + 1 if count else 0):
        run = ordered[first : first + count]
        if run[-1] - run[0] == count - 1:
            return tuple(run)
    return tuple(ordered[:count])
