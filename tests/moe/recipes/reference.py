"""reference.json: prompts, and what a sound model answers, once per way an engine may compute.

A variant says how weights and activations are rounded. `none`: the stored bfloat16 weights in float32. `experts_int8`:
experts rounded per channel as the engine does at load, float activations (CUDA's Triton kernel: W8A16).
`experts_int8.a8`: the experts' inputs rounded to int8 per token as well (zentorch: W8A8). A quantized checkpoint has a
variant named like its format (`quark_int8`, `awq`, ...) with the weights it means and float activations, and where the
format rounds activations one called `FORMAT.a` with the inputs of its layers rounded so. `ct_w4a16.a8` and `gptq.a8` are
what zentorch makes of int4 weights: the experts' inputs in int8.
Under tensor parallelism each rank rounds its own part of a row-parallel input; simulating that too was measured and
changed nothing beyond noise (agreement.py), so there is one variant for every tp.
"""

from __future__ import annotations

from typing import Any

import torch

from recipes import formats
from recipes import prompts as p
from recipes.forward import build, one_thread
from recipes.generate import Generated, generate, sharp
from recipes.int8 import experts_rounded
from recipes.models import Checkpoint

TOP_K = 5
CHUNK = 96
MIN_MARGIN = 0.4
"""Least gap between first and second log-probability at every position of a kept prompt, in nats."""


class RecipeError(RuntimeError):
    """A recipe could not make a checkpoint whose reference is sharp."""


ONLINE_FP8 = {"fp8_per_tensor": "fp8_tensor", "fp8_per_channel": "ct_w8a8_fp8", "fp8_per_block": "fp8_block"}
"""Methods by which the engine itself makes fp8 of bfloat16 -> the format that holds the same weights."""


def variants(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """Name -> arguments of `forward.build`, the first being the one by which prompts are chosen."""
    stored = checkpoint.values()
    name, how = checkpoint.format, checkpoint.activations
    if not name:
        rounded = experts_rounded(checkpoint)
        return {
            "none": {"tensors": stored},
            "experts_int8": {"tensors": rounded},
            "experts_int8.a8": {"tensors": rounded, "experts": "int8_token"},
            **{f"{method}.a": _online(checkpoint, form) for method, form in ONLINE_FP8.items()},
        }
    plain = {name: {"tensors": stored}}
    if how is not None:
        experts = how if formats.FORMATS[name].routed is not False else None
        return {f"{name}.a": {"tensors": stored, "experts": experts, "linears": how}, **plain}
    if name in ZEN_INT4:
        return {**plain, f"{name}.a8": {"tensors": stored, "experts": "int8_token"}}
    return plain


def _online(plain: Checkpoint, form: str) -> dict[str, Any]:
    made = formats.quantize(plain, form)
    how = made.activations
    return {"checkpoint": made, "tensors": made.values(), "experts": how, "linears": how}


ZEN_INT4 = ("ct_w4a16", "gptq")
"""Symmetric int4 formats whose experts zentorch runs with int8 activations (vLLM 0.32.0, fused_moe/oracle/int_wna16.py)."""


def make(recipe: str, checkpoint: Checkpoint, fault: str | None = None) -> dict[str, Any]:
    """The content of reference.json for a sound `checkpoint`. Raises RecipeError where it would not be sharp."""
    from transformers import __version__ as transformers_version

    with one_thread():
        wanted = variants(checkpoint).items()
        models = {name: build(**{"checkpoint": checkpoint, **args}) for name, args in wanted}
        texts = _choose(next(iter(models.values())), checkpoint)
        ids = [p.encode(t) for t in texts]
        made = {
            name: generate(m, checkpoint, ids, checkpoint.ask.new_tokens, TOP_K) for name, m in models.items()
        }
    for name, answers in made.items():
        _check(name, checkpoint, answers)
    return {
        "schema": 1,
        "recipe": recipe,
        "fault": fault,
        "made_with": {"torch": torch.__version__, "transformers": transformers_version},
        "new_tokens": checkpoint.ask.new_tokens,
        "top_k": TOP_K,
        "prompts": [{"text": t, "token_ids": i} for t, i in zip(texts, ids, strict=True)],
        "variants": {name: _variant(answers) for name, answers in made.items()},
    }


def _choose(model: Any, checkpoint: Checkpoint) -> list[str]:
    """The first candidates that are sharp and lively, each with an answer of its own."""
    ask = checkpoint.ask
    good: dict[tuple[int, ...], str] = {}
    candidates = p.candidates()
    for start in range(0, len(candidates), CHUNK):
        chunk = [p.encode(t) for t in candidates[start : start + CHUNK]]
        sharp_ones = sharp(model, chunk, ask.new_tokens, MIN_MARGIN)
        if sharp_ones:
            answers = generate(model, checkpoint, [chunk[i] for i in sharp_ones], ask.new_tokens, TOP_K)
            for i, answer in zip(sharp_ones, answers, strict=True):
                if _lively(answer):
                    good.setdefault(tuple(answer.tokens), candidates[start + i])
        if len(good) >= ask.prompts:
            return list(good.values())[: ask.prompts]
    msg = f"only {len(good)} of {len(candidates)} candidate prompts have a margin of {MIN_MARGIN}"
    raise RecipeError(msg)


def _lively(answer: Generated) -> bool:
    return len(set(answer.tokens)) >= min(4, len(answer.tokens) // 2 + 1)


def _check(name: str, checkpoint: Checkpoint, answers: list[Generated]) -> None:
    wanted = {(r, e) for r in checkpoint.routers for e in range(int(checkpoint.config["num_experts"]))}
    missing = wanted - set().union(*(a.routed for a in answers))
    if missing:
        msg = f"{name}: no prompt routes to {sorted(missing)}"
        raise RecipeError(msg)
    if len({tuple(a.tokens) for a in answers}) < len(answers):
        msg = f"{name}: two prompts have the same answer"
        raise RecipeError(msg)
    if min(a.router_margin for a in answers) < 0.2:
        msg = f"{name}: a router decision hangs by less than 0.2"
        raise RecipeError(msg)


def _variant(answers: list[Generated]) -> dict[str, Any]:
    return {
        "min_margin": round(min(a.margin for a in answers), 6),
        "min_router_margin": round(min(a.router_margin for a in answers), 6),
        "answers": [{"tokens": a.tokens, "logprobs": a.logprobs, "top": a.top} for a in answers],
    }
