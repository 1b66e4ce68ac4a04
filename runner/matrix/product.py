"""The product of the axes under exclusions: walked level by level, so that a rule is looked at once a prefix.

The exclusions that a prefix of a cell has not escaped are the bits of a number, so that one ``&`` tells which of them
take out the next value too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from runner.matrix.rules import AxisValues, Exclusion

MAX_WORK = 1_000_000
"""Steps at most when counting: about half a second."""

Pair = tuple[str, str]
Combo = tuple[Pair, ...]


def size(values: AxisValues) -> int:
    """The number of cells of the product."""
    return prod(len(each) for each in values.values())


def left(names: Sequence[str], values: AxisValues, rules: Sequence[Exclusion]) -> int | None:
    """The number of cells that no exclusion takes out, counted without walking them; None where that is too much work.

    Prefixes with the same live rules are counted together, so the time depends on the rules and not on the product.
    """
    counts = {_all(rules): 1}
    work = 0
    for name in names:
        masks = _masks(name, values[name], rules)
        work += len(counts) * len(masks)
        if work > MAX_WORK:
            return None
        following: dict[int, int] = {}
        for live, count in counts.items():
            for _, mask in masks:
                following[live & mask] = following.get(live & mask, 0) + count
        counts = following
    return counts.get(0, 0)


def walk(names: Sequence[str], values: AxisValues, rules: Sequence[Exclusion]) -> Iterator[tuple[Combo, int]]:
    """Every cell of the product, in the order of names and values, with the exclusions that take it out as bits."""
    prefixes: list[tuple[Combo, int]] = [((), _all(rules))]
    for name in names[:-1]:
        masks = _masks(name, values[name], rules)
        prefixes = [((*combo, pair), live & mask) for combo, live in prefixes for pair, mask in masks]
    masks = _masks(names[-1], values[names[-1]], rules)
    for combo, live in prefixes:
        for pair, mask in masks:
            yield (*combo, pair), live & mask


def numbers(live: int) -> tuple[int, ...]:
    """The places of exclusions in their list, from bits."""
    return tuple(number for number in range(live.bit_length()) if live >> number & 1)


def _all(rules: Sequence[Exclusion]) -> int:
    return (1 << len(rules)) - 1


def _masks(name: str, values: Sequence[str], rules: Sequence[Exclusion]) -> list[tuple[Pair, int]]:
    """For each value of an axis: the exclusions that take it out or do not name the axis."""
    masks = dict.fromkeys(values, 0)
    silent = 0
    for number, rule in enumerate(rules):
        taken = rule.values.get(name)
        if taken is None:
            silent |= 1 << number
            continue
        for value in taken:
            masks[value] |= 1 << number
    return [((name, value), mask | silent) for value, mask in masks.items()]
