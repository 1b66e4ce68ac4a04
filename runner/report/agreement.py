"""Agreement with the reference over tensor-parallel widths, platforms and methods: a small heat map as a value. Pure.

A slot is the largest absolute log-probability difference of a cell, read as a share of the bound that the cell's own
tests used; tokens that differ are said beside it. Nothing is judged here: the cell's tests did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.report.text import clean
from runner.report.view import CellView

MOST_ROWS = 300
STEPS = (0.05, 0.15, 0.35, 0.65, 1.0)
"""Upper ends of the shares of the bound that share a shade; above the last the bound is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One cell's agreement. ``shade`` is 0 (close) to 5 (beyond the bound)."""

    cell: CellView
    distance: str
    share: str
    tokens: str
    shade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Rows of every axis but the widths', one column per width. ``hidden`` rows are left to the data."""

    axes: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Slot | None, ...]], ...]
    hidden: int = 0


def agreement(cells: Sequence[CellView], axes: Mapping[str, Sequence[str]]) -> HeatMap | None:
    """The heat map, or None where no cell reported agreement. Axes with one value are not repeated in every row."""
    found = [slot for cell in cells if (slot := _slot(cell))]
    if not found:
        return None
    several = {name for name in axes if len({slot.cell.entry.cell.get(name) for slot in found}) > 1}
    names = tuple(
        name for name in axes if name != "tp" and (name in several or name in ("platform", "quantization"))
    )
    rows: dict[tuple[str, ...], dict[str, Slot]] = {}
    for slot in found:
        cell = slot.cell.entry.cell
        rows.setdefault(tuple(clean(cell.get(name)) for name in names), {})[cell.get("tp")] = slot
    widths = [value for value in axes.get("tp", ("",)) if any(value in row for row in rows.values())]
    listed = tuple((key, tuple(map(row.get, widths))) for key, row in rows.items())
    return HeatMap(
        axes=tuple(map(clean, names)),
        columns=tuple(map(clean, widths)),
        rows=listed[:MOST_ROWS],
        hidden=max(0, len(listed) - MOST_ROWS),
    )


def _slot(cell: CellView) -> Slot | None:
    evidence = cell.attempt.evidence if cell.attempt else None
    if evidence is None or (evidence.max_abs_logprob_diff is None and evidence.tokens_equal is None):
        return None
    distance, bound = evidence.max_abs_logprob_diff, evidence.logprob_bound
    tokens = {True: "same tokens", False: "other tokens", None: ""}[evidence.tokens_equal]
    if distance is None or not math.isfinite(distance):
        shown = "no distance" if distance is None else "not a number"
        return Slot(
            cell=cell, distance=shown, share="", tokens=tokens, shade=0 if distance is None else len(STEPS)
        )
    if not bound or not math.isfinite(bound):
        return Slot(cell=cell, distance=f"{distance:.3g}", share="no bound", tokens=tokens, shade=0)
    share = distance / bound
    shade = next((n for n, step in enumerate(STEPS) if share <= step), len(STEPS))
    return Slot(
        cell=cell, distance=f"{distance:.3g}", share=f"{share:.0%} of {bound:.3g}", tokens=tokens, shade=shade
    )
