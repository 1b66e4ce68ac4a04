"""What NVIDIA's management library says of a host, read in a child process and carried as JSON.

The child is the only place that imports ``pynvml`` (package ``nvidia-ml-py``, an optional extra). Names and numbers
are those of ``nvml.h``; each value that a device does not offer is left out.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import runner
from runner.codec import dumps, loads
from runner.hosts.children import ask

T = TypeVar("T")

MAX_NVLINKS = 18
"""NVML_NVLINK_MAX_LINKS of Hopper and Blackwell; asking for more only returns "invalid argument"."""

COMMON_ANCESTOR = {0: "internal", 10: "pix", 20: "pxb", 30: "phb", 40: "node", 50: "sys"}
"""``nvmlGpuTopologyLevel_t`` in the words of ``nvidia-smi topo -m``."""

REMOTE_TYPE = {0: "gpu", 1: "ibmnpu", 2: "switch"}
"""``nvmlIntNvLinkDeviceType_t``."""


UNCORRECTED, SINCE_BOOT = 1, 0
"""``nvmlMemoryErrorType_t`` and ``nvmlEccCounterType_t``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlProcess:
    """A process on a device; ``used_bytes`` is None where the driver does not tell (containers, MIG)."""

    pid: int
    used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlSlice:
    """A MIG device. ``gi`` and ``ci`` number its GPU and compute instance."""

    uuid: str
    name: str = ""
    memory_bytes: int | None = None
    used_bytes: int | None = None
    gi: int | None = None
    ci: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlGpu:
    """One physical GPU. ``minor`` numbers ``/dev/nvidiaN``; ``links`` are active NVLinks as (kind, PCI address)."""

    index: int
    uuid: str
    name: str = ""
    minor: int | None = None
    pci: str = ""
    capability: str | None = None
    memory_bytes: int | None = None
    used_bytes: int | None = None
    mig: bool = False
    slices: tuple[NvmlSlice, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    processes: tuple[NvmlProcess, ...] = ()
    ecc_uncorrected: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlPair:
    """How near two GPUs are on PCI, by index."""

    a: int
    b: int
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvml:
    """A whole answer, or ``problem``: why there is none, in one line. ``hung`` where the library did not return."""

    problem: str = ""
    hung: bool = False
    driver: str = ""
    cuda: str = ""
    gpus: tuple[NvmlGpu, ...] = ()
    pairs: tuple[NvmlPair, ...] = ()


CHILD = "import sys; sys.path.append(sys.argv[1]); from runner.hosts.nvml import main; sys.exit(main())"
"""The child finds this package where its parent did, whatever folder the parent was started in."""


def read_nvml(timeout_s: float) -> Nvml:
    """Ask NVML in a child. Never raises; a missing library, a missing driver and a hang each give their reason."""
    answer = ask((sys.executable, "-c", CHILD, str(Path(runner.__file__).parent.parent)), timeout_s)
    if answer.hung:
        return Nvml(problem=f"NVML gave {answer.problem}: a GPU or the driver hangs", hung=True)
    if answer.problem:
        return Nvml(problem=f"NVML could not be asked: {answer.problem}")
    try:
        return loads(answer.text.encode(), Nvml)
    except ValueError as error:
        return Nvml(problem=f"NVML's answer could not be read: {error}")


def pci_address(bus_id: str) -> str:
    """NVML's ``00000000:17:00.0`` as sysfs writes it: ``0000:17:00.0``. Wider domains stay (they exist on VMs)."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return (
        f"{domain[-4:] if domain.startswith('0000') else domain.lstrip('0').rjust(4, '0')}:{rest}"
        if rest
        else ""
    )


def main() -> int:
    """Print one answer as JSON."""
    sys.stdout.buffer.write(dumps(_answer(), indent=0))
    return 0


def _answer() -> Nvml:
    try:
        import pynvml
    except ImportError:
        return Nvml(problem="the Python package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Nvml(problem=f"NVML does not start: {error}")
    try:
        count = pynvml.nvmlDeviceGetCount()
        found = [_gpu(pynvml, index) for index in range(count)]
        cuda = _tell(pynvml, pynvml.nvmlSystemGetCudaDriverVersion_v2)
        return Nvml(
            driver=_tell(pynvml, pynvml.nvmlSystemGetDriverVersion) or "",
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
            gpus=tuple(gpu for gpu, _ in found),
            pairs=_pairs(pynvml, [handle for _, handle in found]),
        )
    except pynvml.NVMLError as error:
        return Nvml(problem=f"NVML: {error}")
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _tell(nvml: Any, call: Callable[..., T], *arguments: Any) -> T | None:
    """The value of one call, or None where this device or driver does not offer it."""
    try:
        return call(*arguments)
    except (nvml.NVMLError, UnicodeDecodeError):
        return None


def _gpu(nvml: Any, index: int) -> tuple[NvmlGpu, Any]:
    """One GPU; a GPU that is lost or broken keeps its row with the reason."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(handle)
    except nvml.NVMLError as error:
        return NvmlGpu(index=index, uuid="", problem=str(error)), None
    capability = _tell(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory, problem = _memory(nvml, handle)
    pci = _tell(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    mig = _tell(nvml, nvml.nvmlDeviceGetMigMode, handle)
    gpu = NvmlGpu(
        index=index,
        uuid=uuid,
        name=_tell(nvml, nvml.nvmlDeviceGetName, handle) or "",
        minor=_tell(nvml, nvml.nvmlDeviceGetMinorNumber, handle),
        pci=pci_address(_text(pci.busId)) if pci else "",
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_bytes=int(memory.total) if memory else None,
        used_bytes=int(memory.used) if memory else None,
        mig=bool(mig and mig[0]),
        slices=_slices(nvml, handle) if mig and mig[0] else (),
        links=_links(nvml, handle),
        processes=_processes(nvml, handle),
        ecc_uncorrected=_tell(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, UNCORRECTED, SINCE_BOOT),
        problem=problem,
    )
    return gpu, handle


def _memory(nvml: Any, handle: Any) -> tuple[Any, str]:
    """Memory of a GPU. That it does not tell is no fault of the GPU ("[N/A]"); any other error is."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle), ""
    except nvml.NVMLError as error:
        silent = error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_NO_PERMISSION)
        return None, "" if silent else str(error)


def _text(value: bytes | str) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _slices(nvml: Any, handle: Any) -> tuple[NvmlSlice, ...]:
    found: list[NvmlSlice] = []
    for number in range(_tell(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        each = _tell(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if each is None:
            continue
        memory = _tell(nvml, nvml.nvmlDeviceGetMemoryInfo, each)
        uuid = _tell(nvml, nvml.nvmlDeviceGetUUID, each)
        if uuid:
            found.append(
                NvmlSlice(
                    uuid=uuid,
                    name=_tell(nvml, nvml.nvmlDeviceGetName, each) or "",
                    memory_bytes=int(memory.total) if memory else None,
                    used_bytes=int(memory.used) if memory else None,
                    gi=_tell(nvml, nvml.nvmlDeviceGetGpuInstanceId, each),
                    ci=_tell(nvml, nvml.nvmlDeviceGetComputeInstanceId, each),
                )
            )
    return tuple(found)


def _links(nvml: Any, handle: Any) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for number in range(MAX_NVLINKS):
        if _tell(nvml, nvml.nvmlDeviceGetNvLinkState, handle, number) != 1:
            continue
        kind = _tell(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, number)
        remote = _tell(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, number)
        address = pci_address(_text(remote.busId)) if remote else ""
        found.append((REMOTE_TYPE.get(-1 if kind is None else kind, "unknown"), address))
    return tuple(found)


def _processes(nvml: Any, handle: Any) -> tuple[NvmlProcess, ...]:
    found = _tell(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    return tuple(NvmlProcess(pid=int(each.pid), used_bytes=each.usedGpuMemory) for each in found)


def _pairs(nvml: Any, handles: list[Any]) -> tuple[NvmlPair, ...]:
    found: list[NvmlPair] = []
    for a, first in enumerate(handles):
        for b in range(a + 1, len(handles)):
            if first is None or handles[b] is None:
                continue
            level = _tell(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, first, handles[b])
            if level is not None:
                found.append(NvmlPair(a=a, b=b, level=COMMON_ANCESTOR.get(level, "sys")))
    return tuple(found)
