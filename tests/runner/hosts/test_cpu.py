"""Cores, memory and words of a processor, as affinity and control groups leave them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.hosts import format_cores, parse_cores
from runner.hosts.cpu import read_cpu

XEON = (
    "vendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: avx2 avx512f amx_tile amx_int8 amx_bf16 sse\n"
)
EPYC = "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: avx2 avx512f avx512_vnni avx512_bf16\n"
ROME = "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7742\nflags\t\t: avx2\n"
GRACE = "processor\t: 0\nFeatures\t: fp asimd i8mm bf16 sve2\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
POWER = "processor\t: 0\ncpu\t\t: POWER10, altivec supported\n"


@pytest.mark.parametrize(
    ("cpuinfo", "model", "words"),
    [
        (XEON, "Xeon", ("amx", "amx_bf16", "amx_int8", "amx_tile", "avx2", "avx512f", "intel", "x86_64")),
        (EPYC, "AMD EPYC", ("amd", "avx2", "avx512_bf16", "avx512_vnni", "avx512f", "x86_64", "zen")),
        (ROME, "AMD EPYC 7742", ("amd", "avx2", "x86_64")),
        (GRACE, "Arm implementer 0x41 part 0xd4f", ("arm64", "bf16", "i8mm")),
        (POWER, "POWER10, altivec supported", ("ppc64le",)),
    ],
)
def test_words_of_a_processor(host: Any, cpuinfo: str, model: str, words: tuple[str, ...]) -> None:
    host.file("/proc/cpuinfo", cpuinfo)
    facts = read_cpu(host.source).facts
    assert (facts.model, facts.facts) == (model, words)


def test_affinity_bounds_the_cores(host: Any) -> None:
    host.file("/proc/self/status", "Cpus_allowed_list:\t2-5,9\n")
    host.file("/sys/devices/system/cpu/online", "0-7\n")
    assert read_cpu(host.source).facts.cores == (2, 3, 4, 5)


@pytest.mark.parametrize(
    ("membership", "path", "cores"),
    [
        ("0::/pod/one\n", "/sys/fs/cgroup/pod/one/cpuset.cpus.effective", (1, 2)),
        ("0::/pod/one\n", "/sys/fs/cgroup/cpuset.cpus.effective", (1, 2)),
        ("4:cpuset:/docker/x\n0::/\n", "/sys/fs/cgroup/cpuset/docker/x/cpuset.effective_cpus", (1, 2)),
        ("4:cpuset:/docker/x\n0::/\n", "/sys/fs/cgroup/cpuset/cpuset.cpus", (1, 2)),
    ],
    ids=["v2", "v2 seen from inside", "v1", "v1 seen from inside"],
)
def test_control_groups_bound_the_cores(host: Any, membership: str, path: str, cores: Any) -> None:
    host.file("/proc/self/status", "Cpus_allowed_list:\t0-7\n")
    host.file("/proc/self/cgroup", membership)
    host.file(path, "1-2\n")
    assert read_cpu(host.source).facts.cores == cores


@pytest.mark.parametrize(
    "files",
    [
        {
            "/proc/self/cgroup": "0::/pod/one\n",
            "/sys/fs/cgroup/pod/cpu.max": "250000 100000\n",
            "/sys/fs/cgroup/pod/one/cpu.max": "max 100000\n",
        },
        {
            "/proc/self/cgroup": "2:cpu,cpuacct:/pod\n",
            "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "250000\n",
            "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n",
        },
    ],
    ids=["v2, set above", "v1"],
)
def test_a_quota_of_time_leaves_as_many_cores(host: Any, files: dict[str, str]) -> None:
    host.file("/proc/self/status", "Cpus_allowed_list:\t0-63\n")
    for path, text in files.items():
        host.file(path, text)
    reading = read_cpu(host.source, "host-7")
    assert len(reading.facts.cores) == 2
    assert reading.facts.cores[1] == reading.facts.cores[0] + 1
    assert reading.remarks == ("the control group grants 2.5 CPUs of time on 64 cores: 2 are used",)
    assert read_cpu(host.source, "host-8").facts.cores != reading.facts.cores, "neighbours start elsewhere"


def test_no_limit_is_no_quota(host: Any) -> None:
    host.file("/proc/self/status", "Cpus_allowed_list:\t0-3\n")
    host.file("/proc/self/cgroup", "1:cpu:/\n")
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    host.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    reading = read_cpu(host.source)
    assert (reading.facts.cores, reading.remarks) == ((0, 1, 2, 3), ())


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        ({}, 16 << 30),
        (
            {
                "/proc/self/cgroup": "0::/a/b\n",
                "/sys/fs/cgroup/a/memory.max": f"{4 << 30}\n",
                "/sys/fs/cgroup/a/b/memory.max": "max\n",
            },
            4 << 30,
        ),
        (
            {
                "/proc/self/cgroup": "3:memory:/a\n",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{2 << 30}\n",
            },
            2 << 30,
        ),
        (
            {
                "/proc/self/cgroup": "3:memory:/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            16 << 30,
        ),
    ],
    ids=["host alone", "v2, set above", "v1", "v1 without a limit"],
)
def test_memory_is_the_smallest_limit(host: Any, files: dict[str, str], memory: int) -> None:
    host.file("/proc/meminfo", f"MemTotal:  {16 << 20} kB\nMemFree:  12 kB\n")
    for path, text in files.items():
        host.file(path, text)
    assert read_cpu(host.source).facts.memory_bytes == memory


@given(st.sets(st.integers(min_value=0, max_value=300)))
def test_core_lists_survive_writing_and_reading(cores: Any) -> None:
    assert parse_cores(format_cores(cores)) == tuple(sorted(cores))


def test_core_lists_are_short() -> None:
    assert format_cores((0, 1, 2, 3, 8, 10, 11)) == "0-3,8,10-11"
