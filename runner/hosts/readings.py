"""Look at devices once: used memory, processes, error counters. Every query is bounded in time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from runner.hosts.amd import NODES
from runner.hosts.devices import physical
from runner.hosts.health import QUERY_LIMIT_S, Process, Reading
from runner.hosts.nvml import Nvml, NvmlGpu
from runner.hosts.sources import Source, live
from runner.machine import Device


def read_health(devices: tuple[Device, ...], source: Source = live) -> Mapping[str, Reading]:
    """One reading per device, by identity; a device that nobody can ask about has its reason there."""
    nvml = source.nvml() if any(device.platform == "cuda" for device in devices) else Nvml()
    readers: dict[str, Callable[[Device], Reading]] = {
        "cuda": lambda device: _nvidia(device, nvml, source),
        "rocm": lambda device: _amd(device, source),
    }
    return {device.id: readers[device.platform](device) for device in devices}


def _nvidia(device: Device, nvml: Nvml, source: Source) -> Reading:
    if nvml.hung:
        return Reading(device=device.id, problem=nvml.problem, hung=True, at_s=QUERY_LIMIT_S)
    if nvml.problem:
        return Reading(device=device.id, problem=nvml.problem, missing=True)
    gpu = next((each for each in nvml.gpus if each.uuid == physical(device)), None)
    if gpu is None:
        lost = [each.problem for each in nvml.gpus if each.problem]
        return Reading(
            device=device.id, problem=lost[0] if lost else "the driver no longer lists this device"
        )
    used, total = gpu.used_bytes, gpu.memory_bytes
    if device.parent:
        own = next((each for each in gpu.slices if each.uuid == device.id), None)
        if own is None:
            return Reading(device=device.id, problem="this MIG slice no longer exists")
        used, total = own.used_bytes, own.memory_bytes
    return Reading(
        device=device.id,
        used_bytes=used,
        total_bytes=total,
        processes=() if device.parent else _processes(gpu, source),
        errors=gpu.ecc_uncorrected,
        problem=gpu.problem,
    )


def _processes(gpu: NvmlGpu, source: Source) -> tuple[Process, ...]:
    return tuple(
        Process(pid=each.pid, name=_name(source, each.pid), used_bytes=each.used_bytes)
        for each in gpu.processes
    )


def _name(source: Source, pid: int) -> str:
    return (source.text(f"/proc/{pid}/comm") or "").strip()


def _amd(device: Device, source: Source) -> Reading:
    """Counters of the kernel driver. Those of a chip cannot be told apart by partition, and are then not read."""
    if device.parent:
        return Reading(device=device.id)
    folder = f"/sys/class/drm/{device.nodes[0].rpartition('/')[2]}/device"
    used = source.text_in_time(f"{folder}/mem_info_vram_used")
    if used.hung:
        return Reading(device=device.id, problem=used.problem, hung=True, at_s=QUERY_LIMIT_S)
    if not used.text.strip().isdigit():
        return Reading(
            device=device.id, problem=used.problem or "used memory reads as nonsense", missing=True
        )
    total = source.text_in_time(f"{folder}/mem_info_vram_total").text.strip()
    errors = re.search(r"^ue:\s*(\d+)", source.text_in_time(f"{folder}/ras/umc_err_count").text, re.MULTILINE)
    return Reading(
        device=device.id,
        used_bytes=int(used.text),
        total_bytes=int(total) if total.isdigit() else None,
        processes=_kfd_processes(device, source),
        errors=int(errors[1]) if errors else None,
    )


def _kfd_processes(device: Device, source: Source) -> tuple[Process, ...]:
    """Processes with memory on this GPU (``/sys/class/kfd/kfd/proc/PID/vram_GPUID``)."""
    minor = device.nodes[0].rpartition("renderD")[2]
    number = ""
    for node in source.names(NODES):
        if re.search(
            rf"^drm_render_minor {minor}$", source.text(f"{NODES}/{node}/properties") or "", re.MULTILINE
        ):
            number = (source.text(f"{NODES}/{node}/gpu_id") or "").strip()
    found: list[Process] = []
    for pid in source.names("/sys/class/kfd/kfd/proc") if number else ():
        used = (source.text(f"/sys/class/kfd/kfd/proc/{pid}/vram_{number}") or "").strip()
        if pid.isdigit() and used.isdigit() and int(used):
            found.append(Process(pid=int(pid), name=_name(source, int(pid)), used_bytes=int(used)))
    return tuple(found)
