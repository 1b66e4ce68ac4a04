"""Record a host: ``python -m runner.hosts.record FOLDER`` writes every file that this room reads, and nothing else.

The folder is a :class:`runner.hosts.sources.RecordedHost`: an inventory read from it equals the host's. It holds the
host's name, identifiers of devices and processes with device memory; look at it before you give it away.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from runner.codec import dumps
from runner.hosts.children import Answer
from runner.hosts.nvml import Nvml
from runner.hosts.offers import offer
from runner.hosts.read import inventory
from runner.hosts.readings import read_health
from runner.hosts.sources import Source, live
from runner.machine import Inventory

CDI_DIRS = ("/etc/cdi", "/var/run/cdi")


@dataclass(slots=True)
class Recorder:
    """A source that writes down all that it is asked."""

    source: Source
    root: Path
    groups: dict[str, int] = field(default_factory=dict)
    _nvml: Nvml | None = None

    def text(self, path: str) -> str | None:
        """See :class:`Source`."""
        text = self.source.text(path)
        self._write(path, text)
        return text

    def text_in_time(self, path: str) -> Answer:
        """See :class:`Source`."""
        answer = self.source.text_in_time(path)
        self._write(path, None if answer.problem else answer.text)
        return answer

    def names(self, path: str) -> tuple[str, ...]:
        """See :class:`Source`. Entries are written when they are read in turn."""
        return self.source.names(path)

    def exists(self, path: str) -> bool:
        """See :class:`Source`."""
        there = self.source.exists(path)
        if there and not self._at(path).exists():
            self._write(path, "")
        return there

    def group(self, path: str) -> int | None:
        """See :class:`Source`."""
        group = self.source.group(path)
        if group is not None:
            self.groups[path] = group
        return group

    def nvml(self) -> Nvml:
        """See :class:`Source`. Asked once, so that everything recorded rests on one answer."""
        if self._nvml is None:
            self._nvml = self.source.nvml()
            self._write("/nvml.json", dumps(self._nvml).decode())
        return self._nvml

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _write(self, path: str, text: str | None) -> None:
        if text is not None and not self._at(path).is_dir():
            self._at(path).parent.mkdir(parents=True, exist_ok=True)
            self._at(path).write_text(text, encoding="utf-8")


def record(source: Source, root: Path, environ: dict[str, str]) -> Inventory:
    """Read everything once through a recorder; the inventory is what it was."""
    recorder = Recorder(source, root)
    found = inventory(recorder, environ)
    offer(recorder, found.devices, cdi_dirs=CDI_DIRS)
    read_health(found.devices, recorder)
    (root / "groups.json").write_text(json.dumps(recorder.groups, indent=1) + "\n", encoding="utf-8")
    return found


def main(argv: list[str]) -> int:
    """Record this host into a new folder."""
    if len(argv) != 1:
        sys.stderr.write("usage: python -m runner.hosts.record FOLDER\n")
        return 2
    root = Path(argv[0])
    try:
        root.mkdir(parents=True)
    except OSError as error:
        sys.stderr.write(f"{root}: {error.strerror}: name a new folder\n")
        return 2
    found = record(live, root, dict(os.environ))
    sys.stdout.write(f"{root}: {len(found.devices)} devices recorded\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
