"""The checkpoint formats: what each stores for a quantized layer, and its `quantization_config`.

A format is a function of one weight (float32 [N, K], with the largest magnitude among the layers that engines fuse with it)
to the tensors stored under the layer's name and what they mean; and a function of the modules left alone to the
configuration. `quantize` does the rest. Every format stores experts one by one, as Hub checkpoints do.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from recipes import configs, packings
from recipes.models import Checkpoint

Stored = tuple[dict[str, torch.Tensor], torch.Tensor]
"""Tensors by suffix (`weight`, `weight_scale`, ...), and the float32 matrix they mean."""


@dataclass(frozen=True)
class Format:
    """One checkpoint format. `activations` names an entry of `rounding.ACTIVATIONS`, or None where inputs stay as they are."""

    pack: Callable[[torch.Tensor, float], Stored]
    config: Callable[[list[str]], dict[str, Any]]
    activations: str | None
    routed: bool | None = None
    """True: routed experts alone; False: everything but them; None: both."""


FORMATS: Mapping[str, Format] = {
    "ct_w8a8_int8": Format(packings.int8_channel_ct, configs.ct_w8a8_int8, "int8_token"),
    "ct_w4a16": Format(packings.int4_packed, configs.ct_w4a16, None),
    "ct_w8a8_fp8": Format(packings.fp8_channel_ct, configs.ct_w8a8_fp8, "fp8_token"),
    "fbgemm_fp8": Format(packings.fp8_channel_ct, configs.fbgemm_fp8, "fp8_token", routed=False),
    "fp8_tensor": Format(packings.fp8_tensor, configs.fp8_tensor, "fp8_token"),
    "fp8_block": Format(packings.fp8_block, configs.fp8_block, "fp8_group128"),
    "quark_int8": Format(packings.int8_channel_quark, configs.quark_int8, "int8_token"),
    "quark_fp8": Format(packings.fp8_tensor_static, configs.quark_fp8, "fp8_static"),
    "quark_mxfp4": Format(packings.mxfp4, configs.quark_mxfp4, None),
    "awq": Format(packings.awq, configs.awq, None),
    "gptq": Format(packings.gptq, configs.gptq, None),
    "mxfp4": Format(packings.mxfp4, configs.mxfp4, None, routed=True),
    "modelopt_fp8": Format(packings.fp8_tensor_static, configs.modelopt_fp8, "fp8_static"),
    "modelopt_nvfp4": Format(packings.nvfp4, configs.modelopt_nvfp4, None),
}
"""By the name that follows the model's in a recipe's. moe_wna16 reads `awq` and `gptq` checkpoints and has none of its own."""

_FUSED = re.compile(r"\b(?:q|k|v)_proj$|\b(?:gate|up)_proj$")


def quantize(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """`checkpoint` in the format `name`; embeddings, norms, routers, mamba mixers and the output layer stay bfloat16.

    Raises KeyError for an unknown format.
    """
    form = FORMATS[name]
    layers = [m for m in _linears(checkpoint) if form.routed in (None, is_routed(checkpoint, m))]
    largest = _largest(checkpoint, layers)
    tensors = {k: v for k, v in checkpoint.tensors.items() if k.removesuffix(".weight") not in layers}
    meant: dict[str, torch.Tensor] = {}
    for layer in layers:
        weight = checkpoint.tensors[f"{layer}.weight"].to(torch.float32)
        stored, dense = form.pack(weight, largest[_family(layer)])
        tensors.update({f"{layer}.{suffix}": tensor for suffix, tensor in stored.items()})
        meant[f"{layer}.weight"] = dense
    config = {**checkpoint.config, "quantization_config": form.config(_left_alone(checkpoint, layers))}
    return dataclasses.replace(
        checkpoint,
        tensors=tensors,
        config=config,
        quantized=True,
        format=name,
        activations=form.activations,
        meant=meant,
    )


def is_routed(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a module or tensor belongs to a routed expert."""
    return any(name.startswith(prefix + ".") for prefix in checkpoint.expert_prefixes)


def _linears(checkpoint: Checkpoint) -> list[str]:
    """Modules a format quantizes: projections outside mamba mixers, which engines never quantize."""
    return [
        n.removesuffix(".weight")
        for n in checkpoint.tensors
        if n.endswith("proj.weight") and ".mamba." not in n
    ]


def _left_alone(checkpoint: Checkpoint, layers: list[str]) -> list[str]:
    """Modules with a matrix of their own that the format does not touch, as configurations list them."""
    matrices = (n.removesuffix(".weight") for n, t in checkpoint.tensors.items() if t.dim() == 2)
    done = set(layers)
    return sorted(m for m in matrices if m not in done and not m.endswith(("embed_tokens", "A_log")))


def _family(layer: str) -> str:
    """Layers that an engine fuses into one share a family, and with it a per-tensor scale."""
    return _FUSED.sub("fused", layer)


def _largest(checkpoint: Checkpoint, layers: list[str]) -> dict[str, float]:
    out: dict[str, float] = {}
    for layer in layers:
        size = float(checkpoint.tensors[f"{layer}.weight"].abs().max())
        out[_family(layer)] = max(size, out.get(_family(layer), 0.0))
    return out
