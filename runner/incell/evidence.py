"""evidence.jsonl: what a cell proves about itself while it runs, one flushed JSON line per event.

Events and their fields (every line also has `t`, unix seconds, and `event`):
start {schema, pid, cell, sees}; phase {phase, state, seconds}; engine {...}; rank {...}; generation {prompt, tokens, logprobs};
agreement {...}; control {...}; heartbeat {cpu_seconds, phase}; shutdown {seconds, children_left, left}; end {}.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .lines import Lines  # noqa: TID252 - in a cell this package is plain `incell`
from .proctree import cpu_seconds  # noqa: TID252 - in a cell this package is plain `incell`
from .sight import look  # noqa: TID252 - in a cell this package is plain `incell`

SCHEMA = 1
PHASES = ("import", "load", "ready", "generate", "shutdown")


class Evidence:
    """Writer of one cell's evidence. Writing never raises; a folder that cannot be written is said on stderr."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)
        self._phase = "none"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, cell: dict[str, Any], every: float = 2.0) -> None:
        """Writes `start`, with what this cell sees, and begins heartbeats from a daemon thread, one each `every` seconds."""
        self._lines.append("start", {"schema": SCHEMA, "pid": os.getpid(), "cell": cell, "sees": look()})
        self._thread = threading.Thread(
            target=self._beat, args=(every,), name="evidence-heartbeat", daemon=True
        )
        self._thread.start()

    def _beat(self, every: float) -> None:
        while not self._stop.wait(every):
            self._lines.append("heartbeat", {"cpu_seconds": cpu_seconds(os.getpid()), "phase": self._phase})

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Marks a phase; `end` is written only when the block did not raise. Raises ValueError for an unknown name."""
        if name not in PHASES:
            msg = f"unknown phase {name!r}; known: {', '.join(PHASES)}"
            raise ValueError(msg)
        before, self._phase = self._phase, name
        started = time.monotonic()
        self._lines.append("phase", {"phase": name, "state": "begin", "seconds": 0.0})
        yield
        self._lines.append(
            "phase", {"phase": name, "state": "end", "seconds": round(time.monotonic() - started, 3)}
        )
        self._phase = before

    def write(self, event: str, **fields: Any) -> None:
        """Writes one event."""
        self._lines.append(event, fields)

    def end(self) -> None:
        """Stops the heartbeat and writes `end`, the sign that nothing was cut off."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._lines.append("end", {})
        self._lines.close()
