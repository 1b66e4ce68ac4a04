"""Stopping a run from outside: one token that every running cell polls, set by SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from runner.model import Stop

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ECHO_S = 1.0
"""A signal this soon after the first one is its echo and no second request, seconds: a CI signals the whole process
group, and make passes SIGTERM on to a runner that has it already (GNU make 4.3, `fatal_error_signal`)."""
LOOK_S = 0.2

T = TypeVar("T")


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


class GivenUp(Exception):
    """Work that was not waited for any longer. ``stop`` says why, ``after_s`` when."""

    def __init__(self, stop: Stop, after_s: float) -> None:
        super().__init__(f"{stop} after {after_s:.0f} s")
        self.stop = stop
        self.after_s = after_s


def unless_stopped(
    call: Callable[[], T], ask: Callable[[float], Stop | None], end: Callable[[], None], grace_s: float
) -> T:
    """Wait for a call that cannot look for itself whether it should go on, in a thread of its own.

    ``ask`` is told the seconds so far and says whether to stop; then ``end`` is called, and the call has ``grace_s``
    to end. One that does not is left alone and ends with this program.

    Raises:
        GivenUp: it was stopped. What the call itself raises passes.

    """
    done: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
            failed.append(error)

    began = time.monotonic()
    thread = threading.Thread(target=work, name="unless-stopped", daemon=True)
    thread.start()
    stop, after_s = None, 0.0
    while thread.is_alive() and stop is None:
        thread.join(LOOK_S)
        after_s = time.monotonic() - began
        stop = ask(after_s) if thread.is_alive() else None
    if stop is not None:
        end()
        thread.join(grace_s)
    if failed and stop is None:
        raise failed[0]
    if not done:
        raise GivenUp(stop or Stop.CANCELLED, after_s)
    return done[0]


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
