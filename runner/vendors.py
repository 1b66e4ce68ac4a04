"""Vendors as data: what a platform needs from a host, in one table. Adding a platform is adding a row.

Sources: device nodes and variables of NVIDIA's container toolkit documentation (``NVIDIA_VISIBLE_DEVICES=void`` hides
all GPUs from an image that asks for every one), AMD's "Running ROCm Docker containers" (``/dev/kfd`` and render
nodes), vLLM 0.32 ``vllm/envs.py`` (``VLLM_CPU_OMP_THREADS_BIND``: one core set per rank, joined by ``|``), vLLM's CI
lanes (``NCCL_CUMEM_HOST_ENABLE=0`` in containers, ``expandable_segments:False`` on MIG, where NVML calls fail).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One platform.

    ``accelerator`` is False where tensor-parallel ranks run on CPU cores. ``rank_cores_env`` takes one core set
    per rank. ``hidden_env`` closes off accelerators of the host in a cell that leased none. ``common_nodes`` go to
    every cell that leased a device. ``visible_env`` bounds the inventory when an agent or a pod has set it.
    ``env`` and ``ulimits`` (soft and hard in one, -1: unlimited) go to every cell that leased a device,
    ``slice_env`` where it leased a slice of one. ``driver_folders`` are places where a host without a container
    toolkit keeps all driver libraries together: (on the host, in the cell). ``driver_files`` are the libraries to
    mount one by one where they lie among the host's own; ``driver_env`` then makes the cell find them.
    """

    name: str
    accelerator: bool
    visible_env: tuple[str, ...] = ()
    hidden_env: Mapping[str, str] = field(default_factory=dict)
    common_nodes: tuple[str, ...] = ()
    rank_cores_env: str = ""
    never_ran: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    slice_env: Mapping[str, str] = field(default_factory=dict)
    ulimits: Mapping[str, int] = field(default_factory=dict)
    driver_folders: tuple[tuple[str, str], ...] = ()
    driver_files: tuple[str, ...] = ()
    driver_env: Mapping[str, str] = field(default_factory=dict)


VENDORS: Mapping[str, Vendor] = {
    "cuda": Vendor(
        name="cuda",
        accelerator=True,
        visible_env=("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
        hidden_env={"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""},
        common_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
        env={"NCCL_CUMEM_HOST_ENABLE": "0"},
        slice_env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"},
        ulimits={"memlock": -1, "core": 0},
        driver_folders=(
            ("/usr/local/nvidia", "/usr/local/nvidia"),
            ("/home/kubernetes/bin/nvidia", "/usr/local/nvidia"),
        ),
        driver_files=(
            "libcuda.so.1",
            "libnvidia-ml.so.1",
            "libnvidia-ptxjitcompiler.so.1",
            "libnvidia-nvvm.so.4",
        ),
        driver_env={
            "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/nvidia/lib",
            "TRITON_LIBCUDA_PATH": "/usr/local/nvidia/lib64",
        },
    ),
    "rocm": Vendor(
        name="rocm",
        accelerator=True,
        visible_env=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        hidden_env={"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        common_nodes=("/dev/kfd",),
        ulimits={"memlock": -1, "core": 0},
        never_ran="the ROCm path has never run on hardware",
    ),
    "cpu": Vendor(name="cpu", accelerator=False, rank_cores_env="VLLM_CPU_OMP_THREADS_BIND"),
}

PLATFORMS = tuple(VENDORS)


def never_ran(platforms: Iterable[str]) -> tuple[str, ...]:
    """What is to be said of every cell of the platforms of which no run on hardware is recorded, a line for each."""
    known = (VENDORS[name] for name in dict.fromkeys(platforms) if name in VENDORS)
    return tuple(f"{vendor.name}: {vendor.never_ran}" for vendor in known if vendor.never_ran)


def python_path(own: str, env: Mapping[str, str]) -> str:
    """``PYTHONPATH`` with the runner's own folder first, then what the matrix file asks for."""
    return ":".join(filter(None, (own, env.get("PYTHONPATH", ""))))


CELL_ENV: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Environment of every cell and job: offline, unbuffered, nothing sent anywhere, nothing written beside the suite."""

CACHE_DIR = "/caches"
"""Where a cell in a container sees its private copy of the kept compile caches."""

CACHE_ENV: Mapping[str, str] = {
    "VLLM_CACHE_ROOT": "vllm",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
}
"""Variables that say where engines keep what they compile, and the folder below :data:`CACHE_DIR` for each.

Sources: vLLM 0.26 and 0.32 ``envs.py`` (torch.compile's artifacts, and under ``modelinfos`` what a fresh process that
imports every model class found out), Triton 3.6 ``knobs.py``, torch 2.11 ``_inductor/runtime/cache_dir_utils.py``, the
CUDA C++ programming guide (code that the driver compiled).
"""

CACHE_PATH_FILES = ("__grp__*.json",)
"""Files that hold absolute paths into their own cache: Triton's lists of one kernel's files (``runtime/cache.py``)."""

CACHE_SKIP = ("*.lock", "tmp.*", "*.tmp", "startup_plan", "gpu_p2p_access_cache_for_*", "assets")
"""What is never kept: locks, unfinished files, downloads, and measurements of one moment or of one pair of devices
(vLLM 0.32 ``v1/worker/startup_plan.py``, ``device_communicators/all_reduce_utils.py``)."""


def cache_env(seen_at: str) -> dict[str, str]:
    """Where a cell's engine keeps what it compiles, for a cell that sees its caches at ``seen_at``."""
    return {name: f"{seen_at}/{folder}" for name, folder in CACHE_ENV.items()}
