"""An engine's stand-in for the self tests: the transformers model over a stored checkpoint, in bfloat16 as engines run."""

from __future__ import annotations

import torch
from oracle import Answer
from recipes import forward, generate, int8
from recipes.models import Checkpoint


def tensors_of(stored: Checkpoint, quantization: str) -> dict[str, torch.Tensor]:
    """Float32 weights as an engine of this method holds them."""
    return int8.experts_rounded(stored) if quantization == "experts_int8" else stored.values()


def answers(
    stored: Checkpoint, quantization: str, prompts: list[list[int]], new_tokens: int, dtype: torch.dtype
) -> list[Answer]:
    """Greedy answers with 20 log-probabilities a position, activations rounded where the method rounds them."""
    how = stored.activations
    kinds: dict[str, str | None] = {"experts": how, "linears": how}
    if stored.format == "fbgemm_fp8":
        kinds = {"linears": how}
    if quantization == "experts_int8":
        kinds = {"experts": "int8_token"}
    with forward.one_thread():
        model = forward.build(stored, tensors_of(stored, quantization), dtype=dtype, **kinds)
        made = generate.generate(model, stored, prompts, new_tokens, 20)
    return [Answer(tuple(a.tokens), tuple(dict(position) for position in a.top)) for a in made]
