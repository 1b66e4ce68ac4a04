"""The reference forward pass: transformers in float32, with activations rounded where the engine rounds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

from recipes.int8 import is_expert
from recipes.models import Checkpoint
from recipes.rounding import ACTIVATIONS


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch on one thread, so that the order of sums, and with it every bit, does not depend on the machine's cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)


def build(
    checkpoint: Checkpoint,
    tensors: dict[str, torch.Tensor],
    *,
    dtype: torch.dtype = torch.float32,
    experts: str | None = None,
    linears: str | None = None,
) -> Any:
    """The transformers model over `tensors` (float32, experts one by one).

    `experts` and `linears` name how the inputs of experts and of quantized linear layers are rounded (`ACTIVATIONS`). Raises
    RuntimeError on a name that does not fit.
    """
    import transformers

    config = {k: v for k, v in checkpoint.config.items() if k not in ("quantization_config", "torch_dtype")}
    config_class = transformers.CONFIG_MAPPING[config["model_type"]]
    made = config_class(**config)
    made._attn_implementation = "eager"
    model = getattr(transformers, checkpoint.architecture)(made)
    model.load_state_dict(_fused(checkpoint, tensors), strict=True)
    model = model.to(dtype).eval()
    for name, module in model.named_modules():
        if name in checkpoint.expert_prefixes:
            _own_experts(module, experts)
        elif linears and isinstance(module, torch.nn.Linear) and f"{name}.weight" in checkpoint.meant:
            _round_input(module, linears)
    return model


def _fused(checkpoint: Checkpoint, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    state = {k: v for k, v in tensors.items() if not is_expert(checkpoint, k)}
    count = int(checkpoint.config["num_experts"])
    for prefix in checkpoint.expert_prefixes:
        gate_up, down = [], []
        for e in range(count):
            gate_up.append(
                torch.cat(
                    [tensors[f"{prefix}.{e}.gate_proj.weight"], tensors[f"{prefix}.{e}.up_proj.weight"]]
                )
            )
            down.append(tensors[f"{prefix}.{e}.down_proj.weight"])
        state[f"{prefix}.gate_up_proj"] = torch.stack(gate_up)
        state[f"{prefix}.down_proj"] = torch.stack(down)
    return state


def _round_input(module: Any, how: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return functional.linear(ACTIVATIONS[how](x), module.weight, module.bias)

    module.forward = forward


def _own_experts(module: Any, how: str | None) -> None:
    rounded = ACTIVATIONS[how] if how else lambda x: x

    def forward(hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(hidden)
        x = rounded(hidden)
        for expert in range(module.gate_up_proj.shape[0]):
            rows, position = torch.where(index == expert)
            gate, up = functional.linear(x[rows], module.gate_up_proj[expert]).chunk(2, dim=-1)
            inner = rounded(functional.silu(gate) * up)
            partial = functional.linear(inner, module.down_proj[expert]) * weights[rows, position, None]
            out.index_add_(0, rows, partial.to(out.dtype))
        return out

    module.forward = forward
