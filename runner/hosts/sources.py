"""Where facts about a host come from: the running host, or a recorded tree of its files.

A recorded tree is a folder that holds ``proc/``, ``sys/``, ``dev/`` and ``etc/`` as far as this room reads them.
Device nodes are recorded as ordinary files. Two things that no file tells lie beside them: ``nvml.json`` (what NVML
answered, :class:`runner.hosts.nvml.Nvml`) and ``groups.json`` (numeric group of each device node).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from runner.codec import loads
from runner.hosts.children import Answer, ask
from runner.hosts.nvml import Nvml, read_nvml

CHUNK_BYTES, MAX_CHUNKS = 1 << 16, 64
"""Files are read in pieces, 4 MiB at most: the kernel refuses a large read of a file under ``/proc/sys``."""


class Source(Protocol):
    """What this room asks of a host. No method raises for something that is not there."""

    def text(self, path: str) -> str | None:
        """Content of a file, or None where it is missing or cannot be read."""
        ...

    def text_in_time(self, path: str) -> Answer:
        """The same for a file whose reading asks hardware or firmware, and may therefore never return."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """Sorted names in a folder; empty where it is missing."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file, folder or device node is there."""
        ...

    def group(self, path: str) -> int | None:
        """Numeric group of a device node."""
        ...

    def nvml(self) -> Nvml:
        """What NVML says, or why it says nothing."""
        ...


@dataclass(frozen=True, slots=True)
class LiveHost:
    """The running host. What asks hardware is asked in a child that is killed after ``query_timeout_s``."""

    query_timeout_s: float = 10.0

    def text(self, path: str) -> str | None:
        """See :class:`Source`."""
        return _read(Path(path))

    def text_in_time(self, path: str) -> Answer:
        """See :class:`Source`."""
        return (
            ask(("cat", path), self.query_timeout_s)
            if _exists(Path(path))
            else Answer(problem="no such file")
        )

    def names(self, path: str) -> tuple[str, ...]:
        """See :class:`Source`."""
        return _names(Path(path))

    def exists(self, path: str) -> bool:
        """See :class:`Source`."""
        return _exists(Path(path))

    def group(self, path: str) -> int | None:
        """See :class:`Source`."""
        try:
            return Path(path).stat().st_gid
        except OSError:
            return None

    def nvml(self) -> Nvml:
        """See :class:`Source`."""
        return read_nvml(self.query_timeout_s)


@dataclass(frozen=True, slots=True)
class RecordedHost:
    """A host as a folder of files. ``root`` stands for ``/``."""

    root: Path

    def text(self, path: str) -> str | None:
        """See :class:`Source`."""
        return _read(self._at(path))

    def text_in_time(self, path: str) -> Answer:
        """See :class:`Source`."""
        text = _read(self._at(path))
        return Answer(problem="no such file") if text is None else Answer(text=text)

    def names(self, path: str) -> tuple[str, ...]:
        """See :class:`Source`."""
        return _names(self._at(path))

    def exists(self, path: str) -> bool:
        """See :class:`Source`."""
        return _exists(self._at(path))

    def group(self, path: str) -> int | None:
        """See :class:`Source`."""
        groups = json.loads(_read(self.root / "groups.json") or "{}")
        value = groups.get(path)
        return int(value) if value is not None else None

    def nvml(self) -> Nvml:
        """See :class:`Source`. Raises :class:`ValueError` where ``nvml.json`` is damaged: a recording is ours."""
        text = _read(self.root / "nvml.json")
        return Nvml(problem="not recorded") if text is None else loads(text.encode(), Nvml)

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def _read(path: Path) -> str | None:
    try:
        with path.open("rb", buffering=0) as file:
            chunks = takewhile(bool, (file.read(CHUNK_BYTES) for _ in range(MAX_CHUNKS)))
            return b"".join(chunks).decode("utf-8", "replace")
    except OSError:
        return None


def _names(path: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(each.name for each in path.iterdir()))
    except OSError:
        return ()


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


live = LiveHost()
