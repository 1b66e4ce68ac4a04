"""An index over run folders (SQLite): results of a cell over runs without reading every folder again.

It holds nothing that the folders do not: where it is missing, damaged or of another version it is made anew. Rows come
from the caller (:class:`runner.records.Seen`); a folder is read again when its stamp changed, dropped when it is gone.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Self

from runner.records import Seen

NAME = "history.sqlite"
VERSION = 1
"""Of the schema (``user_version``). Another one is thrown away and made anew."""

_COLUMNS = tuple(field.name for field in fields(Seen))
_SCHEMA = f"""
create table folders (name text primary key, stamp text not null);
create table seen (folder text not null, cell text not null, {", ".join(_COLUMNS)}, primary key (folder, cell));
create index seen_cell on seen (cell, started_at);
"""


def folders(parent: Path) -> Iterator[tuple[Path, str]]:
    """Run folders below a folder, each with a stamp that changes when its content may have: empty while unfinished."""
    for path in sorted(parent.iterdir()):
        if not (path / "plan.json").is_file():
            continue
        try:
            whole = (path / "run.json").stat()
        except FileNotFoundError:
            yield path, ""
        else:
            yield path, f"{whole.st_mtime_ns} {whole.st_size}"


class Index:
    """The index of one folder of runs; a context manager. In memory where the folder cannot be written."""

    def __init__(self, parent: Path) -> None:
        self._file = parent / NAME
        self._base = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()

    def stamps(self) -> Mapping[str, str]:
        """Folder names known, with the stamp each had when it was read."""
        return dict(self._base.execute("select name, stamp from folders"))

    def put(self, folder: str, stamp: str, rows: Iterable[tuple[str, Seen]]) -> None:
        """Replace what is known of a folder by (cell id, result) rows."""
        marks = ", ".join("?" * (2 + len(_COLUMNS)))
        with self._base:
            self._forget(folder)
            self._base.execute("insert into folders values (?, ?)", (folder, stamp))
            self._base.executemany(
                f"insert or ignore into seen values ({marks})",  # noqa: S608 (question marks only)
                ((folder, cell, *(getattr(one, name) for name in _COLUMNS)) for cell, one in rows),
            )

    def drop(self, folder: str) -> None:
        """Forget a folder that is gone."""
        with self._base:
            self._forget(folder)

    def seen(self, cell: str) -> tuple[Seen, ...]:
        """Every result of a cell, in time order."""
        columns = ", ".join(_COLUMNS)
        found = self._base.execute(
            f"select {columns} from seen where cell = ? order by started_at, run_id",  # noqa: S608 (our names only)
            (cell,),
        )
        return tuple(Seen(**dict(zip(_COLUMNS, row, strict=True))) for row in found)

    def cells(self) -> tuple[str, ...]:
        """Ids of all cells that any run planned."""
        return tuple(cell for (cell,) in self._base.execute("select distinct cell from seen order by cell"))

    def _forget(self, folder: str) -> None:
        self._base.execute("delete from seen where folder = ?", (folder,))
        self._base.execute("delete from folders where name = ?", (folder,))

    def _open(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                return _ready(self._file)
            except (
                sqlite3.OperationalError
            ):  # the folder cannot be written, or another process holds it for long
                break
            except sqlite3.DatabaseError:  # damaged, or of another version
                with contextlib.suppress(OSError):
                    self._file.unlink()
        return _ready(":memory:")


def _ready(path: Path | str) -> sqlite3.Connection:
    """The index with its tables; two processes may make it at once. Raises sqlite3.DatabaseError for what is no index."""
    base = sqlite3.connect(path, timeout=30)
    try:
        if _version(base) == 0:
            base.execute("begin immediate")
            if _version(base) == 0:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    base.execute(statement)
                base.execute(f"pragma user_version = {VERSION}")
            base.commit()
        known = _version(base) == VERSION
    except sqlite3.DatabaseError:
        base.close()
        raise
    if not known:
        base.close()
        msg = f"history index of another version than {VERSION}"
        raise sqlite3.DatabaseError(msg)
    return base


def _version(base: sqlite3.Connection) -> int:
    return int(base.execute("pragma user_version").fetchone()[0])
