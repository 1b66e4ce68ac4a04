"""Collects the mistakes of a file, so that all of them are reported together and in the order of the file."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, field

from runner.errors import FileError, MatrixError, Mistake
from runner.expr import nearest

MAX_SHOWN = 50
"""Mistakes shown at most; the rest is counted."""
MAX_FOUND = 200
"""Mistakes after which reading stops."""

_INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs"}


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A position in the file, from 1."""

    line: int
    column: int


TOP = Mark(1, 1)


class TooMany(Exception):
    """There are so many mistakes that looking for more is of no use."""


class Unreadable(Exception):
    """A part of the file gave no value; why has been noted."""


def invisible(char: str) -> bool:
    """Whether a reader of the file cannot see this character or takes it for a plain space."""
    return char != " " and unicodedata.category(char) in _INVISIBLE


def visible(text: str, limit: int = 80) -> str:
    """A text for a message: invisible characters as ``<U+00A0>``, long texts cut."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    return "".join(f"<U+{ord(char):04X}>" if invisible(char) else char for char in cut)


def meant(name: str, names: Collection[str], *, what: str = "known") -> str:
    """The fix for an unknown name: the nearest valid one, or the list of them."""
    clean = "".join(char for char in name if not invisible(char)).strip()
    close = nearest(clean, names)
    if close:
        return f"did you mean {close}?"
    shown = sorted(names)
    return f"{what}: {', '.join(shown[:12])}{', ...' if len(shown) > 12 else ''}" if shown else ""


@dataclass(slots=True)
class Mistakes:
    """The mistakes of one file, found so far. ``noun`` says what the file is, ``error`` what is raised about it."""

    path: str
    noun: str = "matrix"
    error: type[FileError] = MatrixError
    found: dict[Mistake, None] = field(default_factory=dict)

    def add(self, mark: Mark, text: str, fix: str = "") -> None:
        """Note one mistake and go on. Raises :class:`TooMany` after the last that is wanted."""
        self.found[Mistake(self.path, mark.line, mark.column, text, fix)] = None
        if len(self.found) > MAX_FOUND:
            raise TooMany

    def about(self, prefix: str) -> bool:
        """Whether a mistake is noted in this part of the file, so that what is missing there may only be unread."""
        return any(mistake.text.startswith(prefix) for mistake in self.found)

    def refuse(self, mark: Mark, text: str, fix: str = "") -> Unreadable:
        """Note one mistake; the caller raises what this returns, to give up the part that holds it."""
        self.add(mark, text, fix)
        return Unreadable()

    def settle(self) -> None:
        """Raise the file's error with everything noted, in the order of the file, if anything was."""
        if not self.found:
            return
        ordered = sorted(self.found, key=lambda each: (each.line, each.column, each.text))
        left = len(ordered) - MAX_SHOWN
        if left > 0:
            shown = f"{left - 1} or" if len(self.found) > MAX_FOUND else str(left)
            last = ordered[MAX_SHOWN - 1]
            ordered[MAX_SHOWN:] = [
                Mistake(self.path, last.line, last.column, f"and {shown} more mistakes", "mend these first")
            ]
        raise self.error(tuple(ordered))
