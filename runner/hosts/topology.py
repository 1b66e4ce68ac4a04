"""Which devices belong together: a pure choice over recorded links, NUMA nodes and models."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import comb

from runner.hosts.devices import physical
from runner.machine import Device

NEARNESS: Mapping[str, int] = {
    "partition": 7,
    "nvswitch": 6,
    "nvlink": 6,
    "xgmi": 6,
    "pix": 5,
    "pxb": 4,
    "phb": 3,
    "node": 2,
    "sys": 1,
}
"""Rank of each kind of link; where no link is recorded, two devices of one NUMA node count as ``node``."""

FABRICS = frozenset({"nvswitch", "nvlink", "xgmi"})

MAX_SETS = 4_000
"""Choices are compared one by one up to this many; beyond (16 devices and more) they are grown from each device."""


def groups(devices: tuple[Device, ...]) -> tuple[tuple[Device, ...], ...]:
    """Devices that one cell may take together: one vendor, one model, and no MIG slices side by side.

    CUDA shows a process a single MIG device, so every slice is a group of its own. Partitions of AMD chips combine.
    """
    found: dict[tuple[str, ...], list[Device]] = {}
    for device in devices:
        alone = device.id if device.platform == "cuda" and device.parent else ""
        key = (device.platform, device.name, device.capability or "", device.gfx, alone)
        found.setdefault(key, []).append(device)
    return tuple(tuple(group) for group in found.values())


def widest(devices: tuple[Device, ...]) -> int:
    """The most devices one cell can ever get here: a cell that needs more is not runnable, and never queued."""
    return max(map(len, groups(devices)), default=0)


def choose(devices: tuple[Device, ...], count: int) -> tuple[Device, ...]:
    """The best ``count`` of these (free) devices, or none if they do not suffice. Equal input gives equal choice.

    Compared in this order: the weakest link inside, all links inside, fewest NUMA nodes, how little of a
    well-connected rest is broken up, and then a slice before a whole device and the lowest numbers.
    """
    fitting = [group for group in groups(devices) if len(group) >= count >= 1]
    best = [_best(group, count) for group in fitting]
    ranked = sorted(best, key=lambda each: (not each[1][0].parent, [_place(device) for device in each[1]]))
    return max(ranked, key=lambda each: each[0], default=((), ()))[1]


def _place(device: Device) -> tuple[str, int, int, str]:
    return (device.platform, device.index, -1 if device.slot is None else device.slot, device.id)


def nearness(one: Device, other: Device) -> int:
    """How near two devices are; links are recorded on either side."""
    kinds = [link.kind for link in one.links if link.to == other.id]
    kinds += [link.kind for link in other.links if link.to == one.id]
    if kinds:
        return max(NEARNESS.get(kind, 1) for kind in kinds)
    if physical(one) == physical(other):
        return NEARNESS["partition"]
    same = one.numa_node is not None and one.numa_node == other.numa_node
    return NEARNESS["node" if same else "sys"]


def _strength(one: Device, other: Device) -> int:
    """Nearness, with the number of parallel links of a fabric behind it: six NVLinks before four."""
    counts = [link.count for link in one.links if link.to == other.id and link.kind in FABRICS]
    counts += [link.count for link in other.links if link.to == one.id and link.kind in FABRICS]
    return nearness(one, other) * 100 + max(counts, default=0)


Matrix = tuple[tuple[int, ...], ...]


def _best(group: tuple[Device, ...], count: int) -> tuple[tuple[object, ...], tuple[Device, ...]]:
    """The best set within one group, with its merit. Devices are numbered by place: ties go to the lowest."""
    devices = sorted(group, key=_place)
    near: Matrix = tuple(
        tuple(0 if one is other else _strength(one, other) for other in devices) for one in devices
    )
    numbers = range(len(devices))
    if comb(len(devices), count) <= MAX_SETS:
        sets = list(combinations(numbers, count))
    else:
        sets = [_grown(seed, near, count) for seed in numbers]
    merits = [(_merit(chosen, devices, near), chosen) for chosen in sets]
    merit, chosen = max(merits, key=lambda each: (each[0], [-number for number in each[1]]))
    return merit, tuple(devices[number] for number in chosen)


def _grown(seed: int, near: Matrix, count: int) -> tuple[int, ...]:
    """A set grown from one device by always adding the one nearest to all that are in."""
    chosen = [seed]
    rest = [number for number in range(len(near)) if number != seed]
    while len(chosen) < count:
        nearest = max(rest, key=lambda each: (sum(near[each][one] for one in chosen), -each))
        chosen.append(nearest)
        rest.remove(nearest)
    return tuple(sorted(chosen))


def _merit(chosen: tuple[int, ...], devices: list[Device], near: Matrix) -> tuple[object, ...]:
    inside = [near[one][other] for one, other in combinations(chosen, 2)]
    rest = set(range(len(near))).difference(chosen)
    broken = sum(
        near[one][other] for one in chosen for other in rest if near[one][other] >= NEARNESS["phb"] * 100
    )
    numas = len({devices[number].numa_node for number in chosen})
    return (min(inside, default=0), sum(inside), -numas, -broken)
