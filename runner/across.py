"""Cells of one model against each other: tensor-parallel widths, platforms, quantized against unquantized. Pure.

Each cell is judged against its own reference inside the cell. Here two cells that should answer alike are set side by side
by their ``control`` events: a wrong reference, or a fault that only one width or platform has, shows as a difference between
cells. Of each group the first cell in plan order is what the others are compared with: the smallest width, the first platform,
the unquantized method.

How far two sound cells may lie apart. Both differ from the sound model by independent noise, so their difference has the
root of the sum of squares of the two noises, and that of the two bounds is allowed. A quantized cell may lie as far from the
unquantized one as its own event says (``control_bound``), since rounding weights moves answers as well.

Platforms seldom share a host, so the cells of a run are also compared with those of other platforms in its baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from runner.control import Control, Distance, distance
from runner.facts import Evidence
from runner.model import Cell, Culprit
from runner.records import CellRecord, Notice, NoticeKind, Run

UNQUANTIZED = "none"
"""What the axis ``quantization`` says of the cells that the others are controlled by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two cells that differ in ``axis`` alone, how far apart their answers lie, and how far they may.

    ``run_id`` is that of the other cell where it is of another run.
    """

    axis: str
    cell: Cell
    other: Cell
    found: Distance
    allowed: Distance
    run_id: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both numbers lie within what is allowed."""
        return self.found.largest <= self.allowed.largest and self.found.mean <= self.allowed.mean

    @property
    def text(self) -> str:
        """One line, the cell first that is compared."""
        mine, theirs = self.cell.get(self.axis), self.other.get(self.axis)
        where = f" of run {self.run_id}" if self.run_id else ""
        verb = "answers as" if self.agrees else "answers otherwise than"
        return (
            f"{self.cell.id} {verb} {self.axis}={theirs}{where} (here {self.axis}={mine}): log-probabilities differ by up to "
            f"{self.found.largest:.3g} (allowed {self.allowed.largest:.3g}), by {self.found.mean:.3g} on average "
            f"(allowed {self.allowed.mean:.3g})"
        )


def pairs(run: Run) -> tuple[Pair, ...]:
    """Every comparison that the cells of a run allow, in plan order, axis by axis."""
    controls = _controls(run)
    return tuple(
        pair
        for axis, first, allowed in (
            ("tp", _narrowest, _alike),
            ("platform", _first, _alike),
            ("quantization", _unquantized, _far),
        )
        for cells in _groups(controls, axis)
        if (chosen := first(cells, axis)) is not None
        for cell in cells
        if cell != chosen
        and (pair := _pair(axis, (cell, controls[cell]), (chosen, controls[chosen]), allowed)) is not None
    )


def between(run: Run, other: Run) -> tuple[Pair, ...]:
    """The cells of a run against those of another run that differ in the platform alone.

    An axis ``model`` is left aside, since one file may have it and the other not: the events say which model it was.
    """
    theirs: dict[tuple[tuple[str, str], ...], list[tuple[Cell, Control]]] = {}
    for there, found in _controls(other).items():
        theirs.setdefault(_rest(there, "platform", "model"), []).append((there, found))
    return tuple(
        pair
        for cell, control in _controls(run).items()
        for there, found in theirs.get(_rest(cell, "platform", "model"), ())
        if cell.get("platform") != there.get("platform")
        and (pair := _pair("platform", (cell, control), (there, found), _alike, other.run_id)) is not None
    )


def notices(run: Run, baseline: Run | None = None) -> tuple[Notice, ...]:
    """Cells that disagree, each a red notice; and in one line what was compared. ``baseline`` lends its other platforms."""
    compared = pairs(run) + (between(run, baseline) if baseline else ())
    if not compared:
        return ()
    wrong = [pair for pair in compared if not pair.agrees]
    counts = {
        axis: sum(pair.axis == axis for pair in compared) for axis in ("tp", "platform", "quantization")
    }
    words = {"tp": "across tp", "platform": "across platforms", "quantization": "with the unquantized model"}
    what = ", ".join(f"{number} {words[axis]}" for axis, number in counts.items() if number)
    disagree = f"{len(wrong)} of them disagree" if wrong else "all agree"
    told = Notice(kind=NoticeKind.AGREEMENT, text=f"cells compared with each other: {what}; {disagree}")
    return (
        *(
            Notice(
                kind=NoticeKind.AGREEMENT,
                text=pair.text,
                red=True,
                culprit=Culprit.PRODUCT,
                cells=(pair.cell, pair.other),
            )
            for pair in wrong
        ),
        told,
    )


def _pair(
    axis: str, here: Said, there: Said, allowed: Callable[[Control, Control], Distance], run_id: str = ""
) -> Pair | None:
    """Two cells side by side; None where they are not of the same model and texts."""
    (cell, mine), (other, theirs) = here, there
    found = distance(mine, theirs)
    if found is None:
        return None
    return Pair(axis=axis, cell=cell, other=other, found=found, allowed=allowed(mine, theirs), run_id=run_id)


def _controls(run: Run) -> dict[Cell, Control]:
    """What each cell says, in plan order."""
    order = {entry.cell: at for at, entry in enumerate(run.plan.planned())}
    ordered = sorted(run.records, key=lambda record: order.get(record.cell, len(order)))
    return {record.cell: control for record in ordered if (control := _control(record)) is not None}


def _rest(cell: Cell, *axes: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in cell.axes if name not in axes)


def _control(record: CellRecord) -> Control | None:
    """What the last attempt with evidence says."""
    known: list[Evidence] = [a.evidence for a in record.attempts if a.evidence is not None]
    return known[-1].control if known else None


def _groups(controls: Mapping[Cell, Control], axis: str) -> Iterable[list[Cell]]:
    """Cells that differ in one axis alone and have the same model."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Cell]] = {}
    for cell, control in controls.items():
        groups.setdefault((control.of, _rest(cell, axis)), []).append(cell)
    return groups.values()


Said = tuple[Cell, Control]


def _first(cells: list[Cell], _axis: str) -> Cell | None:
    return cells[0]


def _narrowest(cells: list[Cell], axis: str) -> Cell | None:
    return min(cells, key=lambda cell: int(value) if (value := cell.get(axis)).isdecimal() else 1 << 30)


def _unquantized(cells: list[Cell], axis: str) -> Cell | None:
    return next((cell for cell in cells if cell.get(axis) == UNQUANTIZED), None)


def _alike(one: Control, other: Control) -> Distance:
    return Distance(math.hypot(one.bound, other.bound), math.hypot(one.mean_bound, other.mean_bound))


def _far(one: Control, _other: Control) -> Distance:
    return Distance(one.control_bound, one.control_mean_bound)
