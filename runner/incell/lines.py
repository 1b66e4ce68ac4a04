"""An append-only file of JSON lines that a SIGKILL cannot tear: O_APPEND and one write call a line."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Lines:
    """Appends JSON objects to `path`, each stamped with `t` (unix seconds). Never raises.

    A folder that cannot be written is said once on stderr; the session goes on without the file, and the runner sees
    that it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._lock = threading.Lock()
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        sys.stderr.write(f"incell: cannot write {self._path}: {error.strerror or error}\n")

    def append(self, event: str, fields: dict[str, Any]) -> None:
        """Writes one line; a value JSON does not know becomes its text."""
        if self._fd is None:
            return
        line = json.dumps({"t": round(time.time(), 3), "event": event, **fields}, default=str) + "\n"
        with self._lock:
            try:
                os.write(self._fd, line.encode("utf-8"))
            except OSError as error:
                self._complain(error)
                self._fd = None

    def close(self) -> None:
        """Closes the file; later lines are dropped."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
