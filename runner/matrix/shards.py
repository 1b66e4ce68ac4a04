"""Cells dealt out to several machines by how long each is known to take."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Mapping, Sequence

from runner.errors import UsageError
from runner.model import Cell

_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


def parse_shard(text: str) -> tuple[int, int]:
    """``I/N`` as (index, count), both counted from 1. Raises :class:`UsageError` in one line."""
    found = _SHARD.fullmatch(text)
    index, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= index <= count:
        msg = f"--shard {text!r}: write I/N, the I-th of N shards with I from 1 to N, such as 2/5"
        raise UsageError(msg)
    return index, count


def shard(
    cells: Sequence[Cell], index: int, count: int, durations: Mapping[str, float], default_s: float
) -> tuple[Cell, ...]:
    """The cells of one shard, in plan order. ``durations`` has seconds by cell id, ``default_s`` is for the others.

    The longest cell first, each to the shard with least to do, then to the one with fewest cells (LPT: the longest
    shard is at most 4/3 of the best possible, Graham 1969). Every cell is in exactly one shard, as long as all
    machines see the same durations: give them one history. The order of cells does not matter.

    Raises:
        UsageError: an index that is not from 1 to ``count``.
        ValueError: a duration that is negative or no finite number, or a cell that is there twice.

    """
    if not 1 <= index <= count:
        msg = f"--shard {index}/{count}: the index must be from 1 to {count}"
        raise UsageError(msg)
    seconds = {cell.id: durations.get(cell.id, default_s) for cell in cells}
    if len(seconds) != len(cells):
        msg = "a cell is there twice"
        raise ValueError(msg)
    for name, value in seconds.items():
        if not (math.isfinite(value) and value >= 0):
            msg = f"{name}: a duration of {value} s"
            raise ValueError(msg)
    # More shards than cells are not looked at: they stay empty.
    loads = [(0.0, 0, number) for number in range(1, min(count, len(cells)) + 1)]
    mine = set()
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        load, held, number = loads[0]
        heapq.heapreplace(loads, (load + seconds[name], held + 1, number))
        if number == index:
            mine.add(name)
    return tuple(cell for cell in cells if cell.id in mine)
