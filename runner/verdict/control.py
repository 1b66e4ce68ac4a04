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
    bounds = {name: _finite(event.get(name)) for name in _BOUNDS}
    known = {name: bound for name, bound in bounds.items() if bound is not None}
    if not isinstance(of, str) or not of or len(known) < len(bounds):
        return None
    if not isinstance(top, list) or not 0 < len(top) <= MOST_TEXTS:
        return None
    read = tuple(map(_position, top))
    if any(position is None for position in read):
        return None
    return Control(of=of, top=tuple(filter(None, read)), **known)


def _position(value: object) -> tuple[tuple[int, float], ...] | None:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_TOKENS:
        return None
    pairs = [one for one in value if isinstance(one, list) and len(one) == 2]
    read = [(token, _finite(p)) for token, p in pairs if type(token) is int]
    good = [(token, p) for token, p in read if p is not None]
    return tuple(good) if len(good) == len(value) == len(dict(good)) else None


def _finite(value: object) -> float | None:
    """A number as a float; None for anything else, and for one that no float can hold."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
