"""Loads a matrix from a text, and tells the mistakes of one as ``line:column: text (fix)``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import runner.matrix
from runner.errors import MatrixError
from runner.model import Matrix

DATA = Path(__file__).parent / "data"

Load = Callable[..., Matrix]
Wrong = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text (or bytes) as matrix.yaml."""

    def _load(
        text: str | bytes, *, apply_rules: bool = True, max_cells: int = runner.matrix.MAX_CELLS
    ) -> Matrix:
        path = tmp_path / "matrix.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return runner.matrix.load(path, apply_rules=apply_rules, max_cells=max_cells)

    return _load


@pytest.fixture
def wrong(load: Load, tmp_path: Path) -> Wrong:
    """The mistakes of a text, without the path."""

    def _wrong(text: str | bytes, **options: int) -> list[str]:
        with pytest.raises(MatrixError) as caught:
            load(text, **options)
        prefix = f"{tmp_path / 'matrix.yaml'}:"
        lines = str(caught.value).splitlines()
        assert all(line.startswith(prefix) for line in lines)
        return [line.removeprefix(prefix) for line in lines]

    return _wrong


@pytest.fixture
def case_wrong() -> Wrong:
    """The mistakes of a file under data/, without its folder."""

    def _wrong(name: str) -> list[str]:
        with pytest.raises(MatrixError) as caught:
            runner.matrix.load(DATA / name)
        return str(caught.value).replace(f"{DATA}/", "").splitlines()

    return _wrong


@pytest.fixture
def case() -> Load:
    """The matrix of a file under data/."""
    return lambda name: runner.matrix.load(DATA / name)
