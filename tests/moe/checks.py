"""What each rank of the engine says of itself. Runs inside the worker processes, so it must be importable there.

Sent through `LLM.apply_model`, which pickles a function by name: with more than one rank a function defined in a test
would fail with "Can't pickle" (vllm/v1/executor/multiproc_executor.py, vLLM 0.32.0). Attribute paths are looked up, since
they differ between vLLM 0.26 (`experts.quant_method`, `experts.w13_weight`) and 0.32 (`experts._quant_method`,
`experts.routed_experts.w13_weight`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Any


def rank_facts(model: Any) -> dict[str, Any]:
    """The `rank` event of this worker: who it is, its expert layers and its linear schemes."""
    import torch

    rank, world = _rank()
    first = next(model.parameters())
    return {
        "rank": rank,
        "world_size": world,
        "pid": os.getpid(),
        "device": str(first.device),
        "dtype": _short(_model_dtype(model)),
        "layers": [layer_facts(name, owner, experts) for name, owner, experts in expert_layers(model)],
        "linear_schemes": dict(_linear_schemes(model)),
        "visible_devices": torch.cuda.device_count() if torch.cuda.is_available() else 0,
    }


def expert_layers(model: Any) -> Iterator[tuple[str, Any, Any]]:
    """(name, module that owns the quantization method, module that holds w13 and w2) of every mixture layer."""
    modules = dict(model.named_modules())
    for name, module in modules.items():
        if weight_of(module, "w13") is None or weight_of(module, "w2") is None:
            continue
        owner_name = name
        while method_of(modules[owner_name]) is None and "." in owner_name:
            owner_name = owner_name.rpartition(".")[0]
        yield name, modules[owner_name], module


WEIGHT_NAMES = ("weight", "weight_packed", "qweight")
"""How quantization methods call an expert weight after `w13_` and `w2_` (vLLM 0.26 and 0.32: compressed-tensors packs into
`weight_packed`, GPTQ, AWQ and MoeWNA16 into `qweight`)."""


def weight_of(experts: Any, part: str) -> Any:
    """The weight tensor of `part` (`w13` or `w2`) that a mixture module holds itself, or None."""
    own = dict(experts.named_parameters(recurse=False))
    return next((own[f"{part}_{n}"] for n in WEIGHT_NAMES if f"{part}_{n}" in own), None)


def method_of(module: Any) -> Any:
    """The quantization method of a mixture module, or None."""
    for attribute in ("quant_method", "_quant_method"):
        found = getattr(module, attribute, None)
        if found is not None:
            return found
    return None


def layer_facts(name: str, owner: Any, experts: Any) -> dict[str, Any]:
    """One entry of `layers`: classes, backend, and the dtype and shape of the weights as this rank holds them."""
    method = method_of(owner)
    kernel = getattr(getattr(method, "moe_kernel", None), "fused_experts", None)
    experts_class = type(kernel) if kernel is not None else getattr(method, "experts_cls", None)
    w13, w2 = weight_of(experts, "w13"), weight_of(experts, "w2")
    return {
        "name": name,
        "moe_method": type(method).__name__ if method is not None else None,
        "experts_class": experts_class.__name__ if experts_class is not None else None,
        "backend": _backend(method),
        "expert_weight_dtype": _short(w13.dtype),
        "w2_dtype": _short(w2.dtype),
        "w13_shape": list(w13.shape),
        "w2_shape": list(w2.shape),
        "w13_bytes": w13.numel() * w13.element_size(),
        "w2_bytes": w2.numel() * w2.element_size(),
    }


def _backend(method: Any) -> str | None:
    for key, value in sorted(vars(method).items()) if method is not None else ():
        if key.endswith("backend") and isinstance(value, Enum):
            return str(value.value)
    return None


def _linear_schemes(model: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for module in model.modules():
        scheme = getattr(module, "scheme", None)
        method = getattr(module, "quant_method", None)
        if scheme is not None:
            found[type(scheme).__name__] += 1
        elif method is not None and type(method).__name__.endswith("LinearMethod"):
            found[type(method).__name__] += 1
    return found


def _rank() -> tuple[int, int]:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _model_dtype(model: Any) -> Any:
    for name, parameter in model.named_parameters():
        if name.endswith("embed_tokens.weight"):
            return parameter.dtype
    return next(model.parameters()).dtype


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
