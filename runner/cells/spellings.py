"""In which spellings a secret can reach a file, and text read back from the spellings of all its writers.

Writers escape one character at a time and one after another: a report is XML of Python's repr of a text that may have
been a URL. So text is not compared with a list of spellings; its escapes are undone, however often they were applied,
and what then is there is compared. Lines are looked for one by one as well: every writer puts its own words before
each line (pytest's ``E   ``, a worker's ``(EngineCore pid=1) ``). Base64 hides escapes and is looked for as such.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

LEAST_CHARS = 4
"""A shorter value is no secret: replacing it would spoil every text that happens to hold it."""
LEAST_LINE = 8
"""A shorter line of a value with several lines is looked for only with its neighbours: it may be an ordinary word."""
MOST_BYTES = 512
"""A longer text is looked for in parts of this size: it bounds what a stream keeps back."""
_LEAST_BASE64 = 6
_WRAPS = (76, 64)
"""Characters a line of base64 by MIME (RFC 2045, and coreutils) and by PEM (RFC 7468, and openssl)."""

_ESCAPE = re.compile(
    rb"&(?:amp;)*(?:#0*(?P<ten>\d{1,7});|#[xX]0*(?P<hex>[0-9a-fA-F]{1,6});|(?P<word>quot|apos|lt|gt);)"
    rb"|(?P<amp>&)(?:amp;)+"
    rb"|%(?:25)*(?P<url>[0-9a-fA-F]{2})"
    rb"|(?P<units>(?:\\+u[0-9a-fA-F]{4})+)|\\+U00(?P<point>[0-9a-fA-F]{6})|\\+x(?P<byte>[0-9a-fA-F]{2})|\\+(?P<char>[nrtbf\"'/])"
    rb"|(?P<slash>)\\+"
)
"""Escapes of XML, URLs, JSON and Python, each with what a second writer made of its first character.

A backslash that begins none is dropped: before a character that is escaped in its turn it cannot be told from one that
does."""
_UNFINISHED = re.compile(
    rb"(?:&(?:amp;)*(?:#[xX]?[0-9a-fA-F]{0,12}|[a-z]{0,4})|%(?:25)*[0-9a-fA-F]?"
    rb"|(?:\\+u[0-9a-fA-F]{4})*\\+(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?)?|(?:\\+u[0-9a-fA-F]{4})+)\Z"
)
_MOST_UNFINISHED = 128
_MOST_WRITERS = 8
_BEGINS = (b"&", b"%", b"\\")
_WORDS = {b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">"}
_CHARS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A text to look for: as it is, and with its escapes undone. ``anchor`` is in every spelling of it."""

    forms: tuple[bytes, ...]
    anchor: bytes


class Plain:
    """Data with its escapes undone until none is left, and where each byte of it comes from."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._undone: list[_Undone] = []
        while len(self._undone) < _MOST_WRITERS and any(map(self.data.__contains__, _BEGINS)):
            undone = _Undone(self.data)
            if undone.data == self.data:
                break
            self._undone.append(undone)
            self.data = undone.data

    def start(self, at: int, writers: int = _MOST_WRITERS) -> int:
        """Where in the data that begins which stands at ``at`` here, or after the escapes of fewer ``writers``."""
        for undone in reversed(self._undone[:writers]):
            at = undone.place(at)[0]
        return at

    def open(self) -> int:
        """Where in the data the first escape begins that the end cuts, once another one is undone."""
        cuts = [self.start(_open(undone.data), index + 1) for index, undone in enumerate(self._undone)]
        return min(cuts, default=self.start(len(self.data)))

    def end(self, at: int) -> int:
        """Where in the data that ends which ends before ``at`` here."""
        for undone in reversed(self._undone):
            at = undone.place(at - 1)[1]
        return at


class _Undone:
    """Data with the escapes of one writer undone."""

    def __init__(self, data: bytes) -> None:
        parts: list[bytes] = []
        self._starts: list[int] = []
        self._tokens: list[tuple[int, int, int]] = []  # its end in the result, its start and end in the data
        at = size = 0
        for found in _ESCAPE.finditer(data):
            meant = _meant(found)
            parts += (data[at : found.start()], meant)
            size += found.start() - at
            self._starts.append(size)
            size, at = size + len(meant), found.end()
            self._tokens.append((size, found.start(), at))
        self.data = b"".join((*parts, data[at:]))

    def place(self, at: int) -> tuple[int, int]:
        """Where in the data the byte at ``at`` of the result begins and ends; the end of the result is one too."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return at, at + 1
        ends, start, end = self._tokens[index]
        return (start, end) if at < ends else (end + at - ends, end + at - ends + 1)


