"""A small set cover over bit masks: greedy, then removal and repair of some rows while work is left.

Nothing here knows cells. Every step depends on the seed and on counted work, never on a clock, so the same problem
gives the same answer on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

WORK = 3_000_000
"""Comparisons of one row with what is still to be covered, in units of 64 bytes of mask: one to two seconds."""
_IDLE_ROUNDS = 400
"""Repairs without a gain after which a search ends."""


@dataclass(slots=True)
class Search:
    """Looks for few of ``masks`` that together hold every bit of ``target``, always with the ``fixed`` ones.

    ``floor`` is a number of rows that cannot be beaten. ``work`` counts what was spent.
    """

    masks: Sequence[int]
    target: int
    fixed: tuple[int, ...]
    floor: int
    random: Random
    budget: int = WORK
    work: int = 0
    weight: int = field(init=False)
    todo: int = field(init=False)
    order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.order = self.random.sample(range(len(self.masks)), len(self.masks))
        self.weight = 1 + self.target.bit_length() // 512
        self.todo = self.target & ~union(self.masks[row] for row in self.fixed)

    def run(self) -> list[int]:
        """The rows found, fixed ones first."""
        best = self._lean(self._fill(self.todo))
        idle = 0
        while len(self.fixed) + len(best) > self.floor and self.work < self.budget and idle < _IDLE_ROUNDS:
            tried = self._repair(best)
            idle = 0 if len(tried) < len(best) else idle + 1
            if len(tried) <= len(best):
                best = tried
        return [*self.fixed, *best]

    def _fill(self, todo: int) -> list[int]:
        """Rows that cover ``todo``: each time the one that covers most of it, ties by a shuffled order, turned anew.

        A row's gain only falls as others are taken, so an old gain is a bound and most rows are not compared anew.
        """
        masks, count = self.masks, len(self.masks)
        turn = self.random.randrange(count) if count else 0
        order = self.order[turn:] + self.order[:turn]
        gains = [(masks[row] & todo).bit_count() for row in order]
        self.work += count * self.weight
        most = max(gains, default=0)
        heap = [(most - gain) * count + rank for rank, gain in enumerate(gains) if gain]
        heapq.heapify(heap)
        taken = []
        while todo:
            level, rank = divmod(heap[0], count)
            row = order[rank]
            gain = (masks[row] & todo).bit_count()
            self.work += self.weight
            if gain == most - level:
                taken.append(row)
                todo &= ~masks[row]
                heapq.heappop(heap)
            elif gain:
                heapq.heapreplace(heap, (most - gain) * count + rank)
            else:
                heapq.heappop(heap)
        return taken

    def _lean(self, rows: list[int]) -> list[int]:
        """Without the rows whose every bit another row has too."""
        kept = list(rows)
        only = self._once(kept)
        for row in self.random.sample(rows, len(rows)):
            if not self.masks[row] & only:
                kept.remove(row)
                only = self._once(kept)
        return kept

    def _once(self, rows: Sequence[int]) -> int:
        self.work += len(rows) * self.weight
        return once(self.masks[row] for row in rows) & self.todo

    def _repair(self, rows: list[int]) -> list[int]:
        """Take out some rows, those that few bits depend on more likely, and cover again what is missing."""
        only = self._once(rows)
        most = max(2, len(rows) // 4)
        out = set(
            sorted(rows, key=lambda row: (self.masks[row] & only).bit_count() * (0.5 + self.random.random()))[
                : self.random.randint(2, most)
            ]
        )
        kept = [row for row in rows if row not in out]
        missing = self.todo & ~union(self.masks[row] for row in kept)
        return self._lean(kept + self._fill(missing))


def union(masks: Iterable[int]) -> int:
    """The bits that one of the masks has."""
    found = 0
    for mask in masks:
        found |= mask
    return found


def once(masks: Iterable[int]) -> int:
    """The bits that exactly one of the masks has."""
    seen = twice = 0
    for mask in masks:
        twice |= seen & mask
        seen |= mask
    return seen & ~twice
