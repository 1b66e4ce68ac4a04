"""The engine starts, resolves every axis to the cell's value, and every rank proves its method, dtype and shard."""

from __future__ import annotations

import methods
import pytest
from cell import Cell
from expectations import PLATFORM_CLASSES, rank_problems
from session import Session

pytestmark = pytest.mark.engine


def test_engine_starts(session: Session) -> None:
    """A worker process per rank, none of them this one."""
    import os

    assert session.llm is not None
    assert len(session.ranks) == session.cell.tp
    assert os.getpid() not in {rank["pid"] for rank in session.ranks}


def test_axes_are_resolved(session: Session, cell: Cell) -> None:
    """Platform, dtype, tensor parallelism, quantization and ways to start are what the cell says."""
    facts = session.facts
    if cell.platform in PLATFORM_CLASSES:
        assert facts["platform"] in PLATFORM_CLASSES[cell.platform]
    if cell.dtype != "auto":
        assert facts["dtype"] == cell.dtype
    assert facts["tp"] == cell.tp
    method = methods.get(cell.quantization)
    if method is not None:
        assert facts["quantization"] in method.resolves_to
    # Which engine was expected is no test of the engine: the runner compares it, and calls another one unproven.
    asked = {name: cell.engine_args[name] for name in facts["starts"] if name in cell.engine_args}
    assert {name: facts["starts"][name] for name in asked} == asked


def test_every_rank_proves_the_cell(session: Session, cell: Cell) -> None:
    """Method class, kernel backend, weight dtype, shard shape and linear scheme, on every rank and layer."""
    problems = rank_problems(cell, session.ranks)
    assert not problems, "; ".join(problems)
