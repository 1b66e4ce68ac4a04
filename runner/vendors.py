"""Vendors as data: what a platform needs from a host, in one table. Adding a platform is adding a row.

Sources: device nodes and variables of NVIDIA's container toolkit documentation (``NVIDIA_VISIBLE_DEVICES=void`` hides
all GPUs from an image that asks for every one), AMD's "Running ROCm Docker containers" (``/dev/kfd`` and render
nodes), vLLM 0.32 ``vllm/envs.py`` (``VLLM_CPU_OMP_THREADS_BIND``: one core set per rank, joined by ``|``), vLLM's CI
lanes (``NCCL_CUMEM_HOST_ENABLE=0`` in containers, ``expandable_segments:False`` on MIG, where NVML calls fail).
"""

from __future__ import annotations

from collections.abc import Mapping
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
