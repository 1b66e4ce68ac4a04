"""NVIDIA devices of a host: through NVML, and where it cannot be asked, through the driver's own files."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from runner.hosts.nvml import Nvml, NvmlGpu, NvmlSlice
from runner.hosts.sources import Source
from runner.machine import Device, Link

DRIVER_SIGNS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
"""Without one of these there is no NVIDIA driver, and NVML is not asked (``/dev/dxg``: Windows' WSL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Devices of one vendor; ``absent`` says why there are none."""

    devices: tuple[Device, ...] = ()
    absent: str = ""
    driver: str = ""
    remarks: tuple[str, ...] = ()


def read_nvidia(source: Source) -> Found:
    """Devices in the order of NVML, which is PCI order. Slices of a GPU in MIG mode stand in its place."""
    if not any(map(source.exists, DRIVER_SIGNS)):
        return Found(absent="no NVIDIA driver on this host (no /proc/driver/nvidia, no /dev/nvidiactl)")
    answer = source.nvml()
    if answer.problem:
        return _without_nvml(source, answer)
    remarks: list[str] = []
    devices: list[Device] = []
    for gpu in answer.gpus:
        if gpu.problem:
            remarks.append(
                f"GPU {gpu.index} is left out: {gpu.problem} (see dmesg for Xid lines; it may need a reset)"
            )
        elif gpu.mig and not gpu.slices:
            remarks.append(
                f"{gpu.uuid} is left out: MIG is on and it has no instance"
                " (make one with `nvidia-smi mig -cgi ... -C`, or turn MIG off)"
            )
        elif gpu.mig:
            devices += [_slice(source, gpu, each, slot) for slot, each in enumerate(gpu.slices)]
        else:
            devices.append(_whole(source, gpu, answer))
    cuda = f" (CUDA {answer.cuda})" if answer.cuda else ""
    return Found(
        devices=tuple(devices),
        absent=""
        if devices
        else "the NVIDIA driver offers no usable GPU" + (f": {remarks[0]}" if remarks else ""),
        driver=answer.driver + cuda,
        remarks=tuple(remarks),
    )


def _numa(source: Source, pci: str) -> int | None:
    """NUMA node of a PCI device; the kernel writes -1 where the machine has one node or does not say."""
    text = (source.text(f"/sys/bus/pci/devices/{pci}/numa_node") or "").strip() if pci else ""
    return int(text) if text.isdigit() else None


def _node(number: int | None) -> tuple[str, ...]:
    return () if number is None else (f"/dev/nvidia{number}",)


def _whole(source: Source, gpu: NvmlGpu, answer: Nvml) -> Device:
    return Device(
        platform="cuda",
        index=gpu.index,
        id=gpu.uuid,
        name=gpu.name,
        capability=gpu.capability,
        memory_bytes=gpu.memory_bytes,
        nodes=_node(gpu.minor),
        pci=gpu.pci,
        numa_node=_numa(source, gpu.pci),
        links=_links(gpu, answer),
    )


def _slice(source: Source, gpu: NvmlGpu, each: NvmlSlice, slot: int) -> Device:
    """A MIG device needs its parent's node and the two capability nodes of its GPU and compute instance."""
    minors = source.text("/proc/driver/nvidia-caps/mig-minors") or ""
    wanted = (f"gpu{gpu.minor}/gi{each.gi}/access", f"gpu{gpu.minor}/gi{each.gi}/ci{each.ci}/access")
    known = {name: number for name, _, number in (line.partition(" ") for line in minors.splitlines())}
    caps = tuple(f"/dev/nvidia-caps/nvidia-cap{known[name].strip()}" for name in wanted if name in known)
    return Device(
        platform="cuda",
        index=gpu.index,
        id=each.uuid,
        name=each.name or f"{gpu.name} MIG",
        capability=gpu.capability,
        memory_bytes=each.memory_bytes,
        nodes=_node(gpu.minor) + caps,
        pci=gpu.pci,
        numa_node=_numa(source, gpu.pci),
        parent=gpu.uuid,
        slot=slot,
        links=(),
    )


def _links(gpu: NvmlGpu, answer: Nvml) -> tuple[Link, ...]:
    """NVLink where two GPUs share links or a switch fabric, otherwise what PCI offers."""
    levels = {frozenset((pair.a, pair.b)): pair.level for pair in answer.pairs}
    direct = Counter(address for kind, address in gpu.links if kind == "gpu")
    switched = sum(kind == "switch" for kind, _ in gpu.links)
    found: list[Link] = []
    for other in answer.gpus:
        if other.index == gpu.index or not other.uuid or other.mig:
            continue
        both_switched = min(switched, sum(kind == "switch" for kind, _ in other.links))
        if direct[other.pci]:
            found.append(Link(to=other.uuid, kind="nvlink", count=direct[other.pci]))
        elif both_switched:
            found.append(Link(to=other.uuid, kind="nvswitch", count=both_switched))
        elif level := levels.get(frozenset((gpu.index, other.index))):
            found.append(Link(to=other.uuid, kind=level))
    return tuple(found)


def _without_nvml(source: Source, answer: Nvml) -> Found:
    """Devices by the driver's files alone: identity, model and nodes are known, capability and memory are not."""
    devices: list[Device] = []
    for index, pci in enumerate(source.names("/proc/driver/nvidia/gpus")):
        text = source.text(f"/proc/driver/nvidia/gpus/{pci}/information") or ""
        fields = {
            name.strip(): value.strip()
            for name, _, value in (row.partition(":") for row in text.splitlines())
        }
        uuid, minor = fields.get("GPU UUID", ""), fields.get("Device Minor", "")
        if not minor.isdigit() or not source.exists(f"/dev/nvidia{minor}"):
            continue  # another container's GPU: its file is here, its node is not
        devices.append(
            Device(
                platform="cuda",
                index=index,
                id=uuid if uuid.startswith("GPU-") and "?" not in uuid else f"pci-{pci.lower()}",
                name=fields.get("Model", ""),
                nodes=(f"/dev/nvidia{minor}",),
                pci=pci.lower(),
                numa_node=_numa(source, pci.lower()),
            )
        )
    driver = re.search(
        r"Kernel Module(?: for \S+)?\s+(\d[\d.]+)", source.text("/proc/driver/nvidia/version") or ""
    )
    if not devices:
        return Found(absent=answer.problem, driver=driver[1] if driver else "")
    remark = (
        f"{answer.problem}: GPUs are known by the driver's files alone, without capability, memory and MIG"
    )
    return Found(devices=tuple(devices), driver=driver[1] if driver else "", remarks=(remark,))
