"""The state machine over expat's events: every testcase element becomes a code and a key, few are kept whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn
from xml.parsers import expat

from runner.errors import BadReport
from runner.junit import words
from runner.junit.limits import Caps
from runner.junit.scanned import Kept, Scan, Suite
from runner.junit.text import Keeper, clean, cut, seconds, shorten

_KEY_BITS = (1 << 64) - 1
_SHORT_CHARS = 200
_NOTES = 5
_HOLDS_TESTS = {"suite", "document"}
_HOLDS_TEXT = {"result", "text"}
_IDLE = {words.SKIPPED, words.XFAILED}


class Handler:
    """The state machine of element places: document, suite, case, result, and places that hold no result."""

    def __init__(self, parser: expat.XMLParserType, name: str, caps: Caps) -> None:
        self.scan = Scan()
        self._parser, self._name, self._caps = parser, name, caps
        self._places = ["document"]
        self._suites = [self.scan.root]
        self._suite_count = 0
        self._text_left = caps.text_chars
        self._keeper: Keeper | None = None
        self._messages: list[str] = []
        self._attrs: dict[str, str] = {}
        self._reset()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        parser.CharacterDataHandler = self._stray

    def detach(self) -> None:
        """Break the cycle of parser and handler, so that memory goes at once."""
        parser = self._parser
        parser.StartElementHandler = parser.EndElementHandler = None
        parser.StartDoctypeDeclHandler = parser.CharacterDataHandler = None

    def refuse(self, why: str) -> NoReturn:
        """Raise :class:`BadReport` for the place where the parser stands."""
        where = f"{self._name}:{self._parser.CurrentLineNumber}:{self._parser.CurrentColumnNumber + 1}"
        msg = f"{where}: {why}; {self.scan.partial()}"
        raise BadReport(msg)

    def mute(self) -> str:
        """Leave out the text of the element that was just opened, until it ends."""
        self._parser.CharacterDataHandler = None
        return "mute"

    def finish(self) -> Scan:
        """Close the document as if it were a suite without a header."""
        self._close_suite()
        return self.scan

    def _doctype(self, *_: object) -> None:
        self.refuse("a DOCTYPE is refused: a report needs none")

    def _stray(self, text: str) -> None:
        """Text right under a suite or testcase: every schema has elements alone there, so something is damaged."""
        if not text.isspace():
            self.refuse(f"text where only elements belong: {clean(text.strip())[:40]!r}")

    # -- elements ----------------------------------------------------------------------------------------------

    def _start(self, tag: str, attrs: dict[str, str]) -> None:
        places = self._places
        place = places[-1]
        if tag != "testcase" and ":" in tag:
            tag = tag.rpartition(":")[2]
        if tag == "testcase" and place in _HOLDS_TESTS:
            self._attrs = attrs
            places.append("case")
        elif len(places) > self._caps.depth:
            self.refuse(f"elements nested deeper than {self._caps.depth}")
        else:
            places.append(_OPEN.get(place, _inner)(self, tag, attrs))

    def _end(self, _tag: str) -> None:
        places = self._places
        place = places.pop()
        if place == "case":
            self._close_case()
        elif place == "suite":
            self._close_suite()
        elif place == "result":
            self._close_result()
            if places[-1] != "case":
                self._close_case()
        elif place == "mute" and places[-1] != "mute":
            listener: Callable[[str], object] = self._stray
            if places[-1] in _HOLDS_TEXT:
                listener = self._keeper.add if self._keeper is not None else _ignore
            self._parser.CharacterDataHandler = listener

    def in_document(self, tag: str, attrs: dict[str, str]) -> str:
        """The root element, other than a testcase."""
        if tag not in {"testsuites", "testsuite"}:
            self.refuse(f"the root element <{clean(tag)[:40]}> is not JUnit")
        return self.in_suite(tag, attrs)

    def in_suite(self, tag: str, attrs: dict[str, str]) -> str:
        """An element under a suite, other than a testcase. A result there is a test of its own."""
        if tag in {"testsuite", "testsuites"}:
            parent = self._suites[-1].path
            label = clean(attrs.get("name", "")) if tag == "testsuite" else ""
            path = shorten(
                f"{parent} / {label}" if parent and label else parent or label, self._caps.name_chars
            )
            self._suite_count += 1
            self._suites.append(Suite(self._suite_count, path, attrs))
            return "suite"
        if tag in {"failure", "error"}:
            self._attrs = {"name": words.SUITE_ITSELF}
            return self.in_case(tag, attrs)
        if tag not in words.HARMLESS and tag != "skipped":
            self.refuse(f"the element <{clean(tag)[:40]}> under a suite is not known")
        return self.mute()

    def in_case(self, tag: str, attrs: dict[str, str]) -> str:
        """A child of a testcase."""
        if tag in words.HARMLESS:
            return self.mute()
        code = words.FINAL.get(tag)
        if code is None and tag in words.TRIES:
            code = words.TRIES[tag]
            self._tries += 1
        head = attrs.get("message", "").strip()
        if code is None:
            if tag in words.STRUCTURE:
                self.refuse(f"<{tag}> inside a testcase")
            code = words.ERROR
            head = f"element <{clean(tag)[:40]}> is not known, so the test does not count as passed"
        elif code == words.SKIPPED and attrs.get("type") == words.XFAIL:
            code = words.XFAILED
        elif code == words.ERROR and words.CRASH.search(head):
            code, head = words.CRASHED, "worker crash: " + head
        elif code == words.ERROR and words.AT_TEARDOWN.search(head):
            code = words.TEARDOWN
        if code >= words.FLAKY:
            self._units += 1
            if words.SUBTESTS.match(head):
                self.scan.subtests = True
        self._seen |= 1 << code
        self._parser.CharacterDataHandler = None
        if self._room(code):
            limit = self._limit()
            self._head = cut(head or attrs.get("type", ""), limit // 2)
            self._keeper = Keeper(limit - min(len(self._head), limit // 2))
            self._parser.CharacterDataHandler = self._keeper.add
        return "result"

    def _room(self, code: int) -> bool:
        caps, scan_ = self._caps, self.scan
        wanted = len(scan_.keys) < caps.kept_all or (code >= words.FLAKY and scan_.kept_bad < caps.kept_bad)
        if not wanted:
            return False
        if len(self._messages) < caps.messages:
            return True
        self._more += 1
        return False

    def _limit(self) -> int:
        limit = self._caps.message_chars
        return limit if self._text_left > 0 else min(_SHORT_CHARS, limit)

    # -- ends --------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        """Be ready for the next testcase; one without children leaves nothing behind."""
        self._seen = self._tries = self._units = self._more = 0
        self._messages = []
        self._keeper = None
        self._head = ""

    def _close_result(self) -> None:
        self._parser.CharacterDataHandler = self._stray
        keeper = self._keeper
        if keeper is None:
            return
        self._keeper = None
        text, head = keeper.value().strip(), self._head
        if not text or text == head:
            text = head
        elif head and not text.startswith(head):
            text = f"{head}\n{text}"
        text = clean(text)
        self._text_left -= len(text)
        if text:
            self._messages.append(text)

    def _close_case(self) -> None:
        scan_, attrs, suite = self.scan, self._attrs, self._suites[-1]
        code = words.PASSED
        if self._seen or not words.SAYS.isdisjoint(attrs):
            code, note = words.result(self._seen, attrs)
            if note and not self._messages:
                self._messages.append(clean(note))
        time_s = seconds(attrs.get("time"))
        if time_s is None:
            scan_.untimed += 1
            scan_.odd_time = scan_.odd_time or clean(attrs.get("time", ""))[:40]
        else:
            scan_.seconds += time_s
        keys = scan_.keys
        index = len(keys)
        if index >= self._caps.cases:
            self.refuse(f"more than {self._caps.cases:,} tests")
        name = attrs.get("name")
        identity = (suite.number, attrs.get("file"), attrs.get("classname"), name or index)
        keys.append((hash(identity) << 3 & _KEY_BITS) | code)
        scan_.counts[code] += 1
        suite.direct += 1
        suite.idle += code in _IDLE
        bad = code >= words.FLAKY
        if bad:
            suite.bad += self._units or 1
        if self._units > 1:
            suite.more += self._units - 1
        if index < self._caps.kept_all or (bad and scan_.kept_bad < self._caps.kept_bad):
            scan_.kept_bad += bad
            scan_.kept[index] = self._keep(code, time_s, suite.path, name or f"{words.NO_NAME} {index + 1}")
        if self._seen or self._messages:
            self._reset()

    def _keep(self, code: int, time_s: float | None, path: str, name: str) -> Kept:
        attrs, limit = self._attrs, self._caps.name_chars
        if self._more:
            self._messages.append(f"[... {self._more} more messages ...]")
        if code >= words.FLAKY and not self._messages:
            self._messages.append("failed without a message")
        return Kept(
            shorten(clean(name), limit),
            shorten(clean(attrs.get("classname", "")), limit),
            shorten(clean(attrs.get("file", "")), limit),
            path,
            time_s,
            code,
            1 + self._tries,
            tuple(self._messages),
        )

    def _close_suite(self) -> None:
        suite = self._suites.pop()
        suite.cases += suite.direct
        if doubt := suite.doubt():
            self.refuse(clean(doubt))
        if suite.tests is None:
            suite.promised += suite.direct
        else:
            suite.promised = max(suite.tests, suite.promised)
            suite.lost = max(suite.lost, suite.tests - suite.cases - suite.more)
        if suite.claimed > suite.bad:
            note = f"the header says {suite.claimed} failed or broken, the file shows {suite.bad}"
            if note not in self.scan.remarks and len(self.scan.remarks) < _NOTES:
                self.scan.remarks.append(note)
        if self._suites:
            outer = self._suites[-1]
            for field in ("cases", "more", "bad", "idle", "lost", "promised"):
                setattr(outer, field, getattr(outer, field) + getattr(suite, field))


def _ignore(_text: str) -> None:
    """For text of results that are not kept."""


def _inner(handler: Handler, tag: str, _attrs: dict[str, str]) -> str:
    """An element where no result may stand."""
    if tag in words.STRUCTURE:
        handler.refuse(f"<{tag}> stands where no test or result can")
    return "mute"


def _in_result(handler: Handler, tag: str, attrs: dict[str, str]) -> str:
    """Under a result: a stack trace is part of its text, captured output is not."""
    _inner(handler, tag, attrs)
    return handler.mute() if tag in words.SILENT else "text"


_OPEN: dict[str, Callable[[Handler, str, dict[str, str]], str]] = {
    "document": Handler.in_document,
    "suite": Handler.in_suite,
    "case": Handler.in_case,
    "result": _in_result,
    "text": _in_result,
}
