"""Cells left out, grouped by their reasons: every one is counted once, with the lines of the file that say so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runner.model import Reason
from runner.report.text import clean
from runner.report.view import CellView
from runner.report.vocabulary import LOOKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells left out for the same reasons. ``where`` names the axis values they share."""

    word: str
    reasons: tuple[Reason, ...]
    cells: tuple[CellView, ...]
    where: str

    @property
    def size(self) -> int:
        """How many cells."""
        return len(self.cells)

    @property
    def text(self) -> str:
        """All reasons on one line, each with its source line."""
        return "; ".join(map(reason_text, self.reasons)) or "no reason recorded"


def reason_text(reason: Reason) -> str:
    """A reason with the line that says so."""
    return clean(reason.text) + (f" ({clean(reason.source)})" if reason.source else "")


def left_out(cells: Iterable[CellView], axes: Mapping[str, Sequence[str]]) -> tuple[Group, ...]:
    """Cells that are not planned, grouped by word and reasons: largest group of each word first."""
    groups: dict[tuple[str, tuple[Reason, ...]], list[CellView]] = {}
    for cell in cells:
        if not cell.planned:
            groups.setdefault((cell.word, cell.entry.reasons), []).append(cell)
    order = list(LOOKS)
    made = [
        Group(word=word, reasons=reasons, cells=tuple(members), where=_where(members, axes))
        for (word, reasons), members in groups.items()
    ]
    return tuple(sorted(made, key=lambda group: (order.index(group.word), -len(group.cells))))


def _where(cells: Sequence[CellView], axes: Mapping[str, Sequence[str]]) -> str:
    """The axis values that bound a group, as ``platform=cpu dtype=float16``; axes it spans whole are not named."""
    seen: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.entry.cell.axes:
            seen.setdefault(name, {})[value] = None
    bounds = [
        f"{clean(name)}={'|'.join(map(clean, values))}"
        for name, values in seen.items()
        if len(values) < len(axes.get(name, ())) and len(values) <= 6
    ]
    return " ".join(bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Cells of one word left out under values of the first axis, each reason once.

    ``reasons`` are (text with source, how many of the cells, where in the other axes).
    """

    names: tuple[str, ...]
    word: str
    size: int
    reasons: tuple[tuple[str, int, str], ...]


def shelves(cells: Iterable[CellView], axes: Mapping[str, Sequence[str]]) -> tuple[Shelf, ...]:
    """The same cells in less room: by value of the first axis, with each reason written once and how many it holds for.

    Values of the first axis for which all reads the same share a shelf. Sizes add up to the cells left out; a cell
    with two reasons counts under both.
    """
    places: dict[tuple[str, str], list[CellView]] = {}
    for cell in cells:
        if not cell.planned:
            first = cell.entry.cell.axes[0][1] if cell.entry.cell.axes else ""
            places.setdefault((clean(first), cell.word), []).append(cell)
    made: dict[tuple[object, ...], Shelf] = {}
    for (name, word), members in places.items():
        reasons = _reasons(members, axes)
        said = (word, *((text, number == len(members), where) for text, number, where in reasons))
        if (above := made.get(said)) is None:
            made[said] = Shelf(names=(name,), word=word, size=len(members), reasons=reasons)
            continue
        summed = tuple((a[0], a[1] + b[1], a[2]) for a, b in zip(above.reasons, reasons, strict=True))
        made[said] = Shelf(
            names=(*above.names, name), word=word, size=above.size + len(members), reasons=summed
        )
    return tuple(made.values())


def _reasons(
    cells: Sequence[CellView], axes: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, int, str], ...]:
    by_reason: dict[str, list[CellView]] = {}
    for cell in cells:
        for text in dict.fromkeys(map(reason_text, cell.entry.reasons)) or ("no reason recorded",):
            by_reason.setdefault(text, []).append(cell)
    first = cells[0].entry.cell.axes[0][0] if cells[0].entry.cell.axes else ""
    others = {name: values for name, values in axes.items() if name != first}
    made = [(text, len(members), _where(members, others)) for text, members in by_reason.items()]
    return tuple(sorted(made, key=lambda reason: -reason[1]))
