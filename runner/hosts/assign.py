"""From a planned cell to leased devices and a hand-over: the door through which cells reach this host's devices."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

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
from runner.machine import Device, Inventory
from runner.model import Fault, PlanEntry
from runner.vendors import VENDORS

CORES_PER_RANK = 4
"""Most cores one CPU rank is given: small models gain nothing from more, and other cells can use the rest."""

POLL_S = 0.5

FAULTS_BEFORE_ASIDE = 2
"""Host faults after which a device is used no more in this run."""


@dataclass(slots=True, kw_only=True)
class Held:
    """What one attempt holds: its hand-over, and what is to be said of its devices."""

    hand_over: HandOver
    device_ids: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    _lease: Lease
    _before: Mapping[str, Reading] = field(default_factory=dict)

    def after(self) -> tuple[str, ...]:
        """Look at the devices again, once the cell is gone, and charge it with what it left there."""
        remarks: list[str] = []
        for device in self._lease.devices:
            _, readings = settle(lambda device=device: read_health((device,))[device.id])  # type: ignore[misc]
            if device.id in self._before:
                remarks += charges(self._before[device.id], readings[-1])
        return tuple(remarks)

    def abandon(self) -> None:
        """Keep the devices out of use: the cell could not be removed and may still hold them."""
        self._lease.abandon()


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
    _faults: Counter[str] = field(default_factory=Counter)

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
    def lease(self, entry: PlanEntry) -> Iterator[Held]:
        """Hold healthy devices and cores for one attempt; waits for other runners of this host, until cancelled.

        Raises:
            PrepareError: this can never be had here, a device is not healthy, or there is no way to hand it over.

        """
        platform, ranks = entry.cell.get("platform"), _ranks(entry)
        with self._wait(self._request(entry), entry.cell.id) as lease:
            if self.cancelled():
                yield Held(hand_over=HandOver(how="none"), _lease=lease)
                return
            before, remarks = self._healthy(lease.devices)
            yield Held(
                hand_over=self._hand_over(platform, lease, ranks),
                device_ids=tuple(device.id for device in lease.devices)
                or tuple(f"core {core}" for core in lease.cores),
                remarks=remarks,
                _lease=lease,
                _before=before,
            )

    @contextlib.contextmanager
    def probe(self, platform: str) -> Iterator[HandOver]:
        """Hold one device of a platform, or one core, for a probe. Raises as :meth:`lease`."""
        if VENDORS[platform].accelerator:
            request = Request(devices=self._devices(platform), count=1)
        else:
            request = Request(cores=self.inventory.cpu.cores, core_count=1)
        with self._wait(request, f"probe of {platform}") as lease:
            yield self._hand_over(platform, lease, 1)

    def blame(self, device_ids: tuple[str, ...]) -> None:
        """Count a host fault of a cell against its devices; a device with repeated faults is set aside."""
        self._faults.update(device_ids)

    def _healthy(self, devices: tuple[Device, ...]) -> tuple[Mapping[str, Reading], tuple[str, ...]]:
        before: dict[str, Reading] = {}
        remarks: list[str] = []
        for device in devices:
            decision, readings = settle(lambda device=device: read_health((device,))[device.id])  # type: ignore[misc]
            if not decision.usable:
                self._faults[device.id] += FAULTS_BEFORE_ASIDE
                msg = f"device {device.id} is set aside: {decision.text}"
                raise PrepareError(msg, Fault.DEVICE)
            before[device.id] = readings[-1]
            if decision.text != "clean at once":
                remarks.append(f"device {device.id}: {decision.text}")
        return before, tuple(remarks)

    def _hand_over(self, platform: str, lease: Lease, ranks: int) -> HandOver:
        vendor = VENDORS[platform]
        if self.containers:
            return hand_over(vendor, lease.devices, self.offer, cores=lease.cores, ranks=ranks)
        return hand_over_process(vendor, lease.devices, cores=lease.cores, ranks=ranks)

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
            if device.platform == platform and self._faults[device.id] < FAULTS_BEFORE_ASIDE
        )

    @contextlib.contextmanager
    def _wait(self, request: Request, cell: str) -> Iterator[Lease]:
        never = request.never()
        if never:
            msg = f"{cell}: {never}"
            raise PrepareError(msg, Fault.DEVICE)
        try:
            lease = self._acquire(request, cell)
        except LeaseError as error:
            raise PrepareError(str(error), Fault.DISK) from error
        with lease or Lease("cancelled") as held:
            yield held

    def _acquire(self, request: Request, cell: str) -> Lease | None:
        lease = self.leases.try_acquire(request, cell=cell)
        if lease is not None:
            return lease
        with self.leases.queue(request) as ticket:
            while lease is None and not self.cancelled():
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
    text = entry.cell.get("tp", "1")
    return int(text) if text.isdecimal() else 1
