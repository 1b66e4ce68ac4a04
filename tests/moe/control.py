"""What cells of one model are compared with each other by: the next token after fixed texts, whatever the method.

References differ between methods, and so do their prompts. These texts do not: every cell whose model a recipe made writes
one `control` event, and the runner sets cells of the same model side by side (tensor-parallel widths, platforms, quantized
against unquantized), each within the bounds that the events bring. docs/methods.md says how they were derived.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import methods
from agreement import Bound
from oracle import Answer

TOP = 5
"""Likeliest tokens of each text that are kept."""

TEXTS = (
    "amber falcon", "walnut winter", "copper bridge", "silver needle", "velvet marble", "garden temple",
    "ocean spiral quartz pebble", "beacon lantern desert", "island harbor planet river", "thread willow candle",
    "mirror engine forest coral", "cotton pepper saddle", "canyon ribbon autumn shadow", "nectar timber hollow",
    "orchard bronze cobalt linen", "parrot jasmine castle", "glacier meadow tunnel amber", "salmon violet anchor",
    "ember ledger granite dragon", "kettle summer basket", "spring amber velvet ocean", "river marble garden",
    "falcon copper winter silver", "pebble needle temple",
)  # fmt: skip
"""Short English words as in the recipes' prompts, and no others: their tokenizer knows ASCII alone."""

FOUR_BITS = Bound(5.0, 0.9)
"""How far the answers of 4-bit weights lie from those of the bfloat16 model they were made of."""


def event(recipe: str, method: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """The `control` event: whose texts, what was answered, and how far another cell's may lie from that (nats).

    `bound` and `mean_bound` are the method's own noise, `control_bound` and `control_mean_bound` its distance from the
    unquantized model, weights included. Raises KeyError for a method that the table does not know.
    """
    own, far = _own(method), control_bound(method)
    return {
        "of": of(recipe),
        "bound": own.largest,
        "mean_bound": own.mean,
        "control_bound": far.largest,
        "control_mean_bound": far.mean,
        "top": [_top(answer.top[0]) for answer in answers],
    }


def of(recipe: str) -> str:
    """What two events must share: the model, without its format, and the texts."""
    texts = hashlib.sha256("\n".join(TEXTS).encode()).hexdigest()[:8]
    return f"{recipe.partition('_')[0]}/{texts}"


def control_bound(method: str) -> Bound:
    """How far a method's answers may lie from the unquantized model's.

    8 bits a weight move answers less than the rounding of inputs does, so two noises of the method's size are allowed:
    the root of two times its bound. 4 bits move them far: 1.3 times the furthest that was seen of any format and model.
    """
    if methods.table()[method].weight_bits == 4:
        return FOUR_BITS
    own = _own(method)
    return Bound(round(math.sqrt(2) * own.largest, 3), round(math.sqrt(2) * own.mean, 3))


def _own(method: str) -> Bound:
    """The widest bound of a method: two platforms may round its inputs in two ways."""
    found = methods.table()[method]
    return Bound(found.largest, found.mean)


def _top(position: Mapping[int, float]) -> list[list[float]]:
    best = sorted(position.items(), key=lambda one: -one[1])[:TOP]
    return [[token, round(value, 4)] for token, value in best]
