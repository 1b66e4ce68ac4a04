"""JUnit: every dialect read strictly and streaming, and one merged file written for a whole run.

Junitparser writes; reading is expat with this room's rules, because a report comes out of a container that ran
untrusted test code and because a reader that overlooks an element turns a failure into a pass.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from runner.facts import JUnitReport, Tally
from runner.junit.limits import CAPS, COUNT_ONLY, Caps
from runner.junit.reader import scan
from runner.junit.report import report, tally
from runner.junit.source import open_report
from runner.junit.text import clean
from runner.junit.writer import MAX_BYTES, write

__all__ = ["CAPS", "MAX_BYTES", "Caps", "clean", "read", "read_bytes", "read_many", "write"]


def read(path: Path, caps: Caps = CAPS) -> JUnitReport:
    """Read one report.

    Raises :class:`FileNotFoundError` where there is none, :class:`runner.errors.BadReport` for everything that
    cannot be read as a whole report (``truncated`` where its end is missing), with line and column. Links are
    followed: whether a path may leave a folder is for the caller.
    """
    with open_report(path, caps.file_bytes) as file:
        return report(scan(file, path.name, caps), caps)


def read_bytes(data: bytes, name: str = "junit.xml", caps: Caps = CAPS) -> JUnitReport:
    """Read one report from memory; ``name`` is what messages call it. Raises :class:`runner.errors.BadReport`."""
    return report(scan(io.BytesIO(data), name, caps), caps)


def read_many(paths: Iterable[Path]) -> Tally:
    """Totals over many reports, each folded by itself: the fast way where no single test is shown.

    Raises at the first file that is missing or bad: a total without it would hide it.
    """
    sums = [0] * len(Tally.__slots__)
    for path in paths:
        with open_report(path, COUNT_ONLY.file_bytes) as file:
            one = tally(scan(file, path.name, COUNT_ONLY))
        for index, field in enumerate(Tally.__slots__):
            sums[index] += getattr(one, field)
    return Tally(**dict(zip(Tally.__slots__, sums, strict=True)))
