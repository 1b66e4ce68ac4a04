"""Stopping a run from outside: one token that every running cell polls, set by SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ECHO_S = 1.0
"""A signal this soon after the first one is its echo and no second request, seconds: a CI signals the whole process
group, and make passes SIGTERM on to a runner that has it already (GNU make 4.3, `fatal_error_signal`)."""


class CancelToken:
    """Set once; every running cell sees it at its next poll. ``signal`` is the number that the exit code names.

    A second request, by a signal that is no echo of the first, makes it urgent: cells are then not given their grace.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = threading.Event()
        self._urgent = threading.Event()
        self._clock = clock
        self._first_at = 0.0
        self.signal = 0

    def cancel(self, number: int) -> None:
        """Ask all cells to stop; asked again, to stop at once. The first signal is the one that counts."""
        if not self._event.is_set():
            self.signal, self._first_at = number, self._clock()
            self._event.set()
        elif self._clock() - self._first_at >= ECHO_S:
            self._urgent.set()

    def cancelled(self) -> bool:
        """Whether cells should stop."""
        return self._event.is_set()

    def urgent(self) -> bool:
        """Whether cells should stop without their grace."""
        return self._urgent.is_set()

    def name(self) -> str:
        """The name of that signal, such as ``SIGTERM``; empty while there was none."""
        return signal.Signals(self.signal).name if self.signal else ""


@contextlib.contextmanager
def listening(token: CancelToken) -> Iterator[None]:
    """Turn signals into :meth:`CancelToken.cancel` while the block runs (main thread only).

    No number of signals makes the runner leave before its containers are removed and the folder is written. A run that
    was stopped has nothing left to do afterwards but to say so and exit with its code: later signals are ignored.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        token.cancel(number)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if token.cancelled() else handler)
