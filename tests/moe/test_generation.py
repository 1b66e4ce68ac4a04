"""Generation: against the reference, against itself, and against the ways in which output can be nothing."""

from __future__ import annotations

import sys

import answers
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
    """The same prompts give the same tokens again."""
    assert [a.tokens for a in session.answers(0)] == [a.tokens for a in session.answers(1)]


def test_output_is_neither_empty_nor_constant(session: Session) -> None:
    """Every answer has all its tokens, several different ones, finite log-probabilities; answers differ."""
    found = answers.problems(session.answers(), session.reference().new_tokens)
    assert not found, "; ".join(found)
