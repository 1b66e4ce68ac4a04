"""Layout, order of writing and versions of a run folder.

``plan.json`` is written first of all, ``prepared.json`` next, one ``cells/<slug>/cell.json`` as each cell ends, and
``run.json`` last. No ``run.json`` means an unfinished run: what was known is still read, and nothing is invented.
"""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from runner import codec
from runner.codec import sha256
from runner.errors import BadRunFolder, UsageError
from runner.model import Cell
from runner.records import CellRecord, Prepared, Run
from runner.runs.writing import write_atomic
from runner.version import VERSION

FORMAT = 1
"""Version of the files of a run folder. Readers refuse another one and say which they found."""

T = TypeVar("T")


def new_run_id(now: datetime) -> str:
    """Sortable by time and unique among runners that start in the same second."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class Folder:
    """One run folder, being written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: Path, run: Run) -> Folder:
        """Make ``parent/<run-id>`` and write the plan into it before anything is started."""
        path = parent / run.run_id
        (path / "cells").mkdir(parents=True)
        folder = cls(path)
        folder._write("plan.json", "plan", run)
        return folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the folder to one runner; the kernel lets go of it when that one dies, however it does.

        Raises:
            UsageError: another one is at work in it.

        """
        try:
            plan = (self.path / "plan.json").open("r+b")  # for writing: NFS gives no exclusive lock for less
        except OSError:  # no run folder, or one that cannot be written: whoever reads or writes it says so
            yield
            return
        with plan:
            try:
                fcntl.flock(plan, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                msg = f"{self.path}: a runner is at work in it; wait for its end or stop it"
                raise UsageError(msg) from error
            except OSError:  # a file system without locks
                pass
            yield

    def cell(self, cell: Cell) -> Path:
        """The folder of one cell."""
        return self.path / "cells" / cell.slug

    def write_prepared(self, prepared: Prepared) -> None:
        """Record digests, probes and failures of the preparation."""
        self._write("prepared.json", "prepared", prepared)

    def write_record(self, record: CellRecord) -> None:
        """Record a cell as soon as it has ended."""
        self.cell(record.cell).mkdir(parents=True, exist_ok=True)
        self._write(f"cells/{record.cell.slug}/cell.json", "cell", record)

    def write_run(self, run: Run) -> Run:
        """Write ``run.json`` over hashes of everything it rests on; from now on the run is finished."""
        names = [
            "plan.json",
            "prepared.json",
            *(f"cells/{record.cell.slug}/cell.json" for record in run.records),
        ]
        hashes = {name: sha256(self.path / name) for name in names if (self.path / name).exists()}
        whole = replace(run, hashes=hashes)
        self._write("run.json", "run", whole)
        return whole

    def write_report(self, name: str, text: str | bytes) -> Path:
        """Write one rendered file beside ``run.json``."""
        path = self.path / name
        write_atomic(path, text.encode("utf-8", "replace") if isinstance(text, str) else text)
        return path

    def _write(self, name: str, kind: str, value: object) -> None:
        head = json.dumps({"format": FORMAT, "kind": kind, "runner": VERSION})[:-1]
        body = codec.dumps(value).decode()
        write_atomic(self.path / name, f'{head}, "data": {body}}}\n'.encode())


def load(path: Path) -> Run:
    """Read a run folder, finished or not.

    Raises:
        BadRunFolder: no run folder, a damaged file, or another format version.

    """
    if not path.is_dir():
        msg = f"{path}: no such run folder"
        raise BadRunFolder(msg)
    if (path / "run.json").is_file():
        return _checked(path, _read(path / "run.json", Run))
    if not (path / "plan.json").is_file():
        msg = f"{path}: not a run folder: it has no plan.json"
        raise BadRunFolder(msg)
    run = _read(path / "plan.json", Run)
    prepared = _read(path / "prepared.json", Prepared) if (path / "prepared.json").is_file() else Prepared()
    records = []
    for entry in run.plan.planned():
        file = path / "cells" / entry.cell.slug / "cell.json"
        if file.is_file():
            records.append(_read(file, CellRecord))
    return replace(run, prepared=prepared, records=tuple(records), finished=False)


def _read(path: Path, kind: type[T]) -> T:
    import msgspec

    try:
        whole = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
        found = msgspec.json.decode(whole["format"])
        if found != FORMAT:
            msg = f"{path}: format {found}; this version reads format {FORMAT}"
            raise BadRunFolder(msg)
        return codec.loads(bytes(whole["data"]), kind)
    except (OSError, ValueError, KeyError) as error:
        msg = f"{path}: damaged or not written by this tool: {error}"
        raise BadRunFolder(msg) from error


def _checked(path: Path, run: Run) -> Run:
    for name, expected in run.hashes.items():
        file = path / name
        if not file.is_file() or sha256(file) != expected:
            msg = f"{file}: changed or removed after the run ended; the run cannot be trusted"
            raise BadRunFolder(msg)
    return run
