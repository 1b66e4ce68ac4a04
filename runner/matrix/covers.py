"""The fewest valid cells that cover every valid pair or triple of axis values, with a certificate of what they cover.

The cells are enumerated first, so any rule can have formed them; the search then is a set cover over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod
from random import Random

from runner.errors import UsageError
from runner.matrix.certificate import Certificate, Sample, Values, explain
from runner.matrix.covering import Search, once, union
from runner.model import Cell, Reason

MOST_BITS = 2_000_000_000
"""Cells times tuples of the full product that are searched: 250 MB, and tens of seconds."""
MOST_TUPLES = 2_000_000
"""Tuples of the full product, each of which the certificate accounts for."""


def cover(
    cells: Sequence[Cell],
    strength: int,
    *,
    pinned: Sequence[Cell] = (),
    key: str = "",
    axes: Mapping[str, Sequence[str]] | None = None,
    left_out: Mapping[Cell, Sequence[Reason]] | None = None,
) -> Sample:
    """Choose few of the valid ``cells`` so that every valid tuple of ``strength`` axis values is in one of them.

    The choice does not depend on the order of cells or axis values; another ``key`` makes another choice. ``axes``
    are the values of the full product, against which the certificate counts (default: those that occur);
    ``left_out`` has the reasons of the other cells, by which it says why a tuple cannot be covered. A few hundred
    cells take below a second, ten thousand some seconds; beyond, the sample's remarks say what the search left undone.

    Raises:
        UsageError: a strength the axes do not allow, a pinned cell that is not valid, or more cells than are searched.

    """
    if not 1 <= strength <= (len(cells[0].axes) if cells else strength):
        msg = (
            f"--cover {strength}: the matrix has {len(cells[0].axes)} axes, so give 1 to {len(cells[0].axes)}"
        )
        raise UsageError(msg)
    known = set(cells)
    for cell in pinned:
        if cell not in known:
            msg = f"pinned cell {cell.id}: it is none of the {len(known)} cells to choose from; 'plan FILE' says why"
            raise UsageError(msg)
    tuples = _Tuples(_values([*cells, *(left_out or ())], axes), strength)
    _check_size(len(known), tuples)
    ordered = sorted(known, key=lambda cell: cell.axes)
    return _sample(_Choice(tuples, cells, ordered, tuple(dict.fromkeys(pinned)), key), left_out or {})


def _check_size(cells: int, tuples: _Tuples) -> None:
    if tuples.count > MOST_TUPLES or cells * tuples.count > MOST_BITS:
        msg = (
            f"--cover {tuples.strength}: {cells} cells and {tuples.count} combinations of axis values are more than "
            f"are searched ({MOST_BITS:.0e} of both multiplied, {MOST_TUPLES:.0e} combinations): choose fewer with -k"
        )
        raise UsageError(msg)


def _values(cells: Sequence[Cell], axes: Mapping[str, Sequence[str]] | None) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {name: set() for name, _ in cells[0].axes} if cells else {}
    for cell in cells:
        for name, value in cell.axes:
            found[name].add(value)
    for name, values in (axes or {}).items():
        found.setdefault(name, set()).update(values)
    return {name: tuple(sorted(values)) for name, values in found.items()}


@dataclass(slots=True)
class _Tuples:
    """Numbers every combination of ``strength`` axis values of the full product: one bit each, axes together."""

    values: Mapping[str, Sequence[str]]
    strength: int
    groups: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list)
    """Places of the axes, first bit, number of bits."""
    count: int = 0

    def __post_init__(self) -> None:
        sizes = [len(values) for values in self.values.values()]
        for places in combinations(range(len(sizes)), self.strength):
            width = prod(sizes[place] for place in places)
            self.groups.append((places, self.count, width))
            self.count += width

    def masks(self, cells: Sequence[Cell]) -> list[int]:
        """The bits of each cell."""
        codes = [{value: code for code, value in enumerate(values)} for values in self.values.values()]
        steps = [(places, self._strides(places), first) for places, first, _ in self.groups]
        found = []
        for cell in cells:
            at = [code[value] for code, (_, value) in zip(codes, cell.axes, strict=True)]
            bits = bytearray(self.count // 8 + 1)
            for places, strides, first in steps:
                bit = first
                for place, stride in zip(places, strides, strict=True):
                    bit += at[place] * stride
                bits[bit >> 3] |= 1 << (bit & 7)
            found.append(int.from_bytes(bits, "little"))
        return found

    def _strides(self, places: Sequence[int]) -> tuple[int, ...]:
        sizes = [len(values) for values in self.values.values()]
        return tuple(prod(sizes[later] for later in places[at + 1 :]) for at in range(len(places)))

    def without(self, mask: int) -> Iterator[Values]:
        """The combinations whose bits are not in a mask, as texts."""
        pairs = [[(name, value) for value in values] for name, values in self.values.items()]
        for places, first, width in self.groups:
            bits = (mask >> first) & ((1 << width) - 1)
            if bits.bit_count() < width:
                for bit, values in enumerate(product(*(pairs[place] for place in places))):
                    if not bits >> bit & 1:
                        yield values

    def widest(self, mask: int) -> int:
        """The most bits of a mask within one choice of axes: a cell has only one of them, so as many are needed."""
        return max(
            ((mask >> first & ((1 << width) - 1)).bit_count() for _, first, width in self.groups), default=0
        )


@dataclass(frozen=True, slots=True)
class _Choice:
    tuples: _Tuples
    cells: Sequence[Cell]
    ordered: Sequence[Cell]
    pinned: tuple[Cell, ...]
    key: str


def _sample(choice: _Choice, left_out: Mapping[Cell, Sequence[Reason]]) -> Sample:
    tuples, ordered = choice.tuples, choice.ordered
    masks = tuples.masks(ordered)
    valid = union(masks)
    only = once(masks)
    needed = set(choice.pinned)
    fixed = tuple(row for row, cell in enumerate(ordered) if masks[row] & only or cell in needed)
    floor = len(fixed) + tuples.widest(valid & ~union(masks[row] for row in fixed))
    seed = Random(f"{tuples.strength} {choice.key}")  # noqa: S311 - a choice that can be repeated, no secret
    search = Search(masks, valid, fixed, floor, seed)
    rows = search.run()
    chosen = {ordered[row] for row in rows}
    certificate = Certificate(
        strength=tuples.strength,
        possible=tuples.count,
        valid=valid.bit_count(),
        covered=union(masks[row] for row in rows).bit_count(),
        at_least=floor,
        uncoverable=explain(tuples.without(valid), left_out),
    )
    cut = len(rows) > floor and search.work >= search.budget
    remark = f"{len(ordered)} cells: the search for a smaller sample ended at its limit of work"
    return Sample(
        cells=tuple(cell for cell in dict.fromkeys(choice.cells) if cell in chosen),
        pinned=choice.pinned,
        certificate=certificate,
        key=choice.key,
        remarks=(remark,) if cut else (),
    )
