"""The ``control`` event of a cell: answers by which the run compares its cells. Written by ``tests/moe/control.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runner.control import Control

MOST_TEXTS, MOST_TOKENS = 64, 20
"""More is no event of this kind: records stay small."""
_BOUNDS = ("bound", "mean_bound", "control_bound", "control_mean_bound")


def read_control(event: Mapping[str, Any]) -> Control | None:
    """The answers of an event; None where a part is missing, of a wrong type, too long or not finite."""
    of, top = event.get("of"), event.get("top")
    bounds = {name: event.get(name) for name in _BOUNDS}
    if not isinstance(of, str) or not of or not all(map(_finite, bounds.values())):
        return None
    if not isinstance(top, list) or not 0 < len(top) <= MOST_TEXTS:
        return None
    read = tuple(map(_position, top))
    if any(position is None for position in read):
        return None
    return Control(
        of=of, top=tuple(filter(None, read)), **{name: float(b) for name, b in bounds.items() if b}
    )


def _position(value: object) -> tuple[tuple[int, float], ...] | None:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_TOKENS:
        return None
    pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
    good = [(token, float(p)) for token, p in pairs if type(token) is int and _finite(p)]
    return tuple(good) if len(good) == len(value) == len(dict(good)) else None


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
