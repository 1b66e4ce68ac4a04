"""Whether the lines of an evidence are one cell's, whole and in order: it begins with `start` and nothing follows `end`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.machine import Sight
from runner.verdict.sight import read_sight

_SHOWN_CHARS, _MOST = 80, 3


@dataclass(slots=True)
class Lives:
    """A cell may start its writer more than once (a second test session): then each start is of the same cell."""

    first: str = ""
    starts: int = 0
    cells: list[str] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    ended: bool = False
    after_end: str = ""

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event, whatever its name."""
        name = event["event"]
        self.first = self.first or name
        if name == "start":
            self._start(event)
        elif name == "end":
            self.ended = True
        elif self.ended and name != "heartbeat":  # a last heartbeat may wait in its thread
            self.after_end = self.after_end or name

    def _start(self, event: Mapping[str, Any]) -> None:
        self.starts += 1
        self.ended = False
        cell, sight = event.get("cell"), read_sight(event.get("sees"))
        identity = cell.get("id") if isinstance(cell, dict) else None
        if isinstance(identity, str) and identity not in self.cells and len(self.cells) < _MOST:
            self.cells.append(identity)
        if sight is not None and sight not in self.sights and len(self.sights) < _MOST:
            self.sights.append(sight)

    def conflicts(self) -> Iterator[str]:
        """What shows that lines are missing, out of order or of somebody else."""
        if self.starts and self.first != "start":
            yield f"the evidence begins with {self.first[:_SHOWN_CHARS]!r}, not with 'start'"
        if len(self.cells) > 1:
            yield f"the evidence is of several cells: {' and '.join(one[:_SHOWN_CHARS] for one in self.cells)}"
        if len(self.sights) > 1:
            yield f"the evidence starts {self.starts} times and does not see the same devices and cores"
        if self.after_end:
            yield f"the evidence goes on after its end, with {self.after_end[:_SHOWN_CHARS]!r}"
