"""Which axis values explain the failures: the smallest conjunction over at most three axes, and how sure that is.

The statistic. Every conjunction of up to three terms (:mod:`runner.triage.atoms`) is a hypothesis "a cell fails iff
this holds"; one more says that cells fail at random at some rate. A rule is weighed by its number of axes
(:data:`AXES_PRIOR`, shared among all rules over that many axes by their terms' weights, so that one among many is not
believed for free) and by its exceptions: e of n known cells that do not obey it have the marginal probability
``B(e+1, n-e+20) / B(1, 20)`` (noise of unknown rate, about 1 in 21 expected). Rules that say the same of every cell
that is known or could still run are one. ``confidence`` is the posterior share of the best: how much of all belief.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from runner.model import Cell
from runner.triage.atoms import Term, terms

AXES_PRIOR = (0.1, 0.4, 0.25, 0.1)
"""Belief, before a cell is looked at, that a cause has 0 (every cell) to 3 axes."""

RANDOM_PRIOR = 0.15
"""Belief that no axis matters."""

NOISE_PRIOR = 20
SURE = 0.95
"""From here on a rule is said as a fact, and no cell is asked for."""

LIKELY = 0.5
MOST_SETTLING = 4
"""Cells asked for at a time: each answer changes which cell is worth most next."""

MOST_RULES = 20_000
"""Conjunctions of three terms tried for one cause; beyond, the least likely terms of the widest axes are left out."""

_MOST_RIVALS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What separates failing cells from passing ones. ``settle`` are the cells whose results would tell most."""

    terms: tuple[Term, ...]
    failed_inside: int
    passed_inside: int
    failed_outside: int
    passed_outside: int
    confidence: float
    settle: tuple[Cell, ...] = ()

    @property
    def rule(self) -> str:
        """The condition as ``-k`` takes it; ``every cell`` where no axis matters."""
        return " and ".join(term.text for term in self.terms) or "every cell"

    @property
    def sure(self) -> bool:
        """Whether nothing more needs to run to say it. One failing cell is never enough: it may fail by chance."""
        return self.confidence >= SURE and self.failed_inside + self.failed_outside > 1

    @property
    def said(self) -> bool:
        """Whether the rule is more than a guess."""
        return self.confidence >= LIKELY and self.failed_inside + self.failed_outside > 1

    @property
    def counts(self) -> str:
        """The four counts the rule rests on."""
        inside = f"{self.failed_inside} of {self.failed_inside + self.passed_inside} fail inside"
        outside = self.failed_outside + self.passed_outside
        return inside + (f", {self.failed_outside} of {outside} outside" if outside else ", none ran outside")

    @property
    def text(self) -> str:
        """One line. "fails iff" is said only where the rule is sure and has no exception."""
        if self.failed_inside + self.failed_outside == 1:
            return f"one failing cell makes no rule; narrowest guess {self.rule} ({self.counts})"
        if self.confidence < LIKELY:
            return f"no axis explains it yet; best guess {self.rule} ({self.counts}; {self.percent})"
        if not self.terms:
            return f"fails in every cell that ran ({self.counts}; {self.percent})"
        exact = not self.passed_inside and not self.failed_outside
        verb = ("fails iff" if exact else "fails mostly where") if self.sure else "likely fails where"
        return f"{verb} {self.rule} ({self.counts}; {self.percent})"

    @property
    def percent(self) -> str:
        """The confidence, rounded down, so that 100% is never said."""
        return f"confidence {min(99, math.floor(100 * self.confidence))}%"


@dataclass(slots=True)
class _Class:
    """Rules that say the same of every cell: their common belief, and the plainest of them."""

    mask: int
    prior: float
    best: float
    terms: tuple[Term, ...]
    belief: float = field(default=0.0)


def explain(
    failed: Collection[Cell], passed: Collection[Cell], open_: Collection[Cell]
) -> Explanation | None:
    """Explain the failures of one cause; None where nothing failed, or only one cell is known.

    ``passed`` are cells that ran without fault; a cell that failed for another reason belongs to neither, for it
    hides what it would have done. ``open_`` are cells that could run and have not been seen.
    """
    if not failed or len(failed) + len(passed) < 2:
        return None
    cells = [*failed, *passed, *open_]
    fails = (1 << len(failed)) - 1
    passes = ((1 << len(passed)) - 1) << len(failed)
    classes = _classes(cells, list(failed), fails, (1 << len(cells)) - 1)
    total = len(failed) + len(passed)
    chance = math.log(RANDOM_PRIOR) + _lbeta(len(failed) + 1, len(passed) + 1)
    logs = [
        math.log(one.prior) + _noise((passes & one.mask).bit_count() + (fails & ~one.mask).bit_count(), total)
        for one in classes
    ]
    top = max(chance, *logs)
    whole = math.exp(chance - top) + sum(math.exp(value - top) for value in logs)
    for one, value in zip(classes, logs, strict=True):
        one.belief = math.exp(value - top) / whole
    classes.sort(key=lambda one: -one.belief)
    best = classes[0]
    inside = best.mask
    return Explanation(
        terms=best.terms,
        failed_inside=(fails & inside).bit_count(),
        passed_inside=(passes & inside).bit_count(),
        failed_outside=(fails & ~inside).bit_count(),
        passed_outside=(passes & ~inside).bit_count(),
        confidence=best.belief,
        settle=()
        if best.belief >= SURE and len(failed) > 1
        else _settle(classes[:_MOST_RIVALS], cells, total),
    )


