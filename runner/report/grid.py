"""The grid as a value: rows of axis values, one column per quantization method, a cell in each slot. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runner.model import BUILT_IN_AXES
from runner.report.view import CellView


@dataclass(frozen=True, slots=True)
class Row:
    """Values of the row axes (several in one place where rows were folded) and a cell, or None, per column."""

    keys: tuple[tuple[str, ...], ...]
    slots: tuple[CellView | None, ...]

    @property
    def foldable(self) -> bool:
        """Whether nothing in the row was planned, so that it may share a line with rows that say the same."""
        return not any(slot.planned for slot in self.slots if slot)

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each slot; empty where the product has no such cell."""
        return tuple(slot.word if slot else "" for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Grid:
    """A pivot of cells. ``axes`` name the row keys, ``column_axis`` what ``columns`` are values of."""

    axes: tuple[str, ...]
    column_axis: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def grid(cells: Sequence[CellView], axes: Mapping[str, Sequence[str]]) -> Grid:
    """Lay cells out: every axis but the column's makes the rows, in the order of the matrix file's values."""
    names: dict[str, None] = {}
    for cell in cells:
        names.update(dict.fromkeys(name for name, _ in cell.entry.cell.axes))
    column_axis = _column_axis(names, axes)
    order = {name: {value: at for at, value in enumerate(values)} for name, values in axes.items()}

    def rank(name: str, value: str) -> tuple[int, str]:
        return order.get(name, {}).get(value, len(order.get(name, {}))), value

    row_axes = tuple(name for name in names if name != column_axis)
    slots: dict[tuple[str, ...], dict[str, CellView]] = {}
    for cell in cells:
        values = dict(cell.entry.cell.axes)
        key = tuple(values.get(name, "") for name in row_axes)
        slots.setdefault(key, {})[values.get(column_axis, "")] = cell
    columns = sorted({column for row in slots.values() for column in row}, key=lambda c: rank(column_axis, c))
    keys = sorted(slots, key=lambda key: tuple(map(rank, row_axes, key)))
    rows = tuple(Row(tuple((part,) for part in key), tuple(map(slots[key].get, columns))) for key in keys)
    return Grid(row_axes, column_axis, tuple(columns), rows)


def _column_axis(names: Mapping[str, None], axes: Mapping[str, Sequence[str]]) -> str:
    """Quantization; where it has one value only, the last built-in axis that has more."""
    candidates = [name for name in reversed(BUILT_IN_AXES) if name in names] or list(names)
    return next(
        (name for name in candidates if len(axes.get(name, ())) > 1), candidates[0] if candidates else ""
    )


def fold(table: Grid) -> Grid:
    """Join neighbouring rows in which nothing was planned and every word is the same, but for one axis.

    The first axis (the platform) is never folded: a reader looks for it.
    """
    rows = list(table.rows)
    for at in range(len(table.axes) - 1, 0, -1):
        joined: list[Row] = []
        for row in rows:
            if joined and (one := _join(joined[-1], row, at)):
                joined[-1] = one
            else:
                joined.append(row)
        rows = joined
    return replace(table, rows=tuple(rows))


def _join(above: Row, below: Row, at: int) -> Row | None:
    same = all(a == b for n, (a, b) in enumerate(zip(above.keys, below.keys, strict=True)) if n != at)
    if not (same and above.foldable and below.foldable and above.words == below.words):
        return None
    keys = list(above.keys)
    keys[at] = (*above.keys[at], *below.keys[at])
    return replace(above, keys=tuple(keys))
