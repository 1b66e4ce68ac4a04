"""Fixtures of the cell: which tests belong to it, its evidence, its one engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cell as cells
import engine as engines
import pytest
from cell import Cell
from incell.evidence import Evidence
from session import Session

SUITE = Path(__file__).resolve().parent
ORDER = (
    "test_startup",
    "test_experts_int8",
    "test_quark",
    "test_generation",
    "test_mamba_rule",
    "test_shutdown",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what does not belong to this cell (a skip stays meaningful) and puts the rest in order."""
    try:
        current = cells.load()
    except cells.CellError as error:
        raise pytest.UsageError(str(error)) from error
    unlisted = ORDER.index("test_shutdown") - 0.5  # a file of a user's own, while there is an engine
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else unlisted)
    if current is None:
        return
    dropped = [item for item in items if not _belongs(item, current)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def _belongs(item: pytest.Item, current: Cell) -> bool:
    wanted = item.get_closest_marker("quantization")
    if wanted is not None and current.quantization not in wanted.args:
        return False
    return item.get_closest_marker("mamba") is None or current.mamba_model() is not None


@pytest.fixture(scope="session")
def cell() -> Cell:
    """The cell under test."""
    found = cells.load()
    if found is None:
        msg = "MATRIX_CELL is not set: this suite runs inside a cell"
        raise cells.CellError(msg)
    return found


@pytest.fixture(scope="session")
def evidence(cell: Cell) -> Iterator[Evidence]:
    """The cell's evidence file; `end` is written when the session ends by itself."""
    written = Evidence(cell.out / "evidence.jsonl")
    written.start(cell.raw)
    yield written
    written.end()


@pytest.fixture(scope="session")
def errors(cell: Cell) -> Path:
    """The file with every error an engine process logged, its environment prepared."""
    return engines.prepare_environment(cell.out, SUITE)


@pytest.fixture(scope="session")
def session(cell: Cell, evidence: Evidence, errors: Path) -> Iterator[Session]:
    """The one engine of this cell. Where it does not start, every test that needs it errors with the first cause."""
    opened = Session.open(cell, evidence, errors)
    yield opened
    opened.close()
