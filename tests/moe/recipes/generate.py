"""Greedy generation with log-probabilities and expert usage, many prompts of one length at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from recipes.models import Checkpoint


@dataclass(frozen=True)
class Generated:
    """Greedy continuation of one prompt; log-probabilities are natural logarithms."""

    tokens: list[int]
    logprobs: list[float]
    top: list[list[tuple[int, float]]]
    margin: float
    """Smallest gap between the first and second log-probability over all positions."""
    routed: frozenset[tuple[str, int]]
    """(router, expert) pairs that some token of this prompt or its continuation went to."""
    router_margin: float
    """Smallest gap between the last chosen and the first unchosen router logit."""


def generate(
    model: Any, checkpoint: Checkpoint, prompts: list[list[int]], new: int, top_k: int
) -> list[Generated]:
    """Greedy continuations by `new` tokens; the whole sequence is computed anew at each step, without a cache."""
    out: list[Generated | None] = [None] * len(prompts)
    for length in sorted({len(p) for p in prompts}):
        rows = [i for i, p in enumerate(prompts) if len(p) == length]
        for i, made in zip(
            rows, _batch(model, checkpoint, [prompts[i] for i in rows], new, top_k), strict=True
        ):
            out[i] = made
    return [g for g in out if g is not None]


def sharp(model: Any, prompts: list[list[int]], new: int, margin: float) -> list[int]:
    """Indices of the prompts whose greedy continuation keeps a lead of `margin` nats at each of `new` positions.

    A prompt is dropped at its first narrow position, which makes a search through many prompts affordable.
    """
    kept: list[int] = []
    for length in sorted({len(p) for p in prompts}):
        rows = torch.tensor([i for i, p in enumerate(prompts) if len(p) == length])
        tokens = torch.tensor([prompts[int(i)] for i in rows])
        for _ in range(new):
            best = model(input_ids=tokens, use_cache=False).logits[:, -1].float().topk(2, dim=-1)
            wide = best.values[:, 0] - best.values[:, 1] >= margin
            rows, tokens = rows[wide], torch.cat([tokens, best.indices[:, :1]], dim=1)[wide]
            if not len(rows):
                break
        kept += [int(i) for i in rows]
    return sorted(kept)


def _batch(
    model: Any, checkpoint: Checkpoint, prompts: list[list[int]], new: int, top_k: int
) -> list[Generated]:
    seen: dict[str, torch.Tensor] = {}
    hooks = [
        module.register_forward_hook(_catch(seen, name))
        for name, module in model.named_modules()
        if name in checkpoint.routers
    ]
    try:
        tokens = torch.tensor(prompts)
        steps: list[torch.Tensor] = []
        for _ in range(new):
            logits = model(input_ids=tokens, use_cache=False).logits[:, -1].float()
            steps.append(torch.log_softmax(logits, dim=-1))
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    finally:
        for hook in hooks:
            hook.remove()
    scores = torch.stack(steps, dim=1)
    best = scores.topk(top_k, dim=-1)
    return [_one(checkpoint, tokens, best, seen, row, len(prompts)) for row in range(len(prompts))]


def _catch(seen: dict[str, torch.Tensor], name: str) -> Any:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        seen[name] = (output[0] if isinstance(output, tuple) else output).detach().float()

    return hook


def _one(
    checkpoint: Checkpoint,
    tokens: torch.Tensor,
    best: Any,
    seen: dict[str, torch.Tensor],
    row: int,
    rows: int,
) -> Generated:
    values, ids = best.values[row], best.indices[row]
    chosen = int(checkpoint.config["num_experts_per_tok"])
    routed: set[tuple[str, int]] = set()
    router_margin = float("inf")
    for name, logits in seen.items():
        mine = logits.reshape(rows, -1, logits.shape[-1])[row]
        order = mine.topk(chosen + 1, dim=-1)
        routed.update((name, e) for e in set(order.indices[:, :chosen].flatten().tolist()))
        router_margin = min(
            router_margin, float((order.values[:, chosen - 1] - order.values[:, chosen]).min())
        )
    return Generated(
        tokens=[int(t) for t in ids[:, 0]],
        logprobs=[round(float(v), 6) for v in values[:, 0]],
        top=[
            [(int(t), round(float(v), 6)) for t, v in zip(i, p, strict=True)]
            for i, p in zip(ids, values, strict=True)
        ],
        margin=float((values[:, 0] - values[:, 1]).min()),
        routed=frozenset(routed),
        router_margin=router_margin,
    )
