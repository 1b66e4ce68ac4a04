"""Text of others made safe to show: control characters, width in columns, cutting and wrapping with a mark."""

from __future__ import annotations

import math
import re
import unicodedata

MARK = "…"

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, hyperlinks (ECMA-48 8.3.89)
    r"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"  # DCS, SOS, PM, APC strings
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI as one C1 character
    r"|\x1b[ -/]*[0-~]?"  # two-character sequences
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the block "Control Pictures"
    return "\u2421" if code == 0x7F else "\ufffd"


def clean_block(text: str) -> str:
    """Text of several lines without escape sequences and redrawn lines; other hidden characters become visible.

    Direction overrides, zero-width characters and lone surrogates count as hidden: they make text read otherwise
    than it is, or cannot be written as UTF-8.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").expandtabs(4)
    if "\r" in text:  # a progress bar: what stood there last is what a person saw
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _HIDDEN.sub(_visible, text)


def clean(text: str) -> str:
    """One line: as :func:`clean_block`, with every run of white space as one space."""
    if (
        text.isprintable() and "  " not in text
    ):  # nearly all: no control, format or separator character but the space
        return text.strip()
    return " ".join(clean_block(text).split())


def columns(text: str) -> int:
    """Width of a text in terminal columns: wide East Asian characters count 2, combining ones 0."""
    if text.isascii():
        return len(text)
    return sum(map(_char_columns, text))


def _char_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad(text: str, width: int) -> str:
    """A text filled with spaces up to a width in columns."""
    return text + " " * (width - columns(text))


def cut(text: str, width: int) -> str:
    """A text of at most ``width`` columns; what is cut ends with a mark."""
    used, fits = 0, 0
    for at, char in enumerate(text):  # reads no further than the cut: texts of tests may be long
        used += 1 if char.isascii() else _char_columns(char)
        if used <= width - 1:
            fits = at + 1
        elif used > width:
            return text[:fits].rstrip() + MARK
    return text


def cut_lines(text: str, *, lines: int, chars: int) -> str:
    """The first lines of a text, at most ``chars`` characters in all; the mark says how much is missing."""
    kept = "\n".join(text.split("\n")[:lines])[:chars]
    rest = len(text) - len(kept)
    return kept if rest <= 0 else f"{kept}\n{MARK} {count(rest, 'character')} more"


def wrap(text: str, width: int, *, lines: int = 0) -> list[str]:
    """Lines of at most ``width`` columns, broken at spaces (inside a word only where it is longer than a line).

    ``lines`` bounds their number; the last one then ends with a mark.
    """
    out: list[str] = []
    line = ""
    for whole in text.split():
        word = whole
        if line and columns(line) + 1 + columns(word) <= width:
            line += " " + word
            continue
        if line:
            out.append(line)
        while columns(word) > width:
            head = cut(word, width + 1).removesuffix(MARK)
            out.append(head)
            word = word[len(head) :]
        line = word
    if line or not out:
        out.append(line)
    if lines and len(out) > lines:
        out = [*out[: lines - 1], cut(out[lines - 1] + " " * width + MARK, width)]
    return out


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 cell``, ``3,000 cells``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def seconds(value: float) -> str:
    """A duration for a person: ``0.4 s``, ``41 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if not math.isfinite(value):
        return "? s"
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def short_seconds(value: float) -> str:
    """A duration where room is scarce, at most five characters below four days: ``41s``, ``3m05s``, ``2h10m``."""
    if not math.isfinite(value):
        return "?s"
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def short_digest(digest: str) -> str:
    """A digest by its first twelve digits, as engines print it: ``sha256:0123456789ab``."""
    kind, colon, value = digest.rpartition(":")
    return f"{kind}{colon}{value[:12]}"
