"""The ``agreement`` events of a cell: the worst of its comparisons with a reference, and what no comparison can say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_PAIRS = (("max_abs_diff", "bound"), ("mean_abs_diff", "mean_bound"))
_SHOWN_CHARS, _MOST = 40, 5


@dataclass(slots=True)
class Comparisons:
    """Of several comparisons, and of the largest and the mean difference of one, the worst against its bound counts.

    A difference that is not a number is the worst. One that is a text or below zero is no difference: a conflict, so
    that it is neither a pass nor the product's fault. So is a comparison that says "no" although its numbers fit, and a
    bound that is no number.
    """

    equal: bool | None = None
    difference: float | None = None
    bound: float | None = None
    conflicts: dict[str, None] = field(default_factory=dict)
    _excess: float | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        equal, agrees = self._yes_or_no(event, "tokens_equal"), self._yes_or_no(event, "agrees")
        if equal is not None:
            self.equal = equal and self.equal is not False
        beyond = False
        for name, bound_name in _PAIRS:
            difference, bound = self._number(event, name), self._number(event, bound_name)
            if difference is None or (name != "max_abs_diff" and bound is None):
                continue
            excess = difference - bound if bound is not None else -math.inf
            if math.isnan(excess) or math.isnan(difference):
                excess = math.inf
            beyond = beyond or excess > 0
            # The mean is told only where it is beyond its bound and the largest difference is not.
            if self._excess is None or (
                excess > self._excess if name == "max_abs_diff" else excess > 0 >= self._excess
            ):
                self._excess, self.difference, self.bound = excess, difference, bound
        if agrees is False and not beyond:
            self._conflict("a comparison says that the answers do not agree, although its numbers fit")

    def _number(self, event: Mapping[str, Any], name: str) -> float | None:
        value = event.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            self._conflict(f"a comparison gives {name} as {str(value)[:_SHOWN_CHARS]!r}, which cannot be")
            return None
        if name.endswith("bound") and not math.isfinite(value):
            self._conflict(f"a comparison gives {name} as {value}: that is no bound")
            return None
        return float(value)

    def _yes_or_no(self, event: Mapping[str, Any], name: str) -> bool | None:
        value = event.get(name)
        if value is None or isinstance(value, bool):
            return value
        self._conflict(
            f"a comparison gives {name} as {str(value)[:_SHOWN_CHARS]!r}, which is neither yes nor no"
        )
        return None

    def _conflict(self, text: str) -> None:
        if len(self.conflicts) < _MOST:
            self.conflicts[text] = None
