"""What cells are compared with each other by: the event itself, and on transformers that sound cells agree and broken ones do not."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import control
import methods
import pytest
from oracle import Answer

from selftest import simulated

EIGHT = ("quark_int8", "ct_w8a8_fp8")
FOUR = ("ct_w4a16", "mxfp4", "modelopt_nvfp4", "awq")
FAULTS = ("corrupt_expert", "drop_scale", "swap_w2_shards", "same_shard")


def test_the_event_has_model_bounds_and_five_tokens_a_text() -> None:
    """Likeliest first, rounded to what records keep."""
    top = {token: -0.123456 - token for token in range(20)}
    made = control.event("qwen3moe_quark_int8", "quark_int8", [Answer((0,), (top,))] * 2)
    assert made["of"] == control.of("qwen3moe")
    assert made["of"] != control.of("jamba_quark_int8")
    assert made["top"] == [[[0, -0.1235], [1, -1.1235], [2, -2.1235], [3, -3.1235], [4, -4.1235]]] * 2
    assert (made["bound"], made["mean_bound"]) == (1.1, 0.15)
    assert made["control_bound"] == pytest.approx(1.1 * math.sqrt(2), abs=1e-3)


def test_every_method_has_a_bound_for_its_distance_from_the_unquantized_model() -> None:
    """That of 4 bits is wider than any other."""
    for name, method in methods.table().items():
        bound = control.control_bound(name)
        assert bound.mean >= method.mean
        assert (bound == control.FOUR_BITS) is (method.weight_bits == 4)


def test_the_texts_differ_and_are_what_the_recipes_tokenizer_knows() -> None:
    """A text that is there twice would count twice."""
    assert len(set(control.TEXTS)) == len(control.TEXTS) == 24
    assert all(text.isascii() and 8 < len(text) < 30 for text in control.TEXTS)


@cache
def said(recipe: str, fault: str | None = None) -> Any:
    """The runner's reading of the event of a simulated engine in bfloat16."""
    import torch
    from recipes.make import checkpoint

    method = recipe.partition("_")[2] or "none"
    stored = checkpoint(recipe, fault)
    model = simulated.model_of(stored, method, torch.bfloat16)
    return control.event(recipe, method, simulated.next_tokens(model, control.TEXTS))


def apart(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """As the runner's `control.distance`: both directions, an unlisted token at most its last."""
    found = []
    for mine, theirs in zip(one["top"], other["top"], strict=True):
        for wanted, got in ((dict(mine), dict(theirs)), (dict(theirs), dict(mine))):
            floor = min(got.values())
            found += [abs(got[t] - v) if t in got else max(0.0, v - floor) for t, v in wanted.items()]
    return max(found), sum(found) / len(found)


def within(cell: dict[str, Any]) -> bool:
    """Whether a cell lies as near the unquantized one as its event allows."""
    largest, mean = apart(cell, said("qwen3moe"))
    return bool(largest <= cell["control_bound"] and mean <= cell["control_mean_bound"])


@pytest.mark.parametrize("form", [*EIGHT, *FOUR])
def test_a_sound_quantized_model_lies_near_the_unquantized_one(form: str) -> None:
    """Weights rounded once, inputs as the format rounds them."""
    assert within(said(f"qwen3moe_{form}"))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", EIGHT)
def test_a_fault_in_eight_bits_is_seen(form: str, fault: str) -> None:
    """Every stored fault."""
    assert not within(said(f"qwen3moe_{form}", fault))


@pytest.mark.parametrize("fault", ["swap_w2_shards", "same_shard"])
@pytest.mark.parametrize("form", ["ct_w4a16", "mxfp4"])
def test_shards_mixed_up_in_four_bits_are_seen(form: str, fault: str) -> None:
    """Four bits move answers so far that a single expert's fault is not told from rounding here: the reference tells it."""
    assert not within(said(f"qwen3moe_{form}", fault))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_width_is_seen_by_the_other(fault: str) -> None:
    """Two cells of one method: the root of two times its bound."""
    largest, mean = apart(said("qwen3moe", fault), said("qwen3moe"))
    own = said("qwen3moe")
    assert largest > math.sqrt(2) * own["bound"] or mean > math.sqrt(2) * own["mean_bound"]
