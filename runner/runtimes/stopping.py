"""How a cell is asked to end, the same for every runtime: its stop signal, a grace, SIGKILL, a look that it is gone."""

from __future__ import annotations

from typing import Final

from runner.model import Stop

TICK_S: Final = 0.5
"""How often the watch is asked, seconds."""
KILL_S: Final = 5.0
"""How long after SIGKILL a cell may take to end, seconds."""
CANCEL_GRACE_S: Final = 4.0
"""The grace where a person or a CI waits, seconds: a CI kills the runner 10 s after its first signal (Buildkite)."""


def grace(stop: Stop, wanted_s: float) -> float:
    """How long a cell may take to end by itself, seconds."""
    return min(wanted_s, CANCEL_GRACE_S) if stop is Stop.CANCELLED else wanted_s
