"""Which waiting cell starts next. Pure: tested without processes.

Cells start in plan order. A cell that does not fit right now lets later ones pass only on resources that it does not
itself wait for, so that a wide cell is never starved by a stream of narrow ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one waiting cell takes while it runs: a count per resource, such as ``{"cuda": 2}`` or ``{"core": 1}``."""

    key: str
    counts: Mapping[str, int] = field(default_factory=dict)


def next_to_start(waiting: Sequence[Need], free: Mapping[str, int], running: int, jobs: int) -> Need | None:
    """The cell to start now, or None to wait for one that runs.

    ``free`` is what is left of each resource, ``jobs`` the most cells that may run at once.
    """
    if running >= jobs:
        return None
    left = dict(free)
    for need in waiting:
        if all(left.get(name, 0) >= count for name, count in need.counts.items()):
            return need
        for name in need.counts:
            left[name] = 0
    return None


def free(capacity: Mapping[str, int], running: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What is left of each resource beside the cells that run."""
    return {name: count - sum(taken.get(name, 0) for taken in running) for name, count in capacity.items()}
