"""Parts of a rule over one axis: ``tp>=2``, ``quantization=quark_int8``, ``dtype in (a, b)``; each with its weight."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runner.expr import is_number
from runner.model import Cell

MOST_SUBSETS = 5
"""Values of an axis up to which every subset of them is tried; beyond, single values, thresholds and complements."""

PLAIN, COMPLEMENT, SUBSET = 1.0, 0.5, 0.25
"""Weights: a value or a threshold is the likelier rule than all but one value, and that than any odd set of values."""


@dataclass(frozen=True, slots=True)
class Term:
    """A condition on one axis. ``text`` is what ``-k`` takes."""

    axis: str
    values: frozenset[str]
    text: str
    weight: float = PLAIN

    def holds(self, cell: Cell) -> bool:
        """Whether a cell is inside."""
        return cell.get(self.axis) in self.values


def _quoted(value: str) -> str:
    """A value as an expression takes it."""
    if re.fullmatch(r"[^\s()=<>!,\"']+", value) and value not in {"and", "or", "not", "in"}:
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.lstrip("-").split("."))


def _order(text: str) -> tuple[bool, tuple[int, ...]]:
    """Order of numbers as the expressions compare them: dotted ones as versions, negative ones first, backwards."""
    negative = text.startswith("-")
    digits = _number(text)
    return (not negative, tuple(-part for part in digits) if negative else digits)


def terms(axis: str, values: Sequence[str], failing: Iterable[str] = ()) -> tuple[Term, ...]:
    """Every condition worth trying on one axis; ``failing`` are the values of failing cells, one for each cell.

    An axis with one value says nothing: no term. Of terms with the same values the one of most weight is kept.
    """
    known = list(dict.fromkeys(values))
    if len(known) < 2:
        return ()
    made: dict[frozenset[str], Term] = {}

    def add(chosen: Iterable[str], text: str, weight: float) -> None:
        part = frozenset(chosen)
        if 0 < len(part) < len(known) and (part not in made or made[part].weight < weight):
            made[part] = Term(axis, part, text, weight)

    for value in known:
        add([value], f"{axis}={_quoted(value)}", PLAIN)
    if all(map(is_number, known)):
        ordered = sorted(known, key=_order)
        for at in range(1, len(ordered)):
            add(ordered[at:], f"{axis}>={ordered[at]}", PLAIN)
            add(ordered[:at], f"{axis}<={ordered[at - 1]}", PLAIN)
    for value in known:
        add((other for other in known if other != value), f"{axis}!={_quoted(value)}", COMPLEMENT)
    for chosen in _sets(known, list(failing)):
        add(chosen, f"{axis} in ({', '.join(map(_quoted, chosen))})", SUBSET)
    return tuple(made.values())


def _sets(known: Sequence[str], failing: Sequence[str]) -> Iterable[tuple[str, ...]]:
    if len(known) <= MOST_SUBSETS:
        for size in range(2, len(known) - 1):
            yield from itertools.combinations(known, size)
        return
    counts = {value: failing.count(value) for value in known}
    most = max(counts.values(), default=0)
    for least in {1, 2, max(1, most // 4), max(1, most // 2)}:
        yield tuple(value for value in known if counts[value] >= least)
