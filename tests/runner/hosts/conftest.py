"""Hosts as folders. All but the NVML answer of ``h200`` are hand-made from documented formats, not recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from runner.codec import dumps
from runner.hosts import RecordedHost
from runner.hosts.nvml import Nvml, NvmlGpu, NvmlPair, NvmlSlice

DATA = Path(__file__).parent / "data"

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480C
flags\t\t: fpu avx2 avx512f avx512_vnni avx512_bf16 amx_bf16 amx_tile amx_int8
"""
EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9575F 64-Core Processor
flags\t\t: fpu avx2 avx512f avx512_vnni avx512_bf16
"""
LAPTOP = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: 13th Gen Intel(R) Core(TM) i7-13700H
flags\t\t: fpu avx2
"""


@dataclass
class Host:
    """A folder that stands for ``/``."""

    root: Path

    def file(self, path: str, text: str = "") -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def node(self, path: str, group: int = 0) -> None:
        self.file(path)
        groups = self.root / "groups.json"
        known = json.loads(groups.read_text()) if groups.exists() else {}
        groups.write_text(json.dumps(known | {path: group}))

    def nvml(self, answer: Nvml) -> None:
        self.file("nvml.json", dumps(answer).decode())

    @property
    def source(self) -> RecordedHost:
        return RecordedHost(self.root)


