"""Standard output that cannot change a verdict: a reader that went away or a full disk behind it is no result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO


class Outlet:
    """A text stream that drops what nobody can read. Everything else is the stream's own.

    After the first failed write nothing is written any more; one line on standard error says why, unless the reader
    simply left (a pipe into ``head``).
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._gone = False

    def write(self, text: str) -> int:
        """Write, or drop."""
        self._guarded(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        self._guarded(self._stream.flush)

    def _guarded(self, act: Callable[[], object]) -> None:
        if self._gone:
            return
        try:
            act()
        except OSError as error:
            self._gone = True
            # What the stream still holds must not fail again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if not isinstance(error, BrokenPipeError):
                print(f"standard output cannot be written: {error.strerror}", file=sys.stderr)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def install() -> None:
    """Make standard output an :class:`Outlet`. A closed one becomes the null device; characters it lacks become ``?``."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the program
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    sys.stdout = Outlet(sys.stdout)


def plain() -> bool:
    """Whether standard output lacks the signs of the grid, so that ASCII ones are shown."""
    try:
        "✓─".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False
