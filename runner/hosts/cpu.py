"""The processor of a host, as far as it decides which kernels an engine has, and what this process may use of it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runner.hosts.sources import Source
from runner.machine import CpuFacts

DECISIVE_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "i8mm",
    "bf16",
)
"""Flags that decide kernels of vLLM for CPU (x86: ``vllm/platforms/cpu.py``; Arm: ``i8mm``, ``bf16``)."""

UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2**63; anything this large is none."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU facts and what a person should know about them."""

    facts: CpuFacts
    remarks: tuple[str, ...] = ()


def read_cpu(source: Source, hostname: str = "") -> CpuReading:
    """Model, decisive flags, and the cores and memory that affinity and control groups leave to this process."""
    fields = _cpuinfo(source.text("/proc/cpuinfo") or "")
    cores, remarks = _cores(source, hostname)
    return CpuReading(
        CpuFacts(
            model=_model(fields),
            cores=cores,
            memory_bytes=_memory(source),
            facts=tuple(sorted(_facts(fields))),
        ),
        remarks,
    )


def parse_cores(text: str) -> tuple[int, ...]:
    """Read the kernel's list format, ``0-3,8``. Raises :class:`ValueError` on anything else."""
    cores: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cores))


def format_cores(cores: Iterable[int]) -> str:
    """Write cores in the kernel's list format, ranges joined: ``0-3,8``."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _cpuinfo(text: str) -> dict[str, str]:
    """First value of each field: the cores of a host that decides kernels are alike."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _model(fields: dict[str, str]) -> str:
    if fields.get("model name"):
        return fields["model name"]
    if "cpu implementer" in fields:
        return f"Arm implementer {fields['cpu implementer']} part {fields.get('cpu part', '?')}"
    return fields.get("cpu", fields.get("vendor_id", ""))


def _facts(fields: dict[str, str]) -> Iterator[str]:
    flags = set(fields.get("flags", fields.get("features", "")).split())
    yield from flags.intersection(DECISIVE_FLAGS)
    vendor = fields.get("vendor_id", "")
    if "flags" in fields:
        yield "x86_64"
    elif "cpu implementer" in fields:
        yield "arm64"
    elif fields.get("cpu", "").startswith("POWER"):
        yield "ppc64le"
    elif vendor.startswith("IBM/S390"):
        yield "s390x"
    if vendor == "AuthenticAMD":
        yield "amd"
        if "avx512f" in flags:
            yield "zen"  # the processors zentorch serves: AMD with AVX-512 (Zen 4 and later)
    if vendor == "GenuineIntel":
        yield "intel"
    if {"amx_tile", "amx_int8"} <= flags:
        yield "amx"


def _cores(source: Source, hostname: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    status = source.text("/proc/self/status") or ""
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    online = source.text("/sys/devices/system/cpu/online")
    cores = parse_cores(allowed[1]) if allowed else parse_cores(online or "0")
    if online:  # a kernel may allow more numbers than there are cores
        cores = tuple(core for core in cores if core in set(parse_cores(online)))
    for text in _cgroup(source, "cpuset", ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")):
        if text.strip():
            granted = set(parse_cores(text))
            cores = tuple(core for core in cores if core in granted) or cores
            break
    return _within_quota(cores, _quota(source), hostname)


def _within_quota(
    cores: tuple[int, ...], quota: float | None, hostname: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Use no more cores than there is CPU time for: threads beyond the quota are throttled and look hung.

    Neighbours with the same affinity start at different cores, by host name.
    """
    whole = len(cores) if quota is None else max(1, int(quota))
    if whole >= len(cores):
        return cores, ()
    first = zlib.crc32(hostname.encode()) % (len(cores) - whole + 1)
    remark = f"the control group grants {quota:g} CPUs of time on {len(cores)} cores: {whole} are used"
    return cores[first : first + whole], (remark,)


def _quota(source: Source) -> float | None:
    found: list[float] = []
    for text in _cgroup(source, "cpu", ("cpu.max",), ancestors=True):
        words = text.split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
            found.append(int(words[0]) / int(words[1]))
    quotas = _cgroup(source, "cpu", ("cpu.cfs_quota_us",), ancestors=True)
    periods = _cgroup(source, "cpu", ("cpu.cfs_period_us",), ancestors=True)
    for quota, period in zip(quotas, periods, strict=False):
        if quota.strip().isdigit() and period.strip().isdigit() and int(period):  # -1: no limit
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _memory(source: Source) -> int:
    total = re.search(r"^MemTotal:\s*(\d+) kB", source.text("/proc/meminfo") or "", re.MULTILINE)
    bounds = [int(total[1]) * 1024] if total else []
    limits = _cgroup(source, "memory", ("memory.max", "memory.limit_in_bytes"), ancestors=True)
    bounds += [int(text) for text in limits if text.strip().isdigit() and int(text) < UNLIMITED_BYTES]
    return min(bounds, default=0)


def _cgroup(
    source: Source, controller: str, files: tuple[str, ...], *, ancestors: bool = False
) -> Iterator[str]:
    """Contents of a control file for this process: its own group first, then (or where missing) the groups above.

    Inside a container the path of ``/proc/self/cgroup`` may be the host's and lead nowhere; the mount's top is
    then the container's own group.
    """
    for base, path in _groups(source, controller):
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            folder = "/".join((base, *parts[:depth]))
            text = next(
                (text for name in files if (text := source.text(f"{folder}/{name}")) is not None), None
            )
            if text is not None:
                yield text
                if not ancestors:
                    return


def _groups(source: Source, controller: str) -> Iterator[tuple[str, str]]:
    for line in (source.text("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            yield "/sys/fs/cgroup", path
            yield "/sys/fs/cgroup/unified", path
        elif controller in names.split(","):
            yield f"/sys/fs/cgroup/{controller}", path
            if names != controller:
                yield f"/sys/fs/cgroup/{names}", path
