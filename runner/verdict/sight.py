"""Whether a cell saw the devices and cores that it leased: its first proof, for what it tested ran there or elsewhere.

What is compared depends on how a cell is bounded. A container has a /dev and a core set of its own, so files count. A
process of the host sees every file, and is bounded by its affinity and by what a driver counts for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from runner.facts import Evidence
from runner.machine import Given, Sight
from runner.vendors import VENDORS

DEVICE_FILES = {
    "cuda": re.compile(r"/dev/nvidia[0-9]+"),
    "rocm": re.compile(r"/dev/kfd|/dev/dri/renderD[0-9]+"),
}
"""Files under /dev that stand for one vendor's devices."""


def read_sight(value: object) -> Sight | None:
    """The `sees` field of a `start` event; None where it is not there or is no object. A wrong part is left out."""
    if not isinstance(value, dict):
        return None
    drivers = value.get("drivers")
    return Sight(
        cores=_numbers(value.get("cores")),
        cpuset=_numbers(value.get("cpuset")),
        files=_texts(value.get("files")),
        drivers={str(name): _texts(ids) for name, ids in drivers.items() if isinstance(ids, list)}
        if isinstance(drivers, dict)
        else {},
        problems=_texts(value.get("problems")),
    )


def unknown(given: Given, sight: Sight | None) -> str:
    """What the cell does not say of its sight and must; empty where it says all."""
    if sight is None:
        return "the evidence does not say which devices and cores the cell sees"
    if given.cores and sight.cores is None:
        return f"the cell does not say which cores it sees; it was given {_cores(given.cores)}"
    if given.devices and given.platform not in sight.drivers:
        why = "; ".join(sight.problems) or "no device file and no driver"
        return f"the cell cannot say which devices it sees ({why}); it was given {_names(given.devices)}"
    return ""


def differences(given: Given, evidence: Evidence) -> Iterator[str]:
    """Where the cell sees more, less or other than it was given; both sets are named."""
    sight = evidence.sight
    if sight is not None:
        yield from _of_cores(given, sight)
        yield from _of_devices(given, sight)
        yield from _foreign(given, sight)
    for rank in evidence.ranks:
        if rank.visible_devices is not None and rank.visible_devices != len(given.devices):
            was = f"the cell was given {_names(given.devices)}"
            yield f"rank {rank.rank} sees {rank.visible_devices} devices, {was}"


def _of_cores(given: Given, sight: Sight) -> Iterator[str]:
    seen = {"its affinity": sight.cores, "its control group": sight.cpuset if given.contained else None}
    for where, cores in seen.items():
        if given.cores and cores is not None and set(cores) != set(given.cores):
            yield f"the cell sees {_cores(cores)} by {where}, it was given {_cores(given.cores)}"


def _of_devices(given: Given, sight: Sight) -> Iterator[str]:
    seen = sight.drivers.get(given.platform)
    if given.devices and seen is not None and not _same(given.devices, seen):
        yield f"the cell sees {_names(seen)}, it was given {_names(given.devices)}"
    files = _files(sight.files, "rocm")
    if given.contained and given.platform == "rocm" and files != {"/dev/kfd", *given.files}:
        yield f"the cell sees {_names(sorted(files))}, it was given {_names(('/dev/kfd', *given.files))}"


def _foreign(given: Given, sight: Sight) -> Iterator[str]:
    """Devices of a vendor of which nothing was leased."""
    own = f"it was given {_names(given.devices)}"
    others = [name for name in VENDORS if name != given.platform or not given.devices]
    for name in others:
        files = _files(sight.files, name) if given.contained else set()
        if given.devices and given.platform == "cuda":
            files &= {"/dev/kfd"}  # NVIDIA's toolkit adds the render nodes of its own GPUs
        # A process on a host of two vendors is bounded for the one it uses; a cell without a device for every one.
        if sight.drivers.get(name) and (given.contained or not given.devices):
            yield f"the cell sees {_names(sight.drivers[name])} of platform {name}, {own}"
        elif files:
            yield f"the cell sees {_names(sorted(files))}, {own}"


def _files(files: Iterable[str], platform: str) -> set[str]:
    pattern = DEVICE_FILES.get(platform)
    return {name for name in files if pattern and pattern.fullmatch(name)}


def _same(given: Sequence[str], seen: Sequence[str]) -> bool:
    """Whether both are one set. Where a driver told the host a PCI address for an identity, numbers are compared."""
    if any(each.startswith("pci-") for each in given):
        return len(given) == len(seen)
    return sorted(map(_plain, given)) == sorted(map(_plain, seen))


def _plain(identity: str) -> str:
    """Without the prefix of its kind, and without the number of a first partition: others may be hidden from the cell."""
    return identity.lower().removeprefix("gpu-").removeprefix("mig-").removesuffix("/0")


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "no device"


def _cores(cores: Iterable[int]) -> str:
    """``cores 0-3,8``; ``core 1``."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"{'core' if len(set(cores)) == 1 else 'cores'} {text or 'none'}"


def _numbers(value: Any) -> tuple[int, ...] | None:
    whole = isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
    return tuple(value) if whole else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
