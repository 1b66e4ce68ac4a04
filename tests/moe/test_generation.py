"""Generation: against the reference, against itself, and against the ways in which output can be nothing."""

from __future__ import annotations

import math
import sys

import answers
import control
import methods
import pytest
from session import Session

pytestmark = pytest.mark.engine


def test_agrees_with_the_reference(session: Session) -> None:
    """Tokens and log-probabilities of every prompt lie within the bound of measured noise."""
    found = session.agreement()
    sys.stdout.write(f"\nagreement: {found.summary()}\n")
    assert found.agrees, found.summary()


def test_prompts_are_tokenized_as_in_the_reference(session: Session) -> None:
    """The engine's tokenizer gives the token ids that the reference was made with."""
    reference = session.reference()
    tokenizer = session.llm.get_tokenizer()
    for text, ids in zip(reference.prompts, reference.prompt_ids, strict=True):
        assert tuple(tokenizer.encode(text)) == ids


def test_two_greedy_runs_agree(session: Session) -> None:
    """The same prompts give the same tokens again; near ties may turn where a step's tokens share one input scale."""
    method = methods.get(session.cell.quantization)
    lead = 2 * method.largest if method and method.one_scale_a_step else None
    found = answers.differences(session.answers(0), session.answers(1), lead)
    assert not found, "; ".join(found)


def test_answers_for_other_cells_to_compare_with(session: Session) -> None:
    """What the runner sets this cell's width, platform and method side by side with; the bounds are judged there."""
    made = session.control()
    if made is None:
        pytest.skip("the model or the method is not of the recipes: nothing to compare it with")
    assert all(len(top) == control.TOP for top in made["top"])
    values = [value for top in made["top"] for _, value in top]
    assert all(map(math.isfinite, values)), "a log-probability is not a number"


def test_output_is_neither_empty_nor_constant(session: Session) -> None:
    """Every answer has all its tokens, several different ones, finite log-probabilities; answers differ."""
    found = answers.problems(session.answers(), session.reference().new_tokens)
    assert not found, "; ".join(found)
