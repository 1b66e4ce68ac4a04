"""Planted faults: what a broken engine or checkpoint would do, applied to the stored tensors. The reference stays sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from recipes import FAULTS
from recipes.int8 import is_expert
from recipes.models import Checkpoint
from recipes.quark import unquantize_experts
from recipes.rounding import int8_channel
from recipes.shape import EXPERT_WIDTH

HALF = EXPERT_WIDTH // 2


def apply(checkpoint: Checkpoint, fault: str, layer: int = 1, expert: int = 2) -> Checkpoint:
    """`checkpoint` with `fault`; `layer` counts mixture layers, and both choose where a single-expert fault goes.

    Raises ValueError for an unknown fault, or one the checkpoint's form cannot carry.
    """
    if fault not in FAULTS:
        msg = f"unknown fault {fault!r}; known: {', '.join(FAULTS)}"
        raise ValueError(msg)
    if fault == "wrong_expert_dtype":
        if not checkpoint.quantized:
            msg = "wrong_expert_dtype needs a checkpoint that stores quantized experts"
            raise ValueError(msg)
        return unquantize_experts(checkpoint)
    tensors = dict(checkpoint.tensors)
    if fault == "corrupt_expert":
        _corrupt(checkpoint, tensors, f"{checkpoint.expert_prefixes[layer]}.{expert}.")
    elif fault == "drop_scale":
        _drop_scale(checkpoint, tensors, f"{checkpoint.expert_prefixes[layer]}.{expert}.down_proj.weight")
    else:
        _map_experts(checkpoint, tensors, _SHARD_FAULTS[fault])
    return dataclasses.replace(checkpoint, tensors=tensors, meant=_meant(checkpoint, tensors))


def _meant(checkpoint: Checkpoint, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n: tensors[n].to(torch.float32) * tensors[n + "_scale"][:, None] for n in checkpoint.meant}


def _corrupt(checkpoint: Checkpoint, tensors: dict[str, torch.Tensor], prefix: str) -> None:
    generator = torch.Generator().manual_seed(97)
    for name in [n for n in tensors if n.startswith(prefix) and n.endswith(".weight")]:
        old = tensors[name]
        sound = old.to(torch.float32)
        if checkpoint.quantized:
            sound = sound * tensors[name + "_scale"][:, None]
        new = torch.randn(sound.shape, generator=generator) * sound.std(dim=1, keepdim=True)
        if checkpoint.quantized:
            tensors[name], tensors[name + "_scale"], _ = int8_channel(new)
        else:
            tensors[name] = new.to(old.dtype)


def _drop_scale(checkpoint: Checkpoint, tensors: dict[str, torch.Tensor], name: str) -> None:
    if checkpoint.quantized:
        tensors[name + "_scale"] = torch.ones_like(tensors[name + "_scale"])
    else:
        tensors[name] = tensors[name] * 0.5


def _map_experts(
    checkpoint: Checkpoint,
    tensors: dict[str, torch.Tensor],
    change: Callable[[str, torch.Tensor], torch.Tensor],
) -> None:
    for name, tensor in tuple(tensors.items()):
        if is_expert(checkpoint, name):
            tensors[name] = change(name, tensor).contiguous()


def _swap_w2(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if name.endswith("down_proj.weight"):
        return torch.cat([tensor[:, HALF:], tensor[:, :HALF]], dim=1)
    return tensor


def _same_shard(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if name.endswith("down_proj.weight"):
        return torch.cat([tensor[:, :HALF], tensor[:, :HALF]], dim=1)
    if "down_proj" in name:
        return tensor
    return torch.cat([tensor[:HALF], tensor[:HALF]], dim=0)


_SHARD_FAULTS: dict[str, Callable[[str, torch.Tensor], torch.Tensor]] = {
    "swap_w2_shards": _swap_w2,
    "same_shard": _same_shard,
}
