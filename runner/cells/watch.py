"""When to end a cell: the limits of the matrix file, progress as the cell itself reports it, and cancellation."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from runner.interrupt import CancelToken
from runner.model import Limits, Proof, Stop

ASKED = "stopped by a person or the CI"
START = "start"
"""The phase from the start of the container to the first event of its evidence."""
IDLE_CPU_S = 0.2
"""CPU seconds that a process tree must use between two heartbeats to count as working: a sleeping engine uses less."""
MOST_CPU_S = 1e9
"""Processor seconds that no cell has spent; whoever says more is not believed."""

MOST_AT_ONCE = 1 << 20
"""Bytes of evidence that one poll reads, and of a line that is kept until its end comes."""


@dataclass(slots=True, kw_only=True)
class CellWatch:
    """A :class:`runner.facts.Watch` over one cell's log and evidence.

    Progress is growth of the log, a new evidence event that is no heartbeat, or a heartbeat that shows CPU time used.
    ``why`` says after a stop which limit was passed. After a stop it answers once more at most: to a person or a CI
    that will not wait for the grace.
    """

    limits: Limits
    proof: Proof
    log: Path
    evidence: Path
    cancel: CancelToken
    why: str = ""
    _progress_s: float = 0.0
    _log_size: int = 0
    _offset: int = 0
    _cpu_s: float = 0.0
    _ready: bool = False
    _phase: str = START
    _phase_began_s: float | None = 0.0
    _rest: bytes = field(default=b"")

    def poll(self, elapsed_s: float) -> Stop | None:
        """Read what is new since the last poll and compare clocks with limits."""
        if self.why:
            # The stop that has a cause runs its grace: a request to stop ends it, unless the stop came from one.
            hurry = self.cancel.urgent() or (self.cancel.cancelled() and self.why != ASKED)
            return Stop.CANCELLED if hurry else None
        if self.cancel.cancelled():
            self.why = ASKED
            return Stop.CANCELLED
        if self._moved(elapsed_s):
            self._progress_s = elapsed_s
        return self._passed(elapsed_s)

    def _passed(self, elapsed_s: float) -> Stop | None:
        if elapsed_s > self.limits.total_s:
            self.why = (
                f"still running after the total limit of {self.limits.total_s:g} s, in phase {self._phase}"
            )
            return Stop.TIMED_OUT
        if elapsed_s - self._progress_s > self.limits.idle_s:
            self.why = f"no progress for {self.limits.idle_s:g} s, in phase {self._phase}"
            return Stop.HUNG
        if self.proof is Proof.ENGINE and not self._ready and elapsed_s > self.limits.start_s:
            self.why = (
                f"engine not ready after the start limit of {self.limits.start_s:g} s, in phase {self._phase}"
            )
            return Stop.TIMED_OUT
        bound = self.limits.phase_s.get(self._phase)
        if bound is not None and self._phase_began_s is not None and elapsed_s - self._phase_began_s > bound:
            self.why = f"phase {self._phase} took longer than its limit of {bound:g} s"
            return Stop.TIMED_OUT
        return None

    def _moved(self, elapsed_s: float) -> bool:
        size = _size(self.log)
        moved = size != self._log_size
        self._log_size = size
        data = _read(self.evidence, self._offset)
        if data:
            self._offset += len(data)
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = (
                rest if len(rest) <= MOST_AT_ONCE else b""
            )  # the end of such a line is no event either
            for line in lines:
                moved = self._event(line, elapsed_s) or moved
        return moved

    def _event(self, line: bytes, elapsed_s: float) -> bool:
        try:
            event = json.loads(line)
            name = event.get("event")
        except (ValueError, AttributeError, RecursionError):
            return False
        if self._phase == START:
            self._phase_began_s = None  # something reports: the start is over, no phase has begun
        if name == "phase":
            self._phase = str(event.get("phase"))
            self._phase_began_s = elapsed_s if event.get("state") == "begin" else None
            # The engine answers from the end of "ready" on; whatever comes later bounds nothing but idle and total.
            self._ready = (
                self._ready
                or self._phase in {"generate", "shutdown"}
                or (self._phase == "ready" and event.get("state") == "end")
            )
        if name != "heartbeat":
            return True
        used = event.get("cpu_seconds")
        # Compared and never subtracted: NaN is no progress, and an integer may be too large for a float.
        number = isinstance(used, int | float) and not isinstance(used, bool)
        if not number or not self._cpu_s + IDLE_CPU_S <= used <= MOST_CPU_S:
            return False
        self._cpu_s = float(used)
        return True


def _read(path: Path, offset: int) -> bytes:
    """What a plain file has behind an offset. Whatever else a cell puts in its place has nothing, and stops nobody."""
    try:
        # Never through a link, never waiting for the other end of a pipe.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        plain = stat.S_ISREG(os.fstat(number).st_mode)
        return os.pread(number, MOST_AT_ONCE, offset) if plain else b""
    except OSError:
        return b""
    finally:
        os.close(number)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
