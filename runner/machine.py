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


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one attempt leased, and so what its cell must see: these and no other. ``how`` names the hand-over.

    ``devices`` are identities, ``files`` their files under /dev. No ``cores``: none were leased, any may be seen.
    ``contained``: the cell has a /dev and a core set of its own; a process sees the host's, and is bound by variables.
    """

    platform: str
    how: str = ""
    devices: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    contained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a cell says it sees before it starts an engine. None: it could not find out (``problems``).

    ``cores`` is its affinity, ``cpuset`` what its control group allows. ``drivers`` has, by platform, the identities
    of the devices that a driver counts for it; a platform is not there where its driver is not, or did not answer.
    """

    cores: tuple[int, ...] | None = None
    cpuset: tuple[int, ...] | None = None
    files: tuple[str, ...] = ()
    drivers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
