"""The fault `wrong_expert_dtype` of Quark checkpoints: experts stored in bfloat16 and excluded by the configuration."""

from __future__ import annotations

import dataclasses

import torch

from recipes.configs import quark_int8
from recipes.models import Checkpoint


def unquantize_experts(checkpoint: Checkpoint) -> Checkpoint:
    """Experts in bfloat16 and excluded, so that the engine loads them unquantized."""
    tensors: dict[str, torch.Tensor] = {}
    excluded: list[str] = list(checkpoint.config["quantization_config"]["exclude"])
    meant = dict(checkpoint.meant)
    for name, tensor in checkpoint.tensors.items():
        expert = any(name.startswith(prefix + ".") for prefix in checkpoint.expert_prefixes)
        if not expert:
            tensors[name] = tensor
        elif name.endswith(".weight"):
            tensors[name] = meant.pop(name).to(torch.bfloat16)
            excluded.append(name.removesuffix(".weight"))
    config = {
        **checkpoint.config,
        "quantization_config": quark_int8([*excluded, *checkpoint.expert_prefixes]),
    }
    return dataclasses.replace(checkpoint, tensors=tensors, config=config, meant=meant)
