"""In one real engine: sound weights agree, each planted fault is seen, and after taking it back they agree again.

Needs MATRIX_CELL (a cell with tp 2 or more shows every fault; at tp 1 those between ranks are left out).
"""

from __future__ import annotations

import sys
from functools import partial

import agreement
import engine
import pytest
from cell import Cell
from expectations import rank_problems
from session import Session

from selftest import mutations

pytestmark = pytest.mark.engine


def test_sound_weights_agree(session: Session) -> None:
    """The starting point, and the noise that the distances below are to be read against."""
    found = session.agreement()
    sys.stdout.write(f"\nsound: {found.summary()}\n")
    assert found.agrees, found.summary()
    assert not rank_problems(session.cell, session.ranks)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("fault", mutations.LIVE)
def test_planted_fault_is_seen(session: Session, fault: str, layer: int) -> None:
    """Planted in the running engine, seen by the comparison, gone when taken back."""
    if fault in mutations.BETWEEN_RANKS and session.cell.tp < 2:
        pytest.skip("a fault between ranks needs two of them")
    changed = session.llm.apply_model(partial(mutations.plant_in, fault, layer))
    try:
        assert all(changed), f"nothing changed on some rank: {changed}"
        broken = _compare(session)
    finally:
        session.llm.apply_model(mutations.restore)
    sys.stdout.write(f"\n{fault} in layer {layer}: {broken.summary()}\n")
    assert not broken.agrees, f"{fault} was not seen: {broken.summary()}"
    sound = _compare(session)
    assert sound.agrees, f"after taking {fault} back: {sound.summary()}"


def test_wrong_expert_dtype_is_seen(session: Session, cell: Cell) -> None:
    """Experts that turn out to be bfloat16 are named by the checks of every rank."""
    if cell.expect.expert_weight_dtype in (None, "bfloat16"):
        pytest.skip("this cell's experts are bfloat16")
    session.llm.apply_model(mutations.widen_experts)
    try:
        problems = rank_problems(cell, engine.rank_facts(session.llm))
    finally:
        session.llm.apply_model(mutations.restore)
    assert sum("expert_weight_dtype bfloat16" in text for text in problems) >= cell.tp
    assert not rank_problems(cell, engine.rank_facts(session.llm))


def _compare(session: Session) -> agreement.Agreement:
    session.llm.reset_prefix_cache()
    reference = session.reference()
    made = engine.ask(session.llm, reference.prompts, reference.new_tokens)
    followed = agreement.follow(reference, made, partial(engine.ask, session.llm))
    return agreement.compare(reference, followed)
