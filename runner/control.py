"""What cells of one model are compared with each other by: the likeliest next tokens after fixed texts. Vocabulary, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One cell's answers, with bounds in nats for largest and mean difference.

    ``of`` names model and texts: only where it is the same do two belong together. ``top`` has, for each text, the
    likeliest next tokens with their log-probabilities. ``bound`` is for the method's own noise, ``control_bound`` for its
    distance to the unquantized model.
    """

    of: str
    bound: float
    mean_bound: float
    control_bound: float
    control_mean_bound: float
    top: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True, slots=True)
class Distance:
    """Largest and mean |log-probability difference| of two cells' answers, in nats."""

    largest: float
    mean: float


def distance(one: Control, other: Control) -> Distance | None:
    """How far two cells' answers lie apart; None where they are not of the same model and texts, or there are none."""
    if one.of != other.of or len(one.top) != len(other.top):
        return None
    found = [
        difference
        for mine, theirs in zip(one.top, other.top, strict=True)
        for near, far in ((dict(mine), dict(theirs)), (dict(theirs), dict(mine)))
        for difference in _differences(near, far)
    ]
    return Distance(max(found), sum(found) / len(found)) if found else None


def _differences(wanted: Mapping[int, float], got: Mapping[int, float]) -> Iterator[float]:
    """A token that the other does not list is at most as likely there as its last one."""
    floor = min(got.values(), default=float("-inf"))
    for token, value in wanted.items():
        yield abs(got[token] - value) if token in got else max(0.0, value - floor)