def unfinished(data: bytes) -> int:
    """How many bytes at the end of the data may belong to an escape that goes on, at any depth."""
    edge = len(data)
    for _ in range(_MOST_WRITERS):
        end = data[max(0, edge - _MOST_UNFINISHED) : edge]
        begun = min(_open(end), Plain(end).open())
        if begun == len(end):
            break
        edge -= len(end) - begun
    return len(data) - edge


def _open(data: bytes) -> int:
    found = _UNFINISHED.search(data)
    return found.start() if found else len(data)


def pieces(value: str) -> Iterator[Piece]:
    """What to look for to find a secret in any spelling; nothing where it is too short to be one."""
    if len(value.strip()) < LEAST_CHARS:
        return
    texts = dict.fromkeys((value.strip(), *_lines(value)))
    for text in tuple(texts):
        if "\n" in text:
            texts[re.sub("\r?\n", "\n", text)] = texts[re.sub("\r?\n", "\r\n", text)] = None
        if " " in text:  # a form's spelling of a blank: no escape says that it is one
            texts[text.replace(" ", "+")] = None
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape")
        for spelled in dict.fromkeys((raw, _narrow(text))):
            for part in _cut(spelled, LEAST_CHARS):
                yield _piece(part)
    wholes = {value, value.strip()}
    for text in dict.fromkeys((value, *texts)):
        for part in _base64(text.encode("utf-8", "surrogateescape"), whole=text in wholes):
            yield Piece(forms=(part,), anchor=_longest(part))


def _lines(value: str) -> list[str]:
    """The lines that say enough, also of a value that spells its line ends as escapes, as JSON in a variable does."""
    plain = Plain(value.encode("utf-8", "surrogateescape")).data.decode("utf-8", "surrogateescape")
    lines = (line.strip() for text in (value, plain) for line in re.split(r"[\r\n]+", text.strip()))
    return [line for line in lines if len(line) >= LEAST_LINE]


def _narrow(text: str) -> bytes:
    """The text with characters up to U+00FF as one byte: what is left of them in ``ascii()``."""
    encoded = (c.encode("latin-1" if c < "\u0100" else "utf-8", "surrogateescape") for c in text)
    return b"".join(encoded)


def _piece(text: bytes) -> Piece:
    kept = _ESCAPE.sub(b"\n", text)  # what stands between escapes is there in each spelling
    return Piece(forms=tuple(dict.fromkeys((text, Plain(text).data))), anchor=_longest(kept))


def _longest(text: bytes) -> bytes:
    return max(re.findall(rb"[A-Za-z0-9]+", text), key=len, default=b"")


def _cut(text: bytes, least: int) -> Iterator[bytes]:
    if least <= len(text) <= MOST_BYTES:
        yield text
    elif len(text) > MOST_BYTES:
        yield from (text[at : at + MOST_BYTES] for at in range(0, len(text) - MOST_BYTES, MOST_BYTES))
        yield text[-MOST_BYTES:]


def _base64(raw: bytes, *, whole: bool) -> Iterator[bytes]:
    """What base64 of any text that contains ``raw`` holds for certain, and base64 of it alone in lines.

    Of the ``whole`` value each such line counts: a writer may put its own words before them.
    """
    found: list[bytes] = []
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw)
        first = -(-before * 8 // 6)  # the first character without a bit of what stands before
        last = (before + len(raw)) * 8 // 6  # behind the last one without a bit of what follows
        found += _cut(encoded[first:last], _LEAST_BASE64)
    encoded = base64.b64encode(raw)
    for width in (each for each in _WRAPS if len(encoded) > each):
        lines = [encoded[at : at + width] for at in range(0, len(encoded), width)]
        joined = [part for end in (b"\n", b"\r\n") for part in _cut(end.join(lines), LEAST_LINE)]
        found += [line for line in lines if len(line) >= LEAST_LINE] if whole else joined
    for part in dict.fromkeys(found):
        yield part
        yield part.replace(b"+", b"-").replace(b"/", b"_")


def _meant(found: re.Match[bytes]) -> bytes:
    kind, text = found.lastgroup, found[found.lastgroup or 0]
    if kind == "ten":
        return _character(int(text))
    if kind in {"hex", "point"}:
        return _character(int(text, 16))
    if kind in {"url", "byte"}:
        return bytes((int(text, 16),))
    if kind == "units":
        units = bytes.fromhex(re.sub(rb"\\+u", b"", text).decode())
        return units.decode("utf-16-be", "replace").encode()
    return _WORDS.get(text) or _CHARS.get(text, text)


def _character(number: int) -> bytes:
    return chr(min(number, 0x10FFFF)).encode("utf-8", "replace")
