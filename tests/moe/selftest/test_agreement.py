"""The comparison itself, on made-up answers: no torch, no engine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from agreement import Bound, bound_for, compare, follow
from oracle import Answer, NoReference, Reference, choose

BOUND = Bound(0.5, 0.1)


def answer(tokens: tuple[int, ...], lead: float = 3.0, shift: float = 0.0) -> Answer:
    """Each token leads token 99 by `lead`; all values moved by `shift`."""
    return Answer(tokens, tuple({t: -0.1 + shift, 99: -0.1 - lead + shift} for t in tokens))


def reference(*answers: Answer) -> Reference:
    """A reference with these answers."""
    return Reference("none", "", ("p",) * len(answers), ((1,),) * len(answers), answers, 4, 2)


SOUND = answer((1, 2, 3, 4))


def test_the_same_answers_agree() -> None:
    """Nothing differs."""
    found = compare(reference(SOUND), [SOUND], BOUND)
    assert found.agrees
    assert found.tokens_equal
    assert found.max_abs_diff == 0.0
    assert found.compared == 4


@pytest.mark.parametrize(("shift", "agrees"), [(0.09, True), (0.11, False), (0.6, False)])
def test_log_probabilities_are_bounded_on_average_and_each(shift: float, agrees: bool) -> None:
    """The mean bound is met before the largest one."""
    assert compare(reference(SOUND), [answer((1, 2, 3, 4), shift=shift)], BOUND).agrees is agrees


def test_one_large_difference_is_enough() -> None:
    """The mean stays small, the largest does not."""
    many = [SOUND] * 20
    off = replace(SOUND, top=(*SOUND.top[:3], {4: -0.8, 99: -3.1}))
    found = compare(reference(*many), [*many[1:], off], BOUND)
    assert found.mean_abs_diff < BOUND.mean
    assert not found.agrees


def test_another_token_against_a_wide_lead_is_a_problem() -> None:
    """Even where every log-probability lies within the bound."""
    got = Answer((1, 99, 3, 4), SOUND.top)
    found = compare(reference(*[SOUND] * 4), [SOUND, SOUND, SOUND, got], Bound(0.5, 0.1))
    assert not found.agrees
    assert "token 1 is 99, not 2, which leads by 3.00" in found.problems[1]


def test_another_token_within_noise_is_counted_and_no_problem() -> None:
    """A near tie turned, by the engine's own numbers: what follows is compared all the same."""
    tie = answer((1, 2, 3, 4), lead=0.3)
    turned = {3: -0.3, 99: -0.2}
    got = Answer((1, 2, 99, 4), (*tie.top[:2], turned, tie.top[3]))
    found = compare(reference(tie, tie), [tie, got], BOUND)
    assert found.agrees
    assert not found.tokens_equal
    assert found.near_ties == 1
    assert found.compared == found.positions == 8


def test_a_token_that_is_not_the_likeliest_is_a_problem() -> None:
    """Greedy means the likeliest: another one was sampled, or belongs to other numbers."""
    tie = answer((1, 2, 3, 4), lead=0.3)
    found = compare(reference(tie), [replace(tie, tokens=(1, 2, 99, 4))], BOUND)
    assert found.problems == ("prompt 0: token 2 is 99, not the likeliest by its own numbers",)


class Engine:
    """Answers as a table says: what is chosen after a prefix, and the token 0 where the table does not say."""

    def __init__(self, table: dict[tuple[int, ...], int]) -> None:
        self.table = table
        self.asked: list[tuple[list[list[int]], int]] = []

    def again(self, prompts: list[list[int]], new_tokens: int) -> list[Answer]:
        """Greedy, as `engine.ask` is."""
        self.asked.append((prompts, new_tokens))
        return [self._one(tuple(p), new_tokens) for p in prompts]

    def _one(self, ids: tuple[int, ...], new_tokens: int) -> Answer:
        made: tuple[int, ...] = ()
        for _ in range(new_tokens):
            made += (self.table.get(ids + made, 0),)
        return Answer(made, tuple({t: -0.1} for t in made))


