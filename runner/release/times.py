"""When a run was: told by its attempts, whose records are hashed, and not by the two times of ``run.json`` alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from runner.records import Attempt, Run

SLACK = timedelta(minutes=2)
"""By how much two times of one host may contradict each other: its clock may be set while a run goes on."""
FAR = timedelta(days=1)
"""Longest time from the end of the last attempt to that of the run: later cells may fail in a long preparation."""


def moment(text: str) -> datetime | None:
    """A time of a record; None where it is none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def ended(attempt: Attempt) -> datetime | None:
    """When an attempt ended: its start, the wait for its devices and what it took. None where it does not say."""
    begun = moment(attempt.started_at)
    seconds = attempt.phases.get("prepare", 0.0) + (attempt.exit.duration_s if attempt.exit else 0.0)
    try:
        return begun + timedelta(seconds=seconds) if begun else None
    except (ValueError, OverflowError):
        return None


def last_end(run: Run) -> datetime | None:
    """When the last attempt of a run ended; None without one."""
    found = (ended(attempt) for record in run.records for attempt in record.attempts)
    return max((each for each in found if each), default=None)


def differences(run: Run) -> Iterator[str]:
    """How the times of a finished run contradict those of its attempts, a line each."""
    first, last = moment(run.started_at), moment(run.ended_at)
    if first is None or last is None:
        yield f"run.json: it does not say when the run {'began' if first is None else 'ended'}"
        return
    if last < first - SLACK:
        yield f"run.json: the run ended at {run.ended_at}, before it began at {run.started_at}"
    for record in run.records:
        for attempt in record.attempts:
            begun, over = moment(attempt.started_at), ended(attempt)
            name = f"cells/{record.cell.slug}/cell.json: attempt {attempt.number}"
            if begun is None or over is None:
                yield f"{name} does not say when it ran"
            elif begun < first - SLACK:
                yield f"{name} began at {attempt.started_at}, before the run did at {run.started_at}"
            elif over > last + SLACK:
                yield f"{name} ended at {over.isoformat(timespec='seconds')}, after the run did at {run.ended_at}"
    over = last_end(run)
    if over is not None and last > over + FAR:
        told = over.isoformat(timespec="seconds")
        yield f"run.json: the run ended at {run.ended_at}, long after its last attempt did at {told}"
