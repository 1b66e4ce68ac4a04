"""The inventory: every source asked once, bounded by what this process was granted. Never raises for a bad host."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runner.hosts.amd import read_amd
from runner.hosts.bounds import Bounded, bound_amd, bound_nvidia
from runner.hosts.cpu import read_cpu
from runner.hosts.devices import memory_gib, of_platform
from runner.hosts.nvidia import Found, read_nvidia
from runner.hosts.sources import Source, live
from runner.machine import Inventory

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

CONTAINER_SIGNS = ("/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io")
"""Files that Docker, Podman and Kubernetes leave in a container."""


def inventory(source: Source = live, environ: Mapping[str, str] = NO_VARIABLES) -> Inventory:
    """What this host offers to this process. ``environ`` holds the variables that bound it; pass ``os.environ``."""
    hostname = (source.text("/proc/sys/kernel/hostname") or "").strip()
    cpu = read_cpu(source, hostname)
    nvidia, amd = read_nvidia(source), read_amd(source)
    contained = any(map(source.exists, CONTAINER_SIGNS))
    cuda = _bounded(nvidia, bound_nvidia(nvidia.devices, environ, contained=contained))
    rocm = _bounded(amd, bound_amd(amd.devices, environ, mixed=bool(nvidia.devices)))
    found = {"cuda": cuda, "rocm": rocm}
    return Inventory(
        hostname=hostname,
        boot_id=(source.text("/proc/sys/kernel/random/boot_id") or "").strip(),
        cpu=cpu.facts,
        devices=cuda.devices + rocm.devices,
        absent={name: each.absent for name, each in found.items() if each.absent},
        drivers={name: each.driver for name, each in found.items() if each.driver},
        remarks=cpu.remarks + cuda.remarks + rocm.remarks,
    )


def _bounded(found: Found, bounded: Bounded) -> Found:
    if not found.devices:
        return found
    return Found(
        devices=bounded.devices,
        absent=bounded.absent,
        driver=found.driver,
        remarks=found.remarks + bounded.remarks,
    )


def facts(inventory: Inventory, platform: str) -> Mapping[str, object]:
    """Names for requirement expressions on one platform. A name that is not here is unknown, hence not met.

    ``cpu``: each CPU word is True, and ``cores``, ``memory_gib``. Devices: ``devices`` (how many), ``name``,
    ``memory_gib`` and ``capability`` (text, such as ``9.0``) of the least device; ``name`` and ``gfx`` where all agree.
    """
    if platform == "cpu":
        words: dict[str, object] = dict.fromkeys(inventory.cpu.facts, True)
        gib = round(inventory.cpu.memory_bytes / (1 << 30), 1)
        return words | {"cores": len(inventory.cpu.cores), "memory_gib": gib}
    devices = of_platform(inventory, platform)
    found: dict[str, object] = {"devices": len(devices)} if devices else {}
    capabilities = [device.capability for device in devices if device.capability]
    if capabilities and len(capabilities) == len(devices):
        found["capability"] = min(capabilities, key=lambda text: [int(part) for part in text.split(".")])
    for name in ("name", "gfx"):
        values = {getattr(device, name) for device in devices}
        if len(values) == 1 and (value := values.pop()):
            found[name] = value
    sizes = [memory_gib(device) for device in devices]
    known = [size for size in sizes if size is not None]
    if known and len(known) == len(sizes):
        found["memory_gib"] = min(known)
    return found
