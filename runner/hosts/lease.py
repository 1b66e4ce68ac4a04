"""One lease: what a cell asks for, the locks that keep it, and how it ends."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from runner.hosts.devices import physical
from runner.hosts.locks import LeaseError, open_lock, read_record, try_lock, write_record
from runner.hosts.records import LeaseOwner, read_owner, write_owner
from runner.hosts.topology import widest
from runner.machine import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one cell wants: ``count`` of ``devices`` and ``core_count`` of ``cores`` (candidates, healthy and granted).

    ``memory_bytes`` of host memory are taken off ``memory_total``, what the host has; 0 asks for no accounting.
    """

    devices: tuple[Device, ...] = ()
    count: int = 0
    cores: tuple[int, ...] = ()
    core_count: int = 0
    memory_bytes: int = 0
    memory_total: int = 0

    def never(self) -> str:
        """Why this can never be met here, however long one waits; empty where it can."""
        if self.count > widest(self.devices):
            return f"needs {self.count} devices of one kind, and one cell gets {widest(self.devices)} here at most"
        if self.core_count > len(self.cores):
            return f"needs {self.core_count} cores of {len(self.cores)}"
        if self.memory_total and self.memory_bytes > self.memory_total:
            return f"needs {self.memory_bytes >> 20} MiB of host memory of {self.memory_total >> 20}"
        return ""

    def without(self, held: Collection[LeaseOwner]) -> Request:
        """The same of what is left where all that is taken away."""
        things, memory = {each.thing for each in held}, sum(each.memory_bytes for each in held)
        return replace(
            self,
            devices=tuple(device for device in self.devices if device.id not in things),
            cores=tuple(core for core in self.cores if f"core {core}" not in things),
            memory_total=self.memory_total and max(1, self.memory_total - memory),
        )


@dataclass(slots=True)
class Grip:
    """Locks on one thing: the file with its record first, then (for a slice) its parent's, shared."""

    thing: str
    descriptors: list[int] = field(default_factory=list)

    def write(self, owner: LeaseOwner) -> None:
        """Say whose it is. Raises :class:`OSError` on a full disk."""
        write_record(self.descriptors[0], write_owner(owner))

    def clear(self) -> None:
        """Remove the record."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptors[0], 0)

    def close(self) -> None:
        """Let go."""
        while self.descriptors:
            os.close(self.descriptors.pop())


@dataclass(slots=True)
class Lease:
    """Devices, cores and memory of one cell; a context manager. Leaving it frees everything."""

    id: str
    devices: tuple[Device, ...] = ()
    cores: tuple[int, ...] = ()
    memory_bytes: int = 0
    grips: list[Grip] = field(default_factory=list, repr=False)
    memory_file: Path | None = field(default=None, repr=False)

    def release(self) -> None:
        """Give all back. Records are cleared first: a free lock with a record means an owner that died."""
        for grip in self.grips:
            grip.clear()
        if self.memory_file is not None:
            self.memory_file.unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        """Let go but leave the records, where the cell could not be removed: nobody gets these before a clean-up."""
        while self.grips:
            self.grips.pop().close()
        self.memory_file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def device_files(device: Device) -> tuple[str, ...]:
    """The lock file of a device, and its parent's for a slice. A slice's name begins with its parent's and ``@``."""
    chip = _file_name(physical(device))
    if not device.parent:
        return (f"device-{chip}.lock",)
    return (f"device-{chip}@{_file_name(device.id)}.lock", f"device-{chip}.lock")


def core_files(core: int) -> tuple[str, ...]:
    """The lock file of a core."""
    return (f"core-{core}.lock",)


def grip(folder: Path, thing: str, files: tuple[str, ...], boot_id: str) -> Grip | None:
    """Lock one thing if it is free and no dead owner's record is on it, on its parent or on its slices.

    Records are read only once the lock is held: an owner may be killed at any instant, also after a first look.
    """
    taken = Grip(thing)
    try:
        for number, name in enumerate(files):
            taken.descriptors.append(open_lock(folder / name))
            if not try_lock(taken.descriptors[-1], shared=number > 0):
                taken.close()
                return None
        left = [read_record(descriptor) for descriptor in taken.descriptors]
        left += [path.read_bytes() for path in _slices(folder, files)]
    except (OSError, LeaseError):
        taken.close()
        raise
    if any(binding(record, boot_id) for record in left):
        taken.close()
        return None
    return taken


def _slices(folder: Path, files: tuple[str, ...]) -> list[Path]:
    """Lock files of the slices of a whole device; a slice and a core have none."""
    if len(files) > 1 or not files[0].startswith("device-"):
        return []
    return list(folder.glob(f"{glob.escape(files[0].removesuffix('.lock'))}@*.lock"))


def binding(record: bytes, boot_id: str) -> bool:
    """Whether a record on a free lock still keeps others off: not one of an earlier boot, but one that is cut."""
    owner = read_owner(record)
    return bool(record) and (owner is None or owner.boot_id == boot_id)


def sign(lease: Lease, folder: Path, owner: LeaseOwner) -> Lease:
    """Write who holds it into each of its files. On a full disk nothing is leased: raises :class:`LeaseError`."""
    owner = replace(owner, lease=lease.id)
    try:
        if lease.memory_bytes:
            lease.memory_file = folder / f"memory-{lease.id}.lock"
            lease.grips.append(Grip("memory", [open_lock(lease.memory_file)]))
            try_lock(lease.grips[-1].descriptors[0])
        for each in lease.grips:
            memory = lease.memory_bytes if each.thing == "memory" else 0
            each.write(replace(owner, thing=each.thing, memory_bytes=memory))
    except (OSError, LeaseError) as error:
        lease.release()
        words = error.strerror if isinstance(error, OSError) else str(error)
        msg = f"{folder}: a lease cannot be written ({words}); free space there"
        raise LeaseError(msg) from error
    return lease


def _file_name(identity: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in identity)
