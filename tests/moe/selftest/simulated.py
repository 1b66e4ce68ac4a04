"""An engine's stand-in for the self tests: the transformers model over a stored checkpoint, in bfloat16 as engines run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from oracle import Answer, Reference
from recipes import forward, int8, prompts
from recipes.models import Checkpoint

TOP = 20
"""Log-probabilities a position, as the suite asks an engine for."""


def tensors_of(stored: Checkpoint, quantization: str) -> dict[str, torch.Tensor]:
    """Float32 weights as an engine of this method holds them."""
    return int8.experts_rounded(stored) if quantization == "experts_int8" else stored.values()


def answers(stored: Checkpoint, quantization: str, reference: Reference, dtype: torch.dtype) -> list[Answer]:
    """What is chosen at each position along the reference's tokens, as `agreement.follow` gives it, and 20
    log-probabilities; activations rounded where the method rounds them."""
    with forward.one_thread():
        return along(model_of(stored, quantization, dtype), reference)


def model_of(stored: Checkpoint, quantization: str, dtype: torch.dtype) -> Any:
    """The model that stands for an engine of this method."""
    how = stored.activations
    kinds: dict[str, str | None] = {"experts": how, "linears": how}
    if stored.format == "fbgemm_fp8":
        kinds = {"linears": how}
    if quantization == "experts_int8":
        kinds = {"experts": "int8_token"}
    return forward.build(stored, tensors_of(stored, quantization), dtype=dtype, **kinds)


def along(model: Any, reference: Reference) -> list[Answer]:
    """One pass over prompt and reference for all prompts of one length: every position at once, none generated."""
    out: list[Answer | None] = [None] * len(reference.answers)
    whole = [
        [*ids, *answer.tokens] for ids, answer in zip(reference.prompt_ids, reference.answers, strict=True)
    ]
    for length in sorted({len(ids) for ids in whole}):
        rows = [n for n, ids in enumerate(whole) if len(ids) == length]
        logits = model(input_ids=torch.tensor([whole[n] for n in rows]), use_cache=False).logits.float()
        for n, scores in zip(rows, torch.log_softmax(logits, dim=-1), strict=True):
            best = scores[len(reference.prompt_ids[n]) - 1 : -1].topk(TOP, dim=-1)
            tops = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            top = tuple(dict(zip(ids, values, strict=True)) for ids, values in tops)
            out[n] = Answer(tuple(next(iter(position)) for position in top), top)
    return [answer for answer in out if answer is not None]


def next_tokens(model: Any, texts: Sequence[str]) -> list[Answer]:
    """The likeliest token after each text with 20 log-probabilities, as `engine.ask` gives it for one new token."""
    ids = [prompts.encode(text) for text in texts]
    out: list[Answer | None] = [None] * len(ids)
    with forward.one_thread():
        for length in sorted(set(map(len, ids))):
            rows = [n for n, one in enumerate(ids) if len(one) == length]
            logits = model(input_ids=torch.tensor([ids[n] for n in rows]), use_cache=False).logits.float()
            for n, scores in zip(rows, torch.log_softmax(logits[:, -1], dim=-1), strict=True):
                best = scores.topk(TOP)
                top = dict(zip(best.indices.tolist(), best.values.tolist(), strict=True))
                out[n] = Answer((next(iter(top)),), (top,))
    return [answer for answer in out if answer is not None]
