"""Reads and checks a matrix file and expands it into cells, each one left out with a reason. Never looks at the host.

How to write a file, and how its rules are evaluated: ``docs/matrix.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.model import Cell, Matrix, Reason

if TYPE_CHECKING:  # at run time each is imported when it is asked for: most runs sample and explain nothing
    from runner.matrix.certificate import Sample
    from runner.matrix.origins import Explained

__all__ = ["MAX_CELLS", "cover", "explain", "load", "parse_shard", "schema", "shard"]

MAX_CELLS = 100_000
"""Cells of a matrix at most, unless the caller says otherwise."""


def load(path: Path, *, apply_rules: bool = True, max_cells: int = MAX_CELLS) -> Matrix:
    """Read, check and expand a matrix file.

    With ``apply_rules`` False a broken ``require`` refuses no cell (exclusions still exclude). A product of more
    than ``max_cells`` is refused before it is built. Raises :class:`runner.errors.MatrixError` with all mistakes.
    """
    from runner.matrix.read import load_matrix

    return load_matrix(path, apply_rules=apply_rules, max_cells=max_cells)


def schema() -> dict[str, Any]:
    """The JSON Schema of a matrix file, equal to the shipped ``matrix.schema.json``."""
    from runner.matrix.json_schema import make_schema

    return make_schema()


def explain(path: Path, cell: str, *, apply_rules: bool = True, max_cells: int = MAX_CELLS) -> Explained:
    """How every setting of a cell (by id or slug) came to be: value, layer, and line of the file.

    Raises :class:`runner.errors.MatrixError` as :func:`load`, and :class:`runner.errors.UsageError` for an unknown cell.
    """
    from runner.matrix.origins import explain_cell

    return explain_cell(path, cell, apply_rules=apply_rules, max_cells=max_cells)


def cover(
    cells: Sequence[Cell],
    strength: int,
    *,
    pinned: Sequence[Cell] = (),
    key: str = "",
    axes: Mapping[str, Sequence[str]] | None = None,
    left_out: Mapping[Cell, Sequence[Reason]] | None = None,
) -> Sample:
    """See :func:`runner.matrix.covers.cover`."""
    from runner.matrix.covers import cover as search

    return search(cells, strength, pinned=pinned, key=key, axes=axes, left_out=left_out)


def parse_shard(text: str) -> tuple[int, int]:
    """See :func:`runner.matrix.shards.parse_shard`."""
    from runner.matrix.shards import parse_shard as parse

    return parse(text)


def shard(
    cells: Sequence[Cell], index: int, count: int, durations: Mapping[str, float], default_s: float
) -> tuple[Cell, ...]:
    """See :func:`runner.matrix.shards.shard`."""
    from runner.matrix.shards import shard as deal

    return deal(cells, index, count, durations, default_s)
