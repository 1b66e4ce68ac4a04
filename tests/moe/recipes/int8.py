"""Experts as the engine itself rounds them to int8 when it loads a bfloat16 checkpoint, per output channel.

Source, vLLM 0.32.0: `quantization/online/int8.py` (`Int8OnlineMoEMethod._quantize_weights`, in the dtype of the weights,
w2's maximum reduced over the tensor-parallel ranks).
"""

from __future__ import annotations

import torch

from recipes.models import Checkpoint

QMAX = 127.0


def online(weight: torch.Tensor) -> torch.Tensor:
    """A bfloat16 weight rounded as experts_int8 rounds it at load, and back in float32."""
    scale = weight.abs().amax(dim=1) / QMAX
    q = weight.div(scale.unsqueeze(1)).round().clamp(-QMAX, QMAX).to(torch.int8)
    return q.to(torch.float32) * scale.to(torch.float32).unsqueeze(1)


def experts_rounded(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Float32 tensors with the experts rounded as experts_int8 rounds them, everything else as stored."""
    out = checkpoint.values()
    for name, tensor in checkpoint.tensors.items():
        if is_expert(checkpoint, name):
            out[name] = online(tensor)
    return out


def is_expert(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a tensor belongs to a routed expert."""
    return any(name.startswith(prefix + ".") for prefix in checkpoint.expert_prefixes)
