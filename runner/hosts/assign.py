"""From a planned cell to leased devices and a hand-over: the door through which cells reach this host's devices."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from runner.errors import PrepareError
from runner.facts import HandOver
from runner.hosts.handover import hand_over, hand_over_process
from runner.hosts.health import Reading, charges, settle
from runner.hosts.lease import Lease, Request
from runner.hosts.leases import Leases
from runner.hosts.locks import LeaseError
from runner.hosts.offers import HostOffer
from runner.hosts.readings import read_health
from runner.hosts.topology import widest
from runner.machine import Device, Given, Inventory
from runner.model import Fault, PlanEntry
from runner.vendors import VENDORS

CORES_PER_RANK = 4
"""Most cores one CPU rank is given: small models gain nothing from more, and other cells can use the rest."""

POLL_S = 0.5

Health = Callable[[tuple[Device, ...]], Mapping[str, Reading]]
"""Looks at devices once; must return in bounded time."""

OWN_LEFT_S = 30.0
"""How long a cell waits for what an earlier one of this very runner left, which could not be removed."""

FAULTS_BEFORE_ASIDE = 2
"""Host faults after which a device is used no more in this run."""


@dataclass(slots=True, kw_only=True)
class Held:
    """What one attempt holds: its hand-over, and what is to be said of its devices."""

    hand_over: HandOver
    given: Given | None = None
    device_ids: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    _leases: Leases
    _lease: Lease
    _before: Mapping[str, Reading] = field(default_factory=dict)
    _read: Health = read_health

    def after(self) -> tuple[str, ...]:
        """Look at the devices again, once the cell is gone, and charge it with what it left there."""
        remarks: list[str] = []
        for device in self._lease.devices:
            _, readings = settle(lambda device=device: self._read((device,))[device.id])  # type: ignore[misc]
            if device.id in self._before:
                remarks += charges(self._before[device.id], readings[-1])
        return tuple(remarks)

    def abandon(self, handle: str) -> None:
        """Keep the devices out of use until a clean-up has removed the cell, which may still hold them."""
        self._leases.abandon(self._lease, handle)


@dataclass(slots=True, kw_only=True)
class Assigner:
    """Gives cells their devices and cores. ``containers`` is False where cells are processes of this host.

    ``clean_up`` is asked on every poll while waiting, so that what another runner leaves by dying is freed.
    """

    inventory: Inventory
    leases: Leases
    offer: HostOffer
    containers: bool
    jobs: int
    cancelled: Callable[[], bool]
    clean_up: Callable[[], None]
    health: Health = read_health
    _faults: Counter[str] = field(default_factory=Counter)
    _aside: dict[str, str] = field(default_factory=dict)
    """Devices that are used no more in this run, with the reason."""
    _blocked: dict[str, str] = field(default_factory=dict)
    """Platforms of which no cell is tried any more in this run, with the reason."""

    def capacity(self) -> Mapping[str, int]:
        """What this host has of each counted resource."""
        counts = {"core": len(self.inventory.cpu.cores)}
        for device in self.inventory.devices:
            counts[device.platform] = counts.get(device.platform, 0) + 1
        return counts

    def needs(self, entry: PlanEntry) -> Mapping[str, int]:
        """What one cell takes of them while it runs; nothing if it starts no container."""
        if entry.refused is not None:
            return {}
        platform = entry.cell.get("platform")
        if VENDORS[platform].accelerator:
            return {platform: entry.settings.devices}
        return {"core": self._core_count(entry)}

    @contextlib.contextmanager
    def lease(self, entry: PlanEntry, avoid: tuple[str, ...] = ()) -> Iterator[Held]:
        """Hold healthy devices and cores for one attempt; waits for other runners of this host, until cancelled.

        Devices to ``avoid``, on which the cell has failed, are taken only where no others are free.

        Raises:
            PrepareError: this can never be had here, a device is not healthy, or there is no way to hand it over.

        """
        platform, ranks, healthy = entry.cell.get("platform"), _ranks(entry), False
        limit_s = entry.settings.limits.phase_s.get("prepare", math.inf)
        while not healthy:
            with self._wait(self._request(entry), platform, entry.cell.id, limit_s, avoid) as lease:
                if self.cancelled():
                    yield Held(hand_over=HandOver(how="none"), _leases=self.leases, _lease=lease)
                    return
                before, remarks, healthy = self._look(lease.devices)
                if not healthy:
                    continue  # others of this host may do: what is set aside is no candidate any more
                yield self._held(platform, lease, ranks, before, remarks)

    def _held(
        self,
        platform: str,
        lease: Lease,
        ranks: int,
        before: Mapping[str, Reading],
        remarks: tuple[str, ...],
    ) -> Held:
        handed = self._hand_over(platform, lease, ranks)
        return Held(
            hand_over=handed,
            given=self._given(platform, lease, handed.how),
            device_ids=tuple(device.id for device in lease.devices)
            or tuple(f"core {core}" for core in lease.cores),
            remarks=remarks,
            _leases=self.leases,
            _lease=lease,
            _before=before,
            _read=self.health,
        )

    @contextlib.contextmanager
    def probe(self, platform: str) -> Iterator[HandOver]:
        """Hold one device of a platform, or one core, for a probe. Raises as :meth:`lease`."""
        if VENDORS[platform].accelerator:
            request = Request(devices=self._devices(platform), count=1)
        else:
            request = Request(cores=self.inventory.cpu.cores, core_count=1)
        with self._wait(request, platform, f"probe of {platform}") as lease:
            try:
                yield self._hand_over(platform, lease, 1)
            except PrepareError as error:
                if error.left_behind:
                    self.leases.abandon(lease, error.left_behind)
                raise

    def blame(
        self, entry: PlanEntry, device_ids: tuple[str, ...], cause: str, *, lasts: bool, closes: bool
    ) -> bool:
        """Count a host fault of a cell against its devices: with repeated faults they are set aside (F05).

        One that ``lasts`` does so at once, and where it ``closes`` the host no other cell of that platform is tried
        here. Gives whether this host has other devices for the cell, or may use the same again.
        """
        for device in self.inventory.devices:
            if device.id in device_ids:
                self._faults[device.id] += 1
                if lasts or self._faults[device.id] >= FAULTS_BEFORE_ASIDE:
                    self._aside.setdefault(device.id, cause)
                if lasts and closes:
                    self._blocked.setdefault(device.platform, cause)
        return not self._never(self._request(entry), entry.cell.get("platform"))

    def _look(self, devices: tuple[Device, ...]) -> tuple[Mapping[str, Reading], tuple[str, ...], bool]:
        """Readings of leased devices, what is to be said of them, and whether all may be used."""
        before: dict[str, Reading] = {}
        remarks: list[str] = []
        for device in devices:
            decision, readings = settle(lambda device=device: self.health((device,))[device.id])  # type: ignore[misc]
            if not decision.usable:
                self._aside[device.id] = decision.text
                return before, (), False
            before[device.id] = readings[-1]
            if decision.text != "clean at once":
                remarks.append(f"device {device.id}: {decision.text}")
        return before, tuple(remarks), True

    def _hand_over(self, platform: str, lease: Lease, ranks: int) -> HandOver:
        vendor = VENDORS[platform]
        if self.containers:
            return hand_over(vendor, lease.devices, self.offer, cores=lease.cores, ranks=ranks)
        return hand_over_process(vendor, lease.devices, cores=lease.cores, ranks=ranks)

    def _given(self, platform: str, lease: Lease, how: str) -> Given:
        return Given(
            platform=platform,
            how=how,
            devices=tuple(device.id for device in lease.devices),
            files=tuple(dict.fromkeys(node for device in lease.devices for node in device.nodes)),
            cores=lease.cores,
            contained=self.containers,
        )

    def _request(self, entry: PlanEntry) -> Request:
        platform = entry.cell.get("platform")
        if VENDORS[platform].accelerator:
            return Request(devices=self._devices(platform), count=entry.settings.devices)
        return Request(
            cores=self.inventory.cpu.cores,
            core_count=self._core_count(entry),
            memory_bytes=entry.settings.limits.memory_bytes or 0,
            memory_total=self.inventory.cpu.memory_bytes,
        )

    def _core_count(self, entry: PlanEntry) -> int:
        ranks = _ranks(entry)
        each = max(1, min(CORES_PER_RANK, len(self.inventory.cpu.cores) // (ranks * self.jobs)))
        return ranks * each

    def _devices(self, platform: str) -> tuple[Device, ...]:
        return tuple(
            device
            for device in self.inventory.devices
            if device.platform == platform and device.id not in self._aside
        )

    def _never(self, request: Request, platform: str) -> str:
        """Why a request can never be met on this host, with the devices that are out of use; empty where it can."""
        if blocked := self._blocked.get(platform):
            return f"no {platform} cell is tried on this host any more: {blocked}"
        never = request.never()
        own = {device.id for device in self.inventory.devices if device.platform == platform}
        aside = [f"device {name} is set aside: {why}" for name, why in self._aside.items() if name in own]
        return "; ".join([never, *aside]) if never else ""

    @contextlib.contextmanager
    def _wait(
        self,
        request: Request,
        platform: str,
        cell: str,
        limit_s: float = math.inf,
        avoid: tuple[str, ...] = (),
    ) -> Iterator[Lease]:
        if never := self._never(request, platform):
            msg = f"{cell}: {never}"
            raise PrepareError(msg, Fault.DEVICE)
        try:
            lease = self._elsewhere(request, cell, avoid) or self._acquire(
                request, cell, time.monotonic() + limit_s
            )
        except LeaseError as error:
            raise PrepareError(str(error), Fault.DISK) from error
        with lease or Lease("cancelled") as held:
            yield held

    def _elsewhere(self, request: Request, cell: str, avoid: tuple[str, ...]) -> Lease | None:
        others = tuple(device for device in request.devices if device.id not in avoid)
        if others == request.devices:
            return None
        return self.leases.try_acquire(replace(request, devices=others), cell=cell)

    def _acquire(self, request: Request, cell: str, until_s: float) -> Lease | None:
        lease = self.leases.try_acquire(request, cell=cell)
        if lease is not None:
            return lease
        own_left_s = time.monotonic() + OWN_LEFT_S
        with self.leases.queue(request) as ticket:
            while lease is None and not self.cancelled():
                if time.monotonic() > until_s:
                    msg = f"{cell}: nothing of what it needs became free within its limit (limits.phases.prepare)"
                    raise PrepareError(msg, Fault.DEVICE)
                left = self.leases.left_by_me() if time.monotonic() > own_left_s else ()
                if left and (never := request.without(left).never()):
                    names = ", ".join(sorted({owner.thing for owner in left}))
                    msg = f"{cell}: {never}; an earlier cell could not be removed and may use {names}"
                    raise PrepareError(msg, Fault.DEVICE)
                time.sleep(POLL_S)
                self.clean_up()
                lease = self.leases.try_acquire(request, cell=cell, ticket=ticket)
        return lease


def widths(inventory: Inventory) -> dict[str, int]:
    """Most devices of each platform that one cell can get together."""
    return {
        name: widest(tuple(device for device in inventory.devices if device.platform == name))
        for name in VENDORS
    }


def _ranks(entry: PlanEntry) -> int:
    return int(text) if (text := entry.cell.get("tp", "1")).isdecimal() else 1
