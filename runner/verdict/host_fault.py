"""What one kind of host fault means: who is at fault, and where another try may help."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from runner.model import Culprit, Fault


class Retry(StrEnum):
    """What a retry may do about a fault. ``OTHER_HOST`` is another device of this host too, where the host is not closed."""

    NO = "no"
    SAME_HOST = "same_host"
    LATER = "later"
    OTHER_HOST = "other_host"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFault:
    """What an error text means. ``culprit`` is HOST for infrastructure, CONFIG for what a file asks, TEST for our bug.

    ``retry`` says where another try may help: at once on this host, there later with growing pauses, or elsewhere.
    ``closes_host``: no further cell that needs the same thing should be started on this host.
    """

    name: str
    culprit: Culprit
    fault: Fault | None
    retry: Retry
    hint: str
    closes_host: bool = False

    @property
    def retry_same_host(self) -> bool:
        """Whether trying again on the same host, now or later, can help, also with the same device."""
        return self.retry in {Retry.SAME_HOST, Retry.LATER}

    @property
    def retry_here(self) -> bool:
        """Whether trying again on the same host can help, be it with another device alone."""
        return self.retry_same_host or (self.lasts and not self.closes_host)

    @property
    def lasts(self) -> bool:
        """Whether the device on which it was seen would fail the next cell as well."""
        return self.fault is Fault.DEVICE and self.retry is Retry.OTHER_HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One row: the words, what they mean, whether they also count in a cell's log, and who has seen them."""

    pattern: re.Pattern[str]
    meaning: HostFault
    source: str
    in_log: bool = False


def row(  # noqa: PLR0913 - one table row, all by keyword but the pattern
    pattern: str,
    *,
    name: str,
    fault: Fault | None,
    retry: Retry,
    hint: str,
    source: str,
    culprit: Culprit = Culprit.HOST,
    closes_host: bool = False,
    in_log: bool = False,
) -> FaultRow:
    """One row of the table."""
    meaning = HostFault(
        name=name, culprit=culprit, fault=fault, retry=retry, hint=hint, closes_host=closes_host
    )
    return FaultRow(pattern=re.compile(pattern, re.IGNORECASE), meaning=meaning, source=source, in_log=in_log)
