"""A cell's output on disk: written as it comes, byte for byte, and bounded.

Up to the cap the file is what the cell wrote. Beyond it the first and the last half are kept, and one line between
them says how many bytes were left out. The tail lies in a ring file beside the log until the log is closed, so the
memory of the runner does not grow with a cell's output, and what is on disk survives a kill of the runner.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from runner.facts import LogFilter

_COPY = 1 << 20
_ALIGN = 64 << 10


class CappedLog:
    """Writes one log. Safe to call from a reader thread while another thread closes it: later writes are dropped."""

    def __init__(self, path: Path, cap_bytes: int, log_filter: LogFilter | None = None) -> None:
        self.path = path
        self.taken_bytes = 0
        """Bytes the cell wrote."""
        self.total_bytes = 0
        """Bytes of them that passed the filter, or all where there is none."""
        self._filter = log_filter
        self.cut_bytes = 0
        """Bytes of them that are not in the file; known after :meth:`close`."""
        self._head = max(cap_bytes, 2) // 2
        self._ring = max(cap_bytes, 2) - self._head
        self._lock = threading.Lock()
        self._closed = False
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._tail_fd: int | None = None

    @property
    def _tail_path(self) -> Path:
        return self.path.with_name(self.path.name + ".tail")

    def write(self, data: bytes | memoryview) -> None:
        """Append output. Raises :class:`OSError` where the disk does not take it."""
        with self._lock:
            if self._closed:
                return
            self.taken_bytes += len(data)
            self._write(self._filter.feed(bytes(data)) if self._filter else data)

    def _write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        if view:
            room = self._head - self.total_bytes
            if room > 0:
                _write_all(self._fd, view[:room])
                self.total_bytes += min(room, len(view))
                view = view[room:]
            if len(view):
                self._write_ring(view)

    def _write_ring(self, view: memoryview) -> None:
        if self._tail_fd is None:
            self._tail_fd = os.open(
                self._tail_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
            )
        while len(view):
            at = (self.total_bytes - self._head) % self._ring
            part = view[: self._ring - at]
            os.lseek(self._tail_fd, at, os.SEEK_SET)
            _write_all(self._tail_fd, part)
            self.total_bytes += len(part)
            view = view[len(part) :]

    def close(self) -> None:
        """Join head and tail. Later writes are dropped; closing twice does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._filter is not None:
                    self._write(self._filter.close())
                if self._tail_fd is not None:
                    self._join(self._tail_fd)
            finally:
                os.close(self._fd)
                if self._tail_fd is not None:
                    os.close(self._tail_fd)
                    self._tail_path.unlink(missing_ok=True)

    def _join(self, tail: int) -> None:
        behind_head = self.total_bytes - self._head
        lost = max(behind_head - self._ring, 0)
        start = behind_head % self._ring if lost else 0
        kept = behind_head - lost
        if lost:
            # Begin the tail at a line, unless its first line is a very long one.
            skip = self._read_ring(tail, start, min(_ALIGN, kept)).find(b"\n") + 1
            lost, kept, start = lost + skip, kept - skip, (start + skip) % self._ring
            _write_all(self._fd, memoryview(f"\n[... {lost} bytes left out here ...]\n".encode()))
            self.cut_bytes = lost
        while kept:
            piece = self._read_ring(tail, start, min(_COPY, kept))
            _write_all(self._fd, memoryview(piece))
            start, kept = (start + len(piece)) % self._ring, kept - len(piece)

    def _read_ring(self, tail: int, start: int, size: int) -> bytes:
        first = os.pread(tail, min(size, self._ring - start), start)
        return first + (os.pread(tail, size - len(first), 0) if len(first) < size else b"")


def _write_all(fd: int, view: memoryview) -> None:
    while len(view):
        view = view[os.write(fd, view) :]
