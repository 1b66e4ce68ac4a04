"""What one pass over a report learned: the values between the parser's handler and the report made of them."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from runner.junit import words
from runner.junit.text import count, no_count


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


_BELIEVED = ("failures", "failed", "errors", "tests")
_COUNTS = (*_BELIEVED, "skipped", "disabled")
_SHOWN_CHARS = 40


class Suite:
    """A suite element while it is open, and what its header promises against what it holds.

    ``direct``: testcases right under it. From nested suites too, once they are closed: ``cases``; ``more``, results
    beyond the first in one testcase (a failed subtest, a try of a rerun); ``bad``, results that are no pass or skip;
    ``idle``, tests that were skipped or expected to fail; ``promised`` and ``lost``, tests by the headers and those of
    them that are not there. By its own header: ``claimed`` failed or broken and ``rests`` skipped or disabled tests
    (GoogleTest and Ant have the second), ``failed`` as a whole, and ``odd``, the first count that is no number.
    """

    __slots__ = (
        "bad", "cases", "claimed", "direct", "failed", "idle", "lost", "more", "number", "odd", "path", "promised", "rests",
        "tests",
    )  # fmt: skip

    def __init__(self, number: int, path: str, attrs: dict[str, str]) -> None:
        self.number, self.path = number, path
        self.tests = count(attrs.get("tests"))
        told = {name: count(attrs.get(name)) or 0 for name in _COUNTS}
        ends = sum(count(attrs[name]) or 0 for name in words.ENDS if name in attrs)
        self.claimed = max(told["failures"], told["failed"]) + told["errors"] + ends
        self.failed = words.suite_failed(attrs)
        self.rests = told["skipped"] + told["disabled"]
        self.odd = next(
            (f'{name}="{attrs[name][:_SHOWN_CHARS]}"' for name in _BELIEVED if no_count(attrs.get(name))), ""
        )
        self.direct = self.cases = self.more = self.bad = self.idle = self.lost = self.promised = 0

    def doubt(self) -> str:
        """Why a suite without a failure cannot be believed, once it is closed: its header speaks of other tests."""
        ran = self.cases - self.bad - self.idle
        if self.bad:
            return ""
        if self.claimed:
            return f"the header says {self.claimed} failed or broken, but no such test stands in the file"
        if self.failed:
            return "the header says that the suite failed, but no such test stands in the file"
        if self.odd:
            return f"the header says {self.odd}, which is no count of tests"
        # Some headers count the skipped beside ``tests``: then the file shows as many.
        if ran > 0 and self.rests > self.idle and self.rests >= (self.tests or self.cases):
            return f"the header says {self.rests} skipped or disabled, but the file shows {ran} that ran"
        return ""


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
