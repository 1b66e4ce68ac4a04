"""The vocabulary of a host: its devices and the facts of its processor. Continues :mod:`runner.model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How a device reaches another: ``kind`` is nvlink, nvswitch, xgmi, pix, pxb, phb, node, sys or partition."""

    to: str
    kind: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator of this host, or a slice of one (``parent`` is then the physical device's id).

    ``nodes`` are device files under /dev, ``pci`` is an address such as ``0000:17:00.0``, ``gfx`` AMD's target name.
    """

    platform: str
    index: int
    id: str
    name: str = ""
    capability: str | None = None
    memory_bytes: int | None = None
    nodes: tuple[str, ...] = ()
    pci: str = ""
    numa_node: int | None = None
    parent: str = ""
    slot: int | None = None
    gfx: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    """The host's processor as far as it decides kernels. ``facts`` also holds derived words such as ``zen``."""

    model: str = ""
    cores: tuple[int, ...] = ()
    memory_bytes: int = 0
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What this host offers. ``absent`` says for each platform without a device why it has none.

    ``drivers`` has a version text per platform; ``remarks`` are oddities, such as a visible-devices variable that
    names an unknown device.
    """

    hostname: str
    boot_id: str
    cpu: CpuFacts
    devices: tuple[Device, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
