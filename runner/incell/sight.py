"""What this cell sees of its host, before an engine starts: its cores, device files, and the devices drivers count for it.

It goes into the first event of the evidence, and the runner compares it with what the cell leased.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DEVICE_FILES = re.compile(r"kfd|nvidia[0-9]+|dri/renderD[0-9]+|nvidia-caps/nvidia-cap[0-9]+")
"""Files under /dev that stand for an accelerator or a slice of one (NVIDIA's nvidiactl and uvm are of all of them)."""

CPUSETS = ("cpuset.cpus.effective", "cpuset/cpuset.effective_cpus", "cpuset/cpuset.cpus")
"""The core set of a control group, version 2 and 1, below /sys/fs/cgroup; a host outside of a container may have none."""

DRIVER_S = 30.0
"""How long NVIDIA's driver may take to answer, seconds. One that hangs is left alone: it cannot be killed."""


def look(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The `sees` field of the `start` event. Never raises; `problems` says what could not be found out."""
    variables = os.environ if environ is None else environ
    problems: list[str] = []
    files = device_files(root)
    drivers: dict[str, list[str]] = {}
    windows = (root / "dev/dxg").exists()  # WSL has no file for each device
    if windows or any(name.startswith("/dev/nvidia") for name in files):
        answer = _cuda()
        if "devices" in answer:
            drivers["cuda"] = answer["devices"]
        else:
            problems.append(f"NVIDIA's driver: {answer.get('problem', 'no answer')}")
    if "/dev/kfd" in files:
        drivers["rocm"] = list(visible(list(amd(root)), variables))
    return {
        "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "cpuset": cpuset(root),
        "files": files,
        "drivers": drivers,
        "problems": problems,
    }


def device_files(root: Path) -> list[str]:
    """Files of accelerators under /dev, by name."""
    found: list[str] = []
    for folder in ("dev", "dev/dri", "dev/nvidia-caps"):
        try:
            found += [f"/{folder}/{path.name}" for path in (root / folder).iterdir()]
        except OSError:
            continue
    return sorted(name for name in found if DEVICE_FILES.fullmatch(name.removeprefix("/dev/")))


def cpuset(root: Path) -> list[int] | None:
    """Cores that the control group allows; None where it does not say."""
    for name in (*_own_cpusets(root), *CPUSETS):
        try:
            text = (root / "sys/fs/cgroup" / name).read_text(encoding="ascii").strip()
            parts = [part.partition("-") for part in text.split(",") if part]
            return sorted(
                core for first, _, last in parts for core in range(int(first), int(last or first) + 1)
            )
        except (OSError, ValueError):
            continue
    return None


def _own_cpusets(root: Path) -> Iterator[str]:
    """Where version 2 keeps the core set of this cell if the engine shows it the host's whole tree (`--cgroupns=host`).

    With a tree of its own the cell is at the root of it, and :data:`CPUSETS` are what it finds.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        path = line.removeprefix("0::/")
        if path not in ("", line) and ".." not in path.split("/"):
            yield f"{path}/{CPUSETS[0]}"


def amd(root: Path) -> Iterator[str]:
    """Identities of AMD devices as the runner writes them: nodes of the kernel driver whose render node is here.

    A node that a device filter hides reads as empty (drivers/gpu/drm/amd/amdkfd/kfd_topology.c). Never ran on hardware.
    """
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    try:
        numbers = sorted(int(path.name) for path in nodes.iterdir() if path.name.isdigit())
    except OSError:
        return
    every = [_numbers(nodes / str(number) / "properties") for number in numbers]
    gpus = [each for each in every if each.get("simd_count") and each.get("drm_render_minor", 0) > 0]
    places = [_place(each) for each in gpus]
    for each, place in zip(gpus, places, strict=True):
        if (root / f"dev/dri/renderD{each['drm_render_minor']}").exists():
            chip = f"GPU-{each['unique_id']:016x}" if each.get("unique_id") else f"pci-{place}"
            slot = each.get("location_id", 0) >> 28 & 0xF
            yield f"{chip}/{slot}" if slot or places.count(place) > 1 else chip


def visible(devices: list[str], environ: Mapping[str, str]) -> list[str]:
    """What ROCr's and then HIP's variable leave; an entry that names nothing ends the list (AMD's "GPU isolation")."""
    hip = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in environ else "CUDA_VISIBLE_DEVICES"
    for name in ("ROCR_VISIBLE_DEVICES", hip):
        if name not in environ:
            continue
        kept: list[str] = []
        for entry in (part.strip() for part in environ[name].split(",")):
            number = int(entry) if entry.isdigit() else -1
            named = (
                devices[number : number + 1] if number >= 0 else [each for each in devices if each == entry]
            )
            if not named:
                break
            kept += named
        devices = kept
    return devices


def _place(properties: Mapping[str, int]) -> str:
    place = properties.get("location_id", 0)
    return f"{properties.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"


def _numbers(path: Path) -> dict[str, int]:
    try:
        pairs = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _cuda() -> dict[str, Any]:
    """What `cuda.py` says, from a process of its own: a driver that was asked here would be in the way of forks."""
    script = Path(__file__).with_name("cuda.py")
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        return {"problem": str(error)}
    try:
        text, _ = child.communicate(timeout=DRIVER_S)
        answer = json.loads(text)
    except subprocess.TimeoutExpired:
        child.kill()
        return {"problem": f"no answer within {DRIVER_S:g} s"}
    except ValueError:
        return {"problem": f"it ended with {child.returncode} and without an answer"}
    return answer if isinstance(answer, dict) else {}