def test_an_answer_that_parts_is_put_back_on_the_references_track() -> None:
    """Two near ties in one answer, none in the other: asked again twice, from the reference's own tokens."""
    engine = Engine({(1,): 1, (1, 1): 9, (1, 1, 2): 3, (1, 1, 2, 3): 9})
    made = follow(reference(SOUND, SOUND), [SOUND, *engine.again([[1]], 4)], engine.again)
    assert [a.tokens for a in made] == [SOUND.tokens, (1, 9, 3, 9)]
    assert engine.asked[1:] == [([[1, 1, 2]], 2)]
    twice = Engine({(1,): 9, (1, 1): 9, (1, 1, 2): 3, (1, 1, 2, 3): 4})
    assert follow(reference(SOUND), twice.again([[1]], 4), twice.again)[0].tokens == (9, 9, 3, 4)
    assert twice.asked[1:] == [([[1, 1]], 3), ([[1, 1, 2]], 2)]


def test_answers_of_another_shape_are_not_followed() -> None:
    """They are a problem as they are, and a missing answer stays missing."""
    engine = Engine({})
    short = answer((1, 2))
    assert follow(reference(SOUND, SOUND), [short], engine.again) == [short]
    assert engine.asked == []


def test_an_engine_that_always_parts_is_asked_no_more_often_than_there_are_positions() -> None:
    """And is found out."""
    engine = Engine({})
    wide = answer((1, 2, 3, 4), lead=3.0)
    made = follow(reference(wide), engine.again([[1]], 4), engine.again)
    assert len(engine.asked) == 4
    assert not compare(reference(wide), made, BOUND).agrees


def test_nan_and_missing_answers_are_problems() -> None:
    """What is not a number is not within a bound; what is not there is not right."""
    nan = Answer(SOUND.tokens, tuple({t: math.nan, 99: math.nan} for t in SOUND.tokens))
    assert not compare(reference(SOUND), [nan], BOUND).agrees
    assert not compare(reference(SOUND), [], BOUND).agrees
    assert not compare(reference(SOUND), [answer((1, 2))], BOUND).agrees


def test_an_unreported_token_counts_as_far_as_is_known() -> None:
    """The engine's smallest reported value is an upper bound for what it left out."""
    got = Answer(SOUND.tokens, tuple({t: -0.1, 55: -9.0} for t in SOUND.tokens))
    assert not compare(reference(SOUND), [got], BOUND).agrees


def test_the_closest_variant_is_chosen_and_said() -> None:
    """W8A8 kernels get int8 activations; a missing variant is replaced with a note; nothing fitting raises."""
    one: dict[str, Any] = {"min_margin": 1.0, "answers": []}
    content: dict[str, Any] = {
        "variants": {"none": one, "experts_int8": one, "experts_int8.a8": one},
        "prompts": [],
    }
    content |= {"new_tokens": 4, "top_k": 2}
    assert choose(content, "experts_int8", "ZenCPUExpertsInt8").variant == "experts_int8.a8"
    assert choose(content, "experts_int8", "TritonExperts").variant == "experts_int8"
    assert choose(content, "none", "CPUUnquantizedExperts").variant == "none"
    closest = choose(content, "fp8", None)
    assert closest.variant == "none"
    assert "closest" in closest.note
    quark = {**content, "variants": {"quark_int8": one, "quark_int8.a": one}}
    assert choose(quark, "a_name_of_my_own", None).variant == "quark_int8.a"
    assert (
        choose(quark, "moe_wna16", None).variant == "quark_int8.a"
    )  # reads several formats: the checkpoint says which
    assert choose(quark, "quark_int8", "MarlinExperts").variant == "quark_int8"
    with pytest.raises(NoReference):
        choose(quark, "none", None)


def test_every_variant_has_a_bound() -> None:
    """A method that rounds inputs on some platforms alone has two; others have one."""
    assert bound_for("experts_int8.a8") == Bound(1.1, 0.15)
    assert bound_for("experts_int8") == bound_for("ct_w4a16") == bound_for("none") == Bound(0.5, 0.09)
    assert bound_for("quark_int8.a") == bound_for("quark_int8") == Bound(1.1, 0.15)
    assert bound_for("fp8_per_tensor.a") == bound_for("ct_w8a8_fp8") == Bound(2.3, 0.3)
