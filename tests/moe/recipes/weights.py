"""Seeded weights that make a reference sharp.

Plain random weights give flat logits and a router that a rounding error can flip. Three choices prevent that:

- Routing is a property of the token. A few dimensions of the residual stream (`CODE` per mixture layer) carry, for each
  token, which two experts it goes to; the router reads them, and everything that writes to the stream writes almost
  nothing there (`QUIET`). So the second expert wins over the third by a wide margin at every position, in any dtype, and
  every expert is used.
- Experts write about as much into the stream as the embedding does, so a wrong expert moves every later logit.
- The output layer is scaled so that the distribution is peaked; special tokens get zero rows and are never chosen.
"""

from __future__ import annotations

import torch

from recipes.shape import EXPERT_WIDTH, EXPERTS, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, PAD, TOP_K, VOCAB

Tensors = dict[str, torch.Tensor]

QUIET = 0.02
CODE_FIRST, CODE_SECOND = 3.0, 2.0
MIXTURE_LAYERS = 2


class Source:
    """Random bfloat16 tensors from one seed, for a model of `experts` experts; the order of the calls is part of the recipe."""

    def __init__(self, seed: int, experts: int = EXPERTS) -> None:
        self._generator = torch.Generator(device="cpu").manual_seed(seed)
        self.experts = experts

    @property
    def routing(self) -> int:
        """How many dimensions of the residual stream, the first ones, carry routing codes."""
        return self.experts * MIXTURE_LAYERS

    def normal(self, *shape: int, std: float) -> torch.Tensor:
        """Normal values with standard deviation `std`, in bfloat16."""
        return (torch.randn(*shape, generator=self._generator) * std).to(torch.bfloat16)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """Integers from 0 to `high` - 1."""
        return torch.randint(high, shape, generator=self._generator)


def quiet(source: Source, weight: torch.Tensor) -> torch.Tensor:
    """`weight` with the rows that write to the routing dimensions scaled down to almost nothing."""
    out = weight.clone()
    out[: source.routing] *= QUIET
    return out


def embedding(source: Source) -> torch.Tensor:
    """Token embeddings with each token's routing code for each mixture layer."""
    table, count = source.normal(VOCAB, HIDDEN, std=1.0), source.experts
    for layer in range(MIXTURE_LAYERS):
        first = source.integers(count, VOCAB)
        second = (first + 1 + source.integers(count - 1, VOCAB)) % count
        code = torch.zeros(VOCAB, count)
        code.scatter_(1, first[:, None], CODE_FIRST)
        code.scatter_(1, second[:, None], CODE_SECOND)
        table[:, layer * count : (layer + 1) * count] = code.to(torch.bfloat16)
    return table


def router(source: Source, mixture: int, gain: float) -> torch.Tensor:
    """Router weight of the `mixture`-th mixture layer: reads its code dimensions with `gain`, the rest barely."""
    weight = source.normal(source.experts, HIDDEN, std=0.004)
    for expert in range(source.experts):
        weight[expert, mixture * source.experts + expert] = gain
    return weight


def attention(source: Source, prefix: str) -> Tensors:
    """Query, key, value and output projections under `prefix`."""
    return {
        f"{prefix}.q_proj.weight": source.normal(HEADS * HEAD_DIM, HIDDEN, std=0.08),
        f"{prefix}.k_proj.weight": source.normal(KV_HEADS * HEAD_DIM, HIDDEN, std=0.08),
        f"{prefix}.v_proj.weight": source.normal(KV_HEADS * HEAD_DIM, HIDDEN, std=0.08),
        f"{prefix}.o_proj.weight": quiet(source, source.normal(HIDDEN, HEADS * HEAD_DIM, std=0.08)),
    }


def mlp(source: Source, prefix: str, out_std: float) -> Tensors:
    """Gate, up and down projection of one expert or dense layer under `prefix`."""
    return {
        f"{prefix}.gate_proj.weight": source.normal(EXPERT_WIDTH, HIDDEN, std=0.1),
        f"{prefix}.up_proj.weight": source.normal(EXPERT_WIDTH, HIDDEN, std=0.1),
        f"{prefix}.down_proj.weight": quiet(source, source.normal(HIDDEN, EXPERT_WIDTH, std=out_std)),
    }


def experts(source: Source, prefix: str, out_std: float) -> Tensors:
    """All experts under `prefix`, numbered as checkpoints number them."""
    tensors: Tensors = {}
    for expert in range(source.experts):
        tensors.update(mlp(source, f"{prefix}.{expert}", out_std))
    return tensors


def output_layer(source: Source, std: float) -> torch.Tensor:
    """The untied output layer: peaked, deaf to the routing dimensions, zero for the special tokens."""
    weight = source.normal(VOCAB, HIDDEN, std=std)
    weight[:, : source.routing] *= QUIET
    weight[PAD:] = 0.0
    return weight


def norm(size: int = HIDDEN) -> torch.Tensor:
    """A norm weight of ones."""
    return torch.ones(size, dtype=torch.bfloat16)


assert TOP_K == 2, "the routing code names two experts a token"
