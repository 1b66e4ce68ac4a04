"""What a cell asks of its host: devices for an attempt, and where to go after one that the host failed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from runner import verdict
from runner.facts import HandOver
from runner.machine import Given
from runner.model import Outcome, PlanEntry
from runner.records import Attempt


class Held(Protocol):
    """Devices and cores that one attempt holds."""

    hand_over: HandOver
    given: Given | None
    device_ids: tuple[str, ...]
    remarks: tuple[str, ...]

    def after(self) -> tuple[str, ...]:
        """Remarks on what the cell left on its devices, once it is gone."""
        ...

    def abandon(self, handle: str) -> None:
        """Keep the devices out of use until a clean-up has removed this cell of the runtime."""
        ...


class Hosting(Protocol):
    """Gives a cell its devices for as long as one attempt runs."""

    def lease(self, entry: PlanEntry, avoid: tuple[str, ...] = ()) -> AbstractContextManager[Held]:
        """Wait for devices and hold them, those to ``avoid`` only where no others are free.

        Raises :class:`PrepareError` where there is no way to have them.
        """
        ...

    def blame(
        self, entry: PlanEntry, device_ids: tuple[str, ...], cause: str, *, lasts: bool, closes: bool
    ) -> bool:
        """Count a host fault, with its words, against the devices it happened on.

        ``lasts``: they would fail again; ``closes``: so would every cell of that platform on this host. Gives whether
        this host still has devices for the cell.
        """
        ...


def failed_on(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """The devices of the attempts that the host failed: another try goes elsewhere where it can."""
    return tuple(
        each
        for attempt in attempts
        if attempt.verdict.outcome is Outcome.INFRA
        for each in attempt.device_ids
    )


def blamed(entry: PlanEntry, attempt: Attempt, hosting: Hosting) -> bool:
    """Blame a host fault on the devices it happened on; whether another try on this host can help."""
    cause = attempt.verdict.cause
    known = verdict.classify_message(cause)
    left = hosting.blame(
        entry,
        attempt.device_ids,
        cause,
        lasts=known is not None and known.lasts,
        closes=known is not None and known.closes_host,
    )
    return left and (known is None or known.retry_here)
