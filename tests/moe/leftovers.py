"""What an engine may leave behind beside processes: shared memory, and memory of its devices. No torch, no engine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHM = Path("/dev/shm")
SLACK = 512 << 20
"""Bytes of device memory that may be gone afterwards: a driver keeps some of what it reserved. vLLM's own tests allow as much
(wait_for_memory_to_settle in its tests/conftest.py, 0.33.0)."""


KNOWN = re.compile(r"shared memory vllm_dist_\S*cpushm_\d+ of \d+ bytes")
"""What engines are known to leave: on a CPU at tp 2 or more, vLLM 0.32.0 leaves 4 MiB a rank in /dev/shm after every clean
shutdown (measured). It is said in the evidence and fails nothing: a container's /dev/shm goes with the container."""


@dataclass(frozen=True)
class Holdings:
    """Names of shared memory files with their bytes, and used bytes by device; `problem` where devices cannot be asked."""

    shared: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[int, int] = field(default_factory=dict)
    problem: str = ""


def look(platform: str) -> Holdings:
    """What is held now. Device memory is asked of NVML on `cuda`; elsewhere it is not asked."""
    devices, problem = _nvml() if platform == "cuda" else ({}, "")
    return Holdings(_shared(), devices, problem)


def left(before: Holdings, after: Holdings) -> list[str]:
    """What is there afterwards and was not before, in words; empty where everything came back."""
    new = {n: size for n, size in after.shared.items() if n not in before.shared}
    found = [f"shared memory {name} of {size} bytes" for name, size in sorted(new.items())]
    if after.problem and not before.problem:
        found.append(f"device memory can no longer be asked: {after.problem}")
    for device, used in sorted(after.devices.items()):
        grown = used - before.devices.get(device, 0)
        if grown > SLACK:
            found.append(f"device {device}: {grown >> 20} MiB more in use than before")
    return found


def unexpected(found: list[str]) -> list[str]:
    """Of what `left` said, that which is not known to be left."""
    return [text for text in found if not KNOWN.fullmatch(text)]


def _shared(folder: Path = SHM) -> dict[str, int]:
    out: dict[str, int] = {}
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return out
    for entry in entries:
        try:
            out[entry.name] = entry.stat(follow_symlinks=False).st_size
        except OSError:  # gone between the two calls
            continue
    return out


def _nvml() -> tuple[dict[int, int], str]:
    """Used bytes of each device this process may see, through the bindings that vLLM ships."""
    try:
        from vllm.third_party import pynvml

        pynvml.nvmlInit()
        handles = _handles(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
        used = {i: _used(pynvml, handle) for i, handle in enumerate(handles)}
    except Exception as error:  # noqa: BLE001 - no driver, no bindings, no permission: not an engine's fault
        return {}, f"{type(error).__name__}: {error}"
    return used, ""


def _handles(pynvml: Any, visible: str | None) -> list[Any]:
    """The devices of this cell alone: a host's others belong to others. Indices, or names such as GPU-... and MIG-..."""
    if visible is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return [
        pynvml.nvmlDeviceGetHandleByIndex(int(n)) if n.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(n)
        for n in names
    ]


def _used(pynvml: Any, handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
