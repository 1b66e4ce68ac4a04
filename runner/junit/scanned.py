"""What one pass over a report learned: the values between the parser's handler and the report made of them."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from runner.junit.text import count


class Kept(NamedTuple):
    """A testcase element kept whole; ``code`` is one of :mod:`runner.junit.words`."""

    name: str
    classname: str
    file: str
    suite: str
    time_s: float | None
    code: int
    attempts: int
    messages: tuple[str, ...]


class Suite:
    """A suite element while it is open, and what its header promises against what it holds.

    ``direct``: testcases right under it. From nested suites too, once they are closed: ``cases``; ``more``, results
    beyond the first in one testcase (a failed subtest, a try of a rerun); ``bad``, results that are no pass or skip;
    ``promised`` and ``lost``, tests by the headers and those of them that are not there.
    """

    __slots__ = ("bad", "cases", "claimed", "direct", "lost", "more", "number", "path", "promised", "tests")

    def __init__(self, number: int, path: str, attrs: dict[str, str]) -> None:
        self.number, self.path = number, path
        self.tests = count(attrs.get("tests"))
        self.claimed = (count(attrs.get("failures")) or 0) + (count(attrs.get("errors")) or 0)
        self.direct = self.cases = self.more = self.bad = self.lost = self.promised = 0


class Scan:
    """All that one pass learned. ``keys`` holds ``hash << 3 | code`` of each element, in order."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self.counts = [0] * 8
        self.kept: dict[int, Kept] = {}
        self.kept_bad = 0
        self.seconds = 0.0
        self.untimed = 0
        self.odd_time = ""
        self.root = Suite(0, "", {})
        self.subtests = False
        self.remarks: list[str] = []

    def partial(self) -> str:
        """What was read until something went wrong."""
        names = ("passed", "skipped", "xfailed", "flaky", "error", "failed", "error", "crashed")
        words_ = [f"{n} {name}" for n, name in zip(self.counts, names, strict=True) if n]
        return f"read until there: {', '.join(words_) or 'no test'}"