def _lbeta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _noise(exceptions: int, total: int) -> float:
    return _lbeta(exceptions + 1, total - exceptions + NOISE_PRIOR) - _lbeta(1, NOISE_PRIOR)


def _classes(cells: Sequence[Cell], failed: Sequence[Cell], fails: int, everything: int) -> list[_Class]:
    """All rules that leave few failures unexplained, joined where they say the same of every cell."""
    names = dict.fromkeys(name for cell in cells for name, _ in cell.axes)
    values = {name: [cell.get(name) for cell in cells] for name in names}
    every = {name: terms(name, values[name], [cell.get(name) for cell in failed]) for name in names}
    weights = [sum(term.weight for term in found) for found in every.values() if found]
    slack = 2 * len(failed) // 3  # noise may fail more cells than a narrow rule does
    masked = [
        kept for name, found in every.items() if (kept := _kept(_masked(found, values[name]), fails, slack))
    ]
    while len(masked) > 2 and _work(masked) > MOST_RULES:
        widest = max(map(len, masked))
        masked = [kept[: widest - 1] for kept in masked]
    classes = {everything: _Class(everything, AXES_PRIOR[0], AXES_PRIOR[0], ())}
    for size in range(1, len(AXES_PRIOR)):
        share = sum(math.prod(group) for group in itertools.combinations(weights, size))
        for axes in itertools.combinations(masked, size):
            _add(classes, axes, AXES_PRIOR[size] / share, fails, slack)
    return list(classes.values())


def _masked(found: Sequence[Term], values: Sequence[str]) -> list[tuple[Term, int]]:
    """Each term with the cells inside it, one bit a cell."""
    bits = {
        value: int("".join("1" if other == value else "0" for other in reversed(values)), 2)
        for value in dict.fromkeys(values)
    }
    return [(term, sum(bits[value] for value in term.values)) for term in found]


def _kept(masked: list[tuple[Term, int]], fails: int, slack: int) -> list[tuple[Term, int]]:
    """Terms that leave at most ``slack`` failures outside, the likeliest first."""
    near = [(term, mask) for term, mask in masked if (fails & ~mask).bit_count() <= slack]
    return sorted(near, key=lambda one: (-one[0].weight, (fails & ~one[1]).bit_count()))


def _work(masked: Sequence[list[tuple[Term, int]]]) -> int:
    return sum(math.prod(map(len, axes)) for axes in itertools.combinations(masked, 3))


def _add(
    classes: dict[int, _Class],
    axes: Sequence[list[tuple[Term, int]]],
    share: float,
    fails: int,
    slack: int,
) -> None:
    for chosen in itertools.product(*axes):
        mask = -1
        for _, part in chosen:
            mask &= part
        if (fails & ~mask).bit_count() > slack:
            continue
        prior = share * math.prod(term.weight for term, _ in chosen)
        found = classes.get(mask)
        if found is None:
            classes[mask] = _Class(mask, prior, prior, tuple(term for term, _ in chosen))
            continue
        found.prior += prior
        if prior > found.best and len(chosen) <= max(1, len(found.terms)):
            found.best, found.terms = prior, tuple(term for term, _ in chosen)


def _settle(classes: Sequence[_Class], cells: Sequence[Cell], known: int) -> tuple[Cell, ...]:
    """Cells not yet seen that split the belief among the rivals best, the most telling first."""
    columns: dict[int, int] = {}  # what the rivals say of a cell, one bit each -> the first such cell
    for at in range(known, len(cells)):
        said = sum(1 << n for n, one in enumerate(classes) if one.mask >> at & 1)
        if said not in (0, (1 << len(classes)) - 1):
            columns.setdefault(said, at)
    groups = [list(range(len(classes)))]
    chosen: list[Cell] = []
    while columns and len(chosen) < MOST_SETTLING:
        said = max(columns, key=lambda column: (_spread(groups, column, classes), -columns[column]))
        if _spread(groups, said, classes) < _spread(groups, 0, classes) + 0.02:
            break
        groups = [part for group in groups for part in _split(group, said) if part]
        chosen.append(cells[columns.pop(said)])
    return tuple(chosen)


def _split(group: list[int], column: int) -> tuple[list[int], list[int]]:
    return [n for n in group if column >> n & 1], [n for n in group if not column >> n & 1]


def _spread(groups: Sequence[list[int]], column: int, classes: Sequence[_Class]) -> float:
    """Entropy, in bits, of the belief over the groups once a column has split them."""
    total = 0.0
    for group in groups:
        for part in _split(group, column):
            belief = sum(classes[n].belief for n in part)
            total -= belief * math.log2(belief) if belief > 0 else 0.0
    return total
