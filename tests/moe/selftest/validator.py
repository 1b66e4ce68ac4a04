"""What vLLM's own validator says of cells of a platform, on a device that is stated: no GPU is touched, no weights are read.

    python validator.py cuda|rocm|cpu < jobs.json

A job is `{"model": folder, "dtype": "bfloat16", "tp": 1, "engine_args": {}}`; for each, in order, one JSON line: `refused` is
what `EngineArgs(...).create_engine_config()` raised, or null, and `resolved` what it made of the arguments. One process a
platform, since many modules of vLLM take the platform when they are imported.

On `cpu` nothing is replaced. On `cuda` and `rocm` the installed CPU build of vLLM runs its own `CudaPlatform` or `RocmPlatform`
(platforms/cuda.py, rocm.py: what they check and update, which dtypes and quantization methods they take), and replaced is only
what lies below and is not there without the device, as vLLM 0.32.0 asks for it:

- the choice of the platform (`vllm.platforms._current_platform`), which a CPU build would make for the CPU;
- the driver library's answers about the device: functions of vLLM's `pynvml`, or a module `amdsmi`; and `device_count()`;
- torch's and vllm's word on their builds: `torch.cuda.is_available()`, `torch.version.hip`, and that vllm's version says `cpu`;
  from these vLLM and Triton conclude that Triton can be used;
- on CUDA the compiled modules, as empty ones: `_C_stable_libtorch` and FlashAttention's, and two functions of `_custom_ops` that
  say whether such a module multiplies fp8, asked when quantization methods are imported. On ROCm vLLM goes on without.

What a model's class can do is read by vLLM in a process of its own, there on the CPU. A device's kernels, its memory, and what
vLLM first asks when it loads a model are beyond this: those the cells themselves show.
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

DEVICES = 8
H200 = SimpleNamespace(name="NVIDIA H200", capability=(9, 0), memory=SimpleNamespace(total=143_771 << 20))
MI300X = {"target_graphics_version": "gfx942", "device_id": "0x74a1", "market_name": "AMD Instinct MI300X"}
MI300X_BYTES = 192 << 30


def state_cuda() -> Any:
    """The CUDA platform on stated H200s."""
    from vllm.utils.import_utils import import_pynvml

    nvml = import_pynvml()
    nvml.nvmlInit = nvml.nvmlShutdown = lambda: None
    nvml.nvmlDeviceGetCount = lambda: DEVICES
    nvml.nvmlDeviceGetHandleByIndex = lambda index: index
    nvml.nvmlDeviceGetCudaComputeCapability = lambda _handle: H200.capability
    nvml.nvmlDeviceGetName = lambda _handle: H200.name
    nvml.nvmlDeviceGetMemoryInfo = lambda _handle: H200.memory
    for name in ("_C_stable_libtorch", "vllm_flash_attn._vllm_fa2_C", "vllm_flash_attn._vllm_fa3_C"):
        sys.modules[f"vllm.{name}"] = ModuleType(f"vllm.{name}")

    from vllm.platforms.cuda import CudaPlatform

    return CudaPlatform


def state_rocm() -> Any:
    """The ROCm platform on stated MI300Xs."""
    import torch

    def never(*_: Any) -> Any:
        msg = "a question to the driver that validator.py does not answer"
        raise NotImplementedError(msg)

    smi: Any = ModuleType("amdsmi")
    smi.AmdSmiException = type("AmdSmiException", (Exception,), {})
    smi.AmdSmiMemoryType = SimpleNamespace(VRAM="vram")
    smi.amdsmi_init = smi.amdsmi_shut_down = lambda: None
    smi.amdsmi_get_processor_handles = lambda: list(range(DEVICES))
    smi.amdsmi_get_gpu_asic_info = lambda _handle: MI300X
    smi.amdsmi_get_gpu_memory_total = lambda _handle, _kind: MI300X_BYTES
    for name in ("get_gpu_device_uuid", "topo_get_link_type", "topo_get_numa_node_number"):
        setattr(smi, f"amdsmi_{name}", never)
    sys.modules["amdsmi"] = smi
    torch.version.hip = "7.0"

    from vllm.platforms.rocm import RocmPlatform

    return RocmPlatform


def state(platform: str) -> None:
    """Makes `platform` the one that vLLM runs on, before anything of vLLM has asked."""
    if platform == "cpu":
        return
    import torch
    from vllm import platforms

    platforms.vllm_version_matches_substr = lambda _text: False
    torch.cuda.is_available = lambda: True
    chosen = {"cuda": state_cuda, "rocm": state_rocm}[platform]()
    chosen.device_count = classmethod(lambda _cls: DEVICES)
    platforms._current_platform = chosen()
    if platform == "cuda":
        from vllm import _custom_ops

        _custom_ops.cutlass_scaled_mm_supports_fp8 = lambda capability: capability >= 89
        _custom_ops.cutlass_scaled_mm_supports_block_fp8 = lambda capability: capability >= 90


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The validator's word on one job, as an engine that is started by `vllm.LLM` would hear it."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    fixed = {"model": job["model"], "dtype": job["dtype"], "tensor_parallel_size": job["tp"]}
    arguments = None
    try:
        arguments = EngineArgs(**job["engine_args"], **fixed)
        config = arguments.create_engine_config(UsageContext.LLM_CLASS)
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        said = " ".join(f"{type(error).__name__}: {error}".split())
        so_far = ("enable_chunked_prefill", "enable_prefix_caching")
        return {"refused": said, "resolved": {name: getattr(arguments, name, None) for name in so_far}}
    return {"refused": None, "resolved": resolved_of(config)}


def resolved_of(config: Any) -> dict[str, Any]:
    """What the arguments became, first what rules speak of. `min_capability`: the least the method takes of a CUDA device."""
    from vllm.platforms import current_platform

    return {
        "enable_chunked_prefill": config.scheduler_config.enable_chunked_prefill,
        "enable_prefix_caching": config.cache_config.enable_prefix_caching,
        "mamba_cache_mode": config.cache_config.mamba_cache_mode,
        "enable_expert_parallel": config.parallel_config.enable_expert_parallel,
        "quantization": config.model_config.quantization,
        "min_capability": config.quant_config.get_min_capability() if config.quant_config else 0,
        "enforce_eager": config.model_config.enforce_eager,
        "compilation": config.compilation_config.mode.name,
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "worker": config.parallel_config.worker_cls,
        "v2_model_runner": config.use_v2_model_runner,
        "platform": type(current_platform).__name__,
        "device": str(config.device_config.device),
    }


def main() -> None:
    """Answers on the standard output alone; what vLLM logs goes to the standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        state(sys.argv[1])
        for job in json.load(sys.stdin):
            print(json.dumps(answer(job)), file=out, flush=True)


if __name__ == "__main__":
    main()
