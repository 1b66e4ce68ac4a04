"""What a sample of a matrix promises, and a count of it that shares no code with the search that made it.

The popular generator of pairs leaves up to half of them out under rules (allpairspy 2.5.1 with its filter), so a
sample is believed only after :func:`check` has recounted it by plain sets of texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product

from runner.model import Cell, Reason

Values = tuple[tuple[str, str], ...]
"""Values of some axes, in the order of the axes of a cell: a pair, a triple."""

WORDS = {1: "value", 2: "pair", 3: "triple"}


class Why(StrEnum):
    """Why no valid cell has certain values together."""

    ALONE = "left out by one reason"
    TOGETHER = "left out by several reasons together"
    UNKNOWN = "no valid cell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncoverable:
    """Values that no valid cell has together.

    ALONE: each of ``reasons`` alone leaves out every cell with them; TOGETHER: only several of them do, the most
    frequent first; UNKNOWN: no cell with them is known, valid or left out (an axis value that only included cells
    have, or nobody said what was left out).
    """

    values: Values
    why: Why
    reasons: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        texts = [
            f"{reason.text} ({reason.source})" if reason.source else reason.text for reason in self.reasons
        ]
        shown = ", ".join(f"{name}={value}" for name, value in self.values)
        return f"{shown}: {self.why.value}" + (f": {'; '.join(texts)}" if texts else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Tuples of ``strength`` axis values, counted: ``possible`` in the full product = ``valid`` + uncoverable ones.

    A tuple is valid if at least one valid cell has it. ``at_least``: a proven number of cells below which no sample
    with the same pinned cells covers as much.
    """

    strength: int
    possible: int
    valid: int
    covered: int
    at_least: int
    uncoverable: tuple[Uncoverable, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every valid tuple is covered."""
        return self.covered == self.valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Cells, in plan order, that cover every valid tuple. ``remarks`` say where the search was cut short."""

    cells: tuple[Cell, ...]
    pinned: tuple[Cell, ...]
    certificate: Certificate
    key: str = ""
    remarks: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The certificate in one line."""
        count = self.certificate
        word = WORDS.get(count.strength, f"combination of {count.strength} values")
        fewest = (
            "the fewest possible"
            if len(self.cells) == count.at_least
            else f"at least {count.at_least} needed"
        )
        text = f"{len(self.cells)} cells ({fewest}) cover {count.covered} of {count.valid} valid {word}s"
        kinds = Counter(each.why for each in count.uncoverable)
        parts = [f"{kinds[why]} {why.value}" for why in Why if kinds[why]]
        return text + (
            f"; {len(count.uncoverable)} of {count.possible} cannot occur ({', '.join(parts)})"
            if parts
            else ""
        )


def explain(missing: Iterable[Values], left_out: Mapping[Cell, Sequence[Reason]]) -> tuple[Uncoverable, ...]:
    """Why each of these combinations of values has no valid cell, read from the cells left out that have it."""
    found: dict[Values, Counter[tuple[Reason, ...]]] = {values: Counter() for values in missing}
    for strength in {len(values) for values in found}:
        for cell, reasons in left_out.items():
            for values in combinations(cell.axes, strength):
                if values in found:
                    found[values][tuple(reasons)] += 1
    return tuple(_explained(values, groups) for values, groups in found.items())


def _explained(values: Values, groups: Counter[tuple[Reason, ...]]) -> Uncoverable:
    if not groups:
        return Uncoverable(values=values, why=Why.UNKNOWN)
    first, *others = groups
    alone = tuple(reason for reason in first if all(reason in other for other in others))
    if alone:
        return Uncoverable(values=values, why=Why.ALONE, reasons=alone)
    cells = Counter[Reason]()
    for reasons, count in groups.items():
        for reason in reasons:
            cells[reason] += count
    ordered = sorted(cells, key=lambda reason: (-cells[reason], reason.source, reason.text))
    return Uncoverable(values=values, why=Why.TOGETHER, reasons=tuple(ordered))


def check(
    sample: Sample, cells: Sequence[Cell], axes: Mapping[str, Sequence[str]], strength: int
) -> list[str]:
    """What is wrong with a sample of these valid cells, recounted from the texts alone; empty if nothing is."""
    problems = []
    valid, covered = _tuples(cells, strength), _tuples(sample.cells, strength)
    count = sample.certificate
    stated = {each.values for each in count.uncoverable}
    possible = {
        tuple(zip(names, values, strict=True))
        for names in combinations(_names(cells, axes), strength)
        for values in product(*(axes[name] for name in names))
    }
    problems += [f"not covered: {_text(values)}" for values in sorted(valid - covered)]
    problems += [
        f"called uncoverable, but a valid cell has it: {_text(values)}" for values in sorted(stated & valid)
    ]
    problems += [
        f"neither covered nor explained: {_text(each)}" for each in sorted(possible - valid - stated)
    ]
    problems += [
        f"explained, but no values of the matrix: {_text(each)}" for each in sorted(stated - possible)
    ]
    problems += _wrong_cells(sample, cells)
    numbers = {
        "strength": (count.strength, strength),
        "possible": (count.possible, len(possible)),
        "valid": (count.valid, len(valid)),
        "covered": (count.covered, len(covered & valid)),
        "uncoverable": (len(count.uncoverable), len(possible - valid)),
    }
    problems += [
        f"{name}: {said} stated, {is_} counted" for name, (said, is_) in numbers.items() if said != is_
    ]
    if len(sample.cells) < count.at_least:
        problems.append(f"at_least: {count.at_least} stated, {len(sample.cells)} cells are enough")
    return problems


def _wrong_cells(sample: Sample, cells: Sequence[Cell]) -> list[str]:
    chosen, known = set(sample.cells), set(cells)
    problems = [f"no valid cell: {cell.id}" for cell in sample.cells if cell not in known]
    problems += [f"pinned, but not in the sample: {cell.id}" for cell in sample.pinned if cell not in chosen]
    if not problems and sample.cells != tuple(cell for cell in dict.fromkeys(cells) if cell in chosen):
        problems.append("a cell is there twice, or cells are not in plan order")
    return problems


def _tuples(cells: Iterable[Cell], strength: int) -> set[Values]:
    return {values for cell in cells for values in combinations(cell.axes, strength)}


def _names(cells: Sequence[Cell], axes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(name for name, _ in cells[0].axes) if cells else tuple(axes)


def _text(values: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in values)
