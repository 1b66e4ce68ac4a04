"""Standard output that cannot change a verdict: a reader that went away or a full disk behind it is no result."""

from __future__ import annotations

import errno
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
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


def host_error(error: OSError, out: Path | None, cache: Path) -> str:
    """One line on a fault of this host: where, what, and what to do. ``out`` is where run folders go, if anywhere.

    A write or close that fails does not say which file it was: then those folders are named whose disk has no room.
    """
    what = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.filename or 'this host'}: {what}"
    import tempfile  # these two are needed by few, and --help should be quick

    folders = (*([out] if out else []), cache, Path(tempfile.gettempdir()))
    full = [path for path in folders if _free(path) < _ROOM] or folders
    where = error.filename or " or ".join(map(str, full))
    return f"{where}: {what}: free some, or choose other folders (--out, VLLM_MATRIX_CACHE, TMPDIR)"


_ROOM = 1 << 20
"""Bytes free below which a disk is taken for full: a file may fail to fit where a few blocks are left."""


def _free(path: Path) -> float:
    import shutil

    for place in (path, *path.resolve().parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return math.inf


def width() -> int:
    """Columns to write for."""
    import shutil

    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


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
