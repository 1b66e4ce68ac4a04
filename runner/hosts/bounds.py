"""Which devices of a host an agent or a pod was granted: visible-devices variables and render nodes.

Sources: "CUDA environment variables" of the CUDA programming guide (an unknown entry hides itself and all after it;
identifiers may be cut short), NVIDIA container toolkit's user guide (``all``, ``none``, ``void``, ``GPU:MIG``
positions), ROCm's "GPU isolation techniques" (ROCr filters first, HIP then counts what is left, from 0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runner.hosts.devices import physical
from runner.machine import Device

NOTHING = frozenset({"", "void", "none", "NoDevFiles", "-1"})

RENDER_NODES_META_DATA = "BUILDKITE_AGENT_META_DATA_RENDER_DEVICES"
"""Agent metadata that names the render nodes of this agent, as options or paths; only ``renderDN`` is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """The devices that are left, why there are none, and entries that named nothing."""

    devices: tuple[Device, ...]
    absent: str = ""
    remarks: tuple[str, ...] = ()


def bound_nvidia(devices: tuple[Device, ...], environ: Mapping[str, str], *, contained: bool) -> Bounded:
    """Apply ``NVIDIA_VISIBLE_DEVICES`` and ``CUDA_VISIBLE_DEVICES``; a device must be in both where both are set.

    The toolkit applies the first when it makes a container: its numbers are then the host's and no longer ours. It is
    taken as applied inside a container (``contained``), and where it counts as many devices as are here.
    """
    bounded = Bounded(devices=devices)
    outer = environ.get("NVIDIA_VISIBLE_DEVICES")
    if outer is not None and not (
        _only_numbers(outer) and (contained or len(outer.split(",")) == len(devices))
    ):
        bounded = _merge(bounded, _apply("NVIDIA_VISIBLE_DEVICES", outer, devices))
    inner = environ.get("CUDA_VISIBLE_DEVICES")
    if inner is not None:
        bounded = _merge(bounded, _apply("CUDA_VISIBLE_DEVICES", inner, devices))
        if len({device.name for device in devices}) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            remark = (
                "CUDA_VISIBLE_DEVICES is read in PCI order; set CUDA_DEVICE_ORDER=PCI_BUS_ID, the GPUs differ"
            )
            bounded = _merge(bounded, Bounded(devices=bounded.devices, remarks=(remark,)))
    return bounded


def bound_amd(devices: tuple[Device, ...], environ: Mapping[str, str], *, mixed: bool) -> Bounded:
    """Apply granted render nodes, ``ROCR_VISIBLE_DEVICES``, then ``HIP_VISIBLE_DEVICES`` on what that leaves.

    HIP reads ``CUDA_VISIBLE_DEVICES`` in place of its own; on a host with both vendors (``mixed``) that is NVIDIA's.
    """
    bounded = Bounded(devices=devices)
    granted = re.findall(r"renderD\d+", environ.get(RENDER_NODES_META_DATA, ""))
    if granted:
        kept = tuple(each for each in devices if each.nodes[0].rpartition("/")[2] in granted)
        known = {each.nodes[0].rpartition("/")[2] for each in devices}
        lost = tuple(
            f"{RENDER_NODES_META_DATA} names {name}, which is not here"
            for name in granted
            if name not in known
        )
        why = "" if kept else f"{RENDER_NODES_META_DATA} grants no device of this host"
        bounded = Bounded(devices=kept, absent=why, remarks=lost)
    names = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"]
    if "HIP_VISIBLE_DEVICES" not in environ and not mixed:
        names[1] = "CUDA_VISIBLE_DEVICES"
    for name in names:
        if name in environ:
            counted = tuple(replace(each, index=place) for place, each in enumerate(bounded.devices))
            applied = _apply(name, environ[name], counted)
            left = {each.id for each in applied.devices}
            own = tuple(each for each in bounded.devices if each.id in left)
            bounded = _merge(bounded, replace(applied, devices=own))
    return bounded


def _only_numbers(value: str) -> bool:
    return all(re.fullmatch(r"\d+(:\d+)?|all", part.strip()) for part in value.split(","))


def _merge(first: Bounded, second: Bounded) -> Bounded:
    kept = tuple(each for each in first.devices if each in second.devices)
    why = (
        first.absent
        or second.absent
        or ("" if kept else "the visible-devices variables have no device in common")
    )
    return Bounded(devices=kept, absent=why, remarks=first.remarks + second.remarks)


def _apply(name: str, value: str, devices: tuple[Device, ...]) -> Bounded:
    if value.strip() in NOTHING:
        return Bounded(devices=(), absent=f'{name}="{value}" hides every device')
    if value.strip() == "all":
        return Bounded(devices=devices)
    kept: list[Device] = []
    remarks: list[str] = []
    for entry in (part.strip() for part in value.split(",")):
        found = _named(entry, devices)
        if not found:
            known = ", ".join(each.id for each in devices) or "none"
            remarks.append(
                f'{name}: "{entry}" names no device; it and what follows is not used (here: {known})'
            )
            break
        kept += [each for each in found if each not in kept]
    return Bounded(
        devices=tuple(each for each in devices if each in kept),
        absent="" if kept else f'{name}="{value}" names no device of this host',
        remarks=tuple(remarks),
    )


def _named(entry: str, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Devices an entry means: a position, ``GPU:MIG`` positions, an identifier or its unambiguous beginning.

    A whole GPU that is cut in slices means all its slices.
    """
    if entry.isdigit():
        return tuple(each for each in devices if each.index == int(entry))
    if pair := re.fullmatch(r"(\d+):(\d+)", entry):
        return tuple(each for each in devices if (each.index, each.slot) == (int(pair[1]), int(pair[2])))
    if entry in ("", "GPU-", "MIG-"):
        return ()
    found = tuple(each for each in devices if each.id.lower().startswith(entry.lower()))
    if exact := tuple(each for each in found if each.id.lower() == entry.lower()):
        return exact
    if len(found) == 1:
        return found
    chips = {physical(each) for each in devices if physical(each).lower().startswith(entry.lower())}
    return tuple(each for each in devices if physical(each) in chips) if len(chips) == 1 else ()
