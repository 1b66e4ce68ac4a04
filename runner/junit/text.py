"""Text from a report, made safe to show and to write: pure functions on strings and on time values."""

from __future__ import annotations

import re

# Escape sequences of terminals (ECMA-48: CSI and OSC). Whole ones are dropped; a lone ESC becomes visible.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# XML 1.0 section 2.2, "Char": everything outside of it, as characters and as character references.
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REFERENCE = re.compile(r"&#(?:x([0-9A-Fa-f]{1,16})|([0-9]{1,16}));")
REPLACEMENT = "\ufffd"

_THOUSANDS = re.compile(r"\s*[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]*\s*")
_LONGEST_S = 1e9
_NUMBER = re.compile(r"\s*\+?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE]\+?[0-9]{1,2})?\s*", re.ASCII)
_MOST = 1e9


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else REPLACEMENT


def clean(text: str) -> str:
    """Make text safe for XML, HTML, Markdown and terminals.

    Terminal sequences are dropped, other control characters become their picture (NUL becomes U+2400, ESC U+241B),
    C1 controls, lone surrogates and what XML cannot hold become U+FFFD; line ends become a line feed.
    """
    if text.isprintable():
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return _CONTROL.sub(_visible, text)


def cut(text: str, limit: int, size: int | None = None) -> str:
    """Keep the beginning and the end (where assertion text stands) and say the full size, in characters."""
    size = len(text) if size is None else size
    if size <= limit:
        return text
    head = limit // 3
    return f"{text[:head]}\n[... cut: {size:,} characters in all ...]\n{text[head - limit :]}"


def shorten(name: str, limit: int) -> str:
    """Keep the beginning of a name, in one line, and say its full length."""
    return name if len(name) <= limit else f"{name[:limit]}... ({len(name):,} characters)"


class Keeper:
    """Collects text that arrives in pieces; holds at most about twice ``limit`` characters of it."""

    __slots__ = ("_head", "_limit", "_size", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = self._tail = ""
        self._size = 0

    def add(self, piece: str) -> None:
        """Take one piece."""
        self._size += len(piece)
        room = self._limit - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail = (self._tail + piece)[-self._limit :]

    def value(self) -> str:
        """The text, cut with a mark where it was too long."""
        return cut(self._head + self._tail, self._limit, self._size)


def seconds(text: str | None) -> float | None:
    """A time attribute in seconds; None where it is missing or no plain non-negative number.

    A comma is read only as what groups thousands before a decimal point, as Surefire writes it ("1,234.56"):
    "1,5" and "1,234" may be a decimal comma, so they are unknown. NaN, infinities and clock forms are unknown.
    """
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        if not _THOUSANDS.fullmatch(text):
            return None
        value = float(text.replace(",", ""))
    return value if 0 <= value < _LONGEST_S and "_" not in text else None


def count(text: str | None) -> int | None:
    """A header count; None where it is missing or no non-negative whole number.

    Blanks around it, a plus sign, and the forms of a float that is whole (``1.0``, ``1e0``) are read.
    """
    if text is None or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return int(value) if value < _MOST and value.is_integer() else None


def no_count(text: str | None) -> bool:
    """Whether a header gives something for a count that is none: neither missing or blank, nor a count."""
    return text is not None and bool(text.strip()) and count(text) is None
