"""Whether a device may be used: judged from readings of its memory, its processes and its error counters.

Everything here is pure but :func:`settle`, which reads and sleeps through what it is given. Unknown is never clean,
and nothing here ends a process: a holder is named, and whoever owns it decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

MIB = 1 << 20

IDLE_BYTES = 512 * MIB
"""Normal idle use where no better figure is known: what the driver keeps for itself."""

SETTLE_LIMIT_S = 60.0
"""How long given-back memory may take to show as free. It counts as scheduling time, not as the cell's."""

QUERY_LIMIT_S = 10.0
"""How long one query may take before its answer is unknown."""

POLL_S = 2.0


class Condition(StrEnum):
    """What readings say of a device. ``settling``: not clean yet, and time is left."""

    CLEAN = "clean"
    SETTLING = "settling"
    DIRTY = "dirty"
    FAULTY = "faulty"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process on a device, as far as the driver and the kernel name it."""

    pid: int
    name: str = ""
    used_bytes: int | None = None

    def __str__(self) -> str:
        used = "" if self.used_bytes is None else f" with {self.used_bytes // MIB} MiB"
        return f"process {self.pid}{f' ({self.name})' if self.name else ''}{used}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at one device, ``at_s`` seconds after the first.

    ``used_bytes`` None with no ``problem``: the device does not tell. ``problem``: the driver's error, or why the
    query gave nothing; ``hung`` where it did not return, ``missing`` where there is nothing to ask with.
    """

    device: str = ""
    at_s: float = 0.0
    used_bytes: int | None = None
    total_bytes: int | None = None
    processes: tuple[Process, ...] = ()
    errors: int | None = None
    problem: str = ""
    hung: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows: use the device or not, and the words for the report."""

    condition: Condition
    usable: bool
    text: str
    after_s: float = 0.0


def decide(
    readings: Sequence[Reading], *, idle_bytes: int = IDLE_BYTES, limit_s: float = SETTLE_LIMIT_S
) -> Decision:
    """Judge a device by its readings so far, oldest first. The limit includes a reading taken exactly then."""
    last = readings[-1]
    if last.hung:
        return Decision(
            condition=Condition.UNKNOWN,
            usable=False,
            text=f"unknown after {last.at_s:g} s: the query does not return, the device is not used",
            after_s=last.at_s,
        )
    if last.missing:
        text = (
            f"unknown: {last.problem or 'nothing to ask with'}; used with a remark, CPU cells are unaffected"
        )
        return Decision(condition=Condition.UNKNOWN, usable=True, text=text)
    if last.problem:
        text = f"faulty: the driver says {last.problem!r}; the device is not used"
        return Decision(condition=Condition.FAULTY, usable=False, text=text)
    if last.used_bytes is None:
        text = "unknown: the device does not tell its used memory; used with a remark"
        return Decision(condition=Condition.UNKNOWN, usable=True, text=text)
    if last.used_bytes <= clean_bytes(idle_bytes, last.total_bytes) and last.at_s <= limit_s:
        after = f"clean after {last.at_s:g} s" if last.at_s else "clean at once"
        return Decision(condition=Condition.CLEAN, usable=True, text=after, after_s=last.at_s)
    if last.at_s < limit_s:
        text = f"settling: {_used(last)}"
        return Decision(condition=Condition.SETTLING, usable=False, text=text, after_s=last.at_s)
    text = f"dirty: {_used(last)} after {last.at_s:g} s"
    return Decision(condition=Condition.DIRTY, usable=False, text=text, after_s=last.at_s)


def clean_bytes(idle_bytes: int, total_bytes: int | None) -> int:
    """Used memory up to which a device is clean: its idle use and 1% of its memory, at least 256 MiB, above it."""
    return idle_bytes + max(256 * MIB, (total_bytes or 0) // 100)


def _used(reading: Reading) -> str:
    of = f" of {reading.total_bytes // MIB}" if reading.total_bytes else ""
    who = ", ".join(map(str, reading.processes)) or "no process that is visible"
    return f"{(reading.used_bytes or 0) // MIB}{of} MiB in use by {who}"


def settle(
    read: Callable[[], Reading],
    *,
    idle_bytes: int = IDLE_BYTES,
    limit_s: float = SETTLE_LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Decision, tuple[Reading, ...]]:
    """Wait until a device is clean, or is known not to be, for ``limit_s`` at most. ``read`` must return in time."""
    started = clock()
    readings: list[Reading] = []
    while True:
        seen = read()
        readings.append(replace(seen, at_s=clock() - started if readings or seen.hung else 0.0))
        decision = decide(readings, idle_bytes=idle_bytes, limit_s=limit_s)
        if decision.condition is not Condition.SETTLING:
            return decision, tuple(readings)
        sleep(min(POLL_S, max(0.0, limit_s - readings[-1].at_s)))


def charges(before: Reading, after: Reading) -> tuple[str, ...]:
    """What the cell that ran between two readings has to answer for; nothing is charged where nothing is known."""
    found: list[str] = []
    if before.used_bytes is not None and after.used_bytes is not None:
        left = after.used_bytes - before.used_bytes
        if left > clean_bytes(0, after.total_bytes):
            found.append(f"{after.device}: {left // MIB} MiB of device memory not given back")
    known = {process.pid for process in before.processes}
    found += [f"{after.device}: {each} is still there" for each in after.processes if each.pid not in known]
    if before.errors is not None and after.errors is not None and after.errors > before.errors:
        found.append(f"{after.device}: {after.errors - before.errors} new uncorrected memory errors")
    if after.problem and not before.problem:
        found.append(f"{after.device}: {after.problem}")
    return tuple(found)