def common(host: Host, cpuinfo: str, cores: str, gib: int) -> None:
    host.file("/proc/cpuinfo", cpuinfo)
    host.file("/proc/meminfo", f"MemTotal:       {gib << 20} kB\nMemFree: 1 kB\n")
    host.file("/proc/self/status", f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{cores}\n")
    host.file("/proc/self/cgroup", "0::/\n")
    host.file("/sys/devices/system/cpu/online", f"{cores}\n")
    host.file("/proc/sys/kernel/hostname", "host-7\n")
    host.file("/proc/sys/kernel/random/boot_id", "b0075555-0000-4000-8000-000000000000\n")


def nvidia_nodes(host: Host, minors: range) -> None:
    host.file(
        "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep\n"
    )
    for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", *(f"nvidia{minor}" for minor in minors)):
        host.node(f"/dev/{name}")


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-1111-4222-8333-{number:012x}"


def gpus(host: Host, name: str, capability: str, gib: int, count: int, links: int) -> tuple[NvmlGpu, ...]:
    """``count`` GPUs behind NVSwitch, half of them on each of two NUMA nodes."""
    found = []
    for index in range(count):
        pci = f"0000:{0x1A + 0x10 * index:02x}:00.0"
        host.file(f"/sys/bus/pci/devices/{pci}/numa_node", f"{index * 2 // count}\n")
        found.append(
            NvmlGpu(
                index=index,
                uuid=uuid(index),
                name=name,
                minor=index,
                pci=pci,
                capability=capability,
                memory_bytes=gib << 30,
                used_bytes=500 << 20,
                links=(("switch", "0000:05:00.0"),) * links,
                ecc_uncorrected=0,
            )
        )
    return tuple(found)


def pairs(count: int) -> tuple[NvmlPair, ...]:
    half = count // 2
    return tuple(
        NvmlPair(a=a, b=b, level="node" if (a < half) == (b < half) else "sys")
        for a in range(count)
        for b in range(a + 1, count)
    )


def h100(host: Host) -> None:
    common(host, XEON, "0-111", 2048)
    nvidia_nodes(host, range(8))
    host.file("/usr/bin/nvidia-container-runtime-hook")
    host.nvml(
        Nvml(
            driver="580.95.05",
            cuda="13.0",
            gpus=gpus(host, "NVIDIA H100 80GB HBM3", "9.0", 80, 8, 18),
            pairs=pairs(8),
        )
    )


def h100_mig(host: Host) -> None:
    """GPU 0 is cut into two slices, GPU 1 is whole, GPU 2 is in MIG mode with no slice."""
    common(host, XEON, "0-31", 256)
    nvidia_nodes(host, range(3))
    host.file("/usr/bin/nvidia-container-runtime-hook")
    minors = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n"
    host.file("/proc/driver/nvidia-caps/mig-minors", minors)
    slices = tuple(
        NvmlSlice(
            uuid=f"MIG-dddd000{number}-1111-4222-8333-00000000000{number}",
            name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
            memory_bytes=40 << 30,
            used_bytes=40 << 20,
            gi=number,
            ci=0,
        )
        for number in (1, 2)
    )
    first, second, third = gpus(host, "NVIDIA H100 80GB HBM3", "9.0", 80, 3, 0)
    cut = NvmlGpu(
        index=0,
        uuid=first.uuid,
        name=first.name,
        minor=0,
        pci=first.pci,
        capability="9.0",
        mig=True,
        slices=slices,
    )
    bare = NvmlGpu(
        index=2, uuid=third.uuid, name=third.name, minor=2, pci=third.pci, capability="9.0", mig=True
    )
    host.nvml(Nvml(driver="580.95.05", cuda="13.0", gpus=(cut, second, bare), pairs=pairs(3)))


def b200(host: Host) -> None:
    """No container toolkit in the engine; a CDI specification as ``nvidia-ctk cdi generate`` writes it."""
    common(host, XEON, "0-223", 4096)
    nvidia_nodes(host, range(8))
    found = gpus(host, "NVIDIA B200", "10.0", 179, 8, 18)
    names = "".join(
        f'  - containerEdits:\n      deviceNodes:\n        - path: /dev/nvidia{gpu.minor}\n    name: "{name}"\n'
        for gpu in found
        for name in (gpu.index, gpu.uuid)
    )
    host.file("/etc/cdi/nvidia.yaml", f"---\ncdiVersion: 0.5.0\ndevices:\n{names}kind: nvidia.com/gpu\n")
    host.nvml(Nvml(driver="580.95.05", cuda="13.0", gpus=found, pairs=pairs(8)))


def h200(host: Host) -> None:
    """Two H200 without a container toolkit: NVML's answer is recorded, the files are as seen on that host."""
    common(host, XEON, "0-31", 252)
    nvidia_nodes(host, range(2))
    host.file("nvml.json", (DATA / "h200x2" / "nvml.json").read_text())
    host.file("/usr/local/nvidia/lib64/libcuda.so.1")


def kfd_node(host: Host, number: int, text: str, memory: int, links: dict[int, int], name: str = "") -> None:
    folder = f"/sys/class/kfd/kfd/topology/nodes/{number}"
    host.file(f"{folder}/properties", text)
    host.file(f"{folder}/name", f"{name}\n")
    host.file(f"{folder}/gpu_id", f"{40000 + number}\n")
    host.file(
        f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {memory}\nflags 0\nwidth 8192\n"
    )
    for place, (to, kind) in enumerate(links.items()):
        host.file(
            f"{folder}/io_links/{place}/properties",
            f"type {kind}\nnode_from {number}\nnode_to {to}\nweight 15\n",
        )


def amd_gpu(
    host: Host,
    number: int,
    *,
    bus: int,
    render: int,
    gfx: int,
    device: int,
    unique: int,
    partition: int = 0,
    gib: int = 192,
    links: dict[int, int] | None = None,
    numa: int = 0,
    node: bool = True,
) -> None:
    text = (
        f"cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version {gfx}\nvendor_id 4098\n"
        f"device_id {device}\nlocation_id {bus << 8 | partition << 28}\ndomain 0\ndrm_render_minor {render}\n"
        f"unique_id {unique}\nnum_xcc 8\n"
    )
    kfd_node(host, number, text, gib << 30, links or {}, "aqua_vanjaram")
    host.file(f"/sys/bus/pci/devices/0000:{bus:02x}:00.0/numa_node", f"{numa}\n")
    folder = f"/sys/class/drm/renderD{render}/device"
    host.file(f"{folder}/mem_info_vram_used", f"{300 << 20}\n")
    host.file(f"{folder}/mem_info_vram_total", f"{gib << 30}\n")
    host.file(f"{folder}/ras/umc_err_count", "ue: 0\nce: 3\n")
    if node:
        host.node(f"/dev/dri/renderD{render}", 109)


def amd_common(host: Host, nodes: range) -> None:
    host.file("/sys/module/amdgpu/version", "6.12.12\n")
    host.node("/dev/kfd", 109)
    for number in nodes:
        kfd_node(
            host,
            number,
            "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\ngfx_target_version 0\n",
            0,
            {},
        )


def mi300x(host: Host) -> None:
    common(host, EPYC, "0-127", 1024)
    amd_common(host, range(2))
    for index in range(8):
        others = {2 + other: 11 for other in range(8) if other != index}
        amd_gpu(
            host,
            2 + index,
            bus=0x05 + 0x20 * (index % 4) + index,
            render=128 + index * 8,
            gfx=90402,
            device=0x74A1,
            unique=0xABCD000000000000 + index,
            links={index // 4: 2} | others,
            numa=index // 4,
        )


def mi355x(host: Host) -> None:
    """Two chips, each split in two partitions (DPX) that share its identity."""
    common(host, EPYC, "0-63", 512)
    amd_common(host, range(1))
    for number in range(4):
        chip, partition = divmod(number, 2)
        others = {1 + other: 11 for other in range(4) if other // 2 != chip}
        amd_gpu(
            host,
            1 + number,
            bus=0x75 + 0x10 * chip,
            render=128 + number,
            gfx=90500,
            device=0x75A3,
            unique=0xFEED000000000000 + chip,
            partition=partition,
            gib=144,
            links=others,
        )


def mixed(host: Host) -> None:
    """An A100, an L4 and an Instinct MI210 in one machine, with the NVIDIA toolkit."""
    common(host, EPYC, "0-15", 128)
    nvidia_nodes(host, range(2))
    host.file("/usr/bin/nvidia-container-runtime-hook")
    big = gpus(host, "NVIDIA A100-PCIE-40GB", "8.0", 40, 1, 0)
    small = NvmlGpu(
        index=1,
        uuid=uuid(1),
        name="NVIDIA L4",
        minor=1,
        pci="0000:2a:00.0",
        capability="8.9",
        memory_bytes=23 << 30,
    )
    host.nvml(
        Nvml(driver="580.95.05", cuda="13.0", gpus=(*big, small), pairs=(NvmlPair(a=0, b=1, level="phb"),))
    )
    amd_common(host, range(1))
    amd_gpu(host, 1, bus=0xC1, render=129, gfx=90010, device=0x740F, unique=0x5EED000000000001, gib=64)


def laptop(host: Host) -> None:
    """One small GPU whose driver libraries lie among the system's own; no toolkit."""
    common(host, LAPTOP, "0-19", 32)
    nvidia_nodes(host, range(1))
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"):
        host.file(f"/usr/lib/x86_64-linux-gnu/{name}")
    host.nvml(
        Nvml(
            driver="580.95.05",
            cuda="13.0",
            gpus=gpus(host, "NVIDIA GeForce RTX 4070 Laptop GPU", "8.9", 8, 1, 0),
        )
    )


def none(host: Host) -> None:
    common(host, LAPTOP, "0-3", 16)


SHAPES: dict[str, Callable[[Host], None]] = {
    each.__name__: each for each in (h100, h100_mig, b200, h200, mi300x, mi355x, mixed, laptop, none)
}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """An empty host to fill."""
    return Host(tmp_path / "host")


@pytest.fixture(scope="session")
def shape(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Host]:
    """A host of a kind, by name, made once for all tests: only to be read."""

    @cache
    def make(name: str) -> Host:
        made = Host(tmp_path_factory.mktemp(name))
        SHAPES[name](made)
        return made

    return make


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[str], Host]:
    """A host of a kind that the test may change."""

    def make(name: str) -> Host:
        made = Host(tmp_path / name)
        SHAPES[name](made)
        return made

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lease folder of its own."""
    return tmp_path / "leases"
