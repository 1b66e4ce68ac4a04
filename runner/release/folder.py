"""What a finished run rests on, hashed again: a file that was deleted, cut, emptied, renamed or added is named."""

from __future__ import annotations

import json
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from runner.codec import sha256
from runner.records import Attempt, CellRecord, Run
from runner.release import times

MAX_PROBLEMS = 100
"""Problems named; a folder with more is not worth reading on."""

_BEGUN_WITH = ("plan", "run_id", "runtime", "expect_engine", "started_at")
"""What ``plan.json`` says of the whole run, and no resumed run changes."""
_MISSING = ": missing; it was removed or renamed"
_OWN = re.compile(r"cell\.json|runner-error\.txt|\.(?:cell\.json|runner-error\.txt)\.[0-9]+\.tmp")
"""Files that the runner itself writes beside the attempts of a cell; the last are what a killed one leaves."""


def check_folder(path: Path, run: Run) -> tuple[str, ...]:
    """Problems of a run folder, each in one line that begins with the file; empty where all is as it was recorded.

    Every kept file of every attempt is hashed again, and so is all that ``run.json`` has hashes of; ``run.json`` must
    say what ``plan.json``, ``prepared.json`` and each ``cell.json`` say, so that no cell, image or probe can be dropped
    or changed in one of them alone, and its times must be those of its attempts. Whatever else lies below ``cells/`` is
    named too.
    """
    found: list[str] = []
    for problem in _problems(path, run):
        if len(found) == MAX_PROBLEMS:
            found.append(f"{path.name}: more than {MAX_PROBLEMS} files are not as recorded")
            break
        found.append(problem)
    return tuple(found)


def is_missing(problem: str) -> bool:
    """Whether a problem is that a file is gone."""
    return problem.endswith(_MISSING)


def _problems(path: Path, run: Run) -> Iterator[str]:
    if run.finished:
        yield from _hashes(path, run)
        yield from _agreement(path, run)
        yield from times.differences(run)
    yield from _records(run)
    for record in run.records:
        for attempt in record.attempts:
            yield from _attempt(path, record, attempt)
    yield from _strangers(path, run)


def _hashes(path: Path, run: Run) -> Iterator[str]:
    wanted = ["plan.json", "prepared.json", *(f"cells/{each.cell.slug}/cell.json" for each in run.records)]
    yield from (f"{name}: run.json has no hash of it" for name in wanted if name not in run.hashes)
    for name, digest in run.hashes.items():
        yield from _file(path, name, digest, {})


def _records(run: Run) -> Iterator[str]:
    planned = {entry.cell for entry in run.plan.planned()}
    counts = Counter(record.cell for record in run.records)
    yield from (f"run.json: {count} records of {cell.id}" for cell, count in counts.items() if count > 1)
    yield from (
        f"run.json: a record of {cell.id}, which was not planned" for cell in counts if cell not in planned
    )


def _attempt(path: Path, record: CellRecord, attempt: Attempt) -> Iterator[str]:
    cell = path / "cells" / record.cell.slug
    base = f"cells/{record.cell.slug}/"
    extra = [
        name
        for each in sorted((cell / f"attempt-{attempt.number}").rglob("*"))
        if not each.is_dir() and (name := each.relative_to(cell).as_posix()) not in attempt.files
    ]
    lost = {_digest(cell / name): name for name in extra}
    for name, digest in attempt.files.items():
        yield from _file(path, base + name, digest, lost)
    renamed = {lost[digest] for digest in attempt.files.values() if digest in lost}
    yield from (
        f"{base}{name}: not in the record; it was added later" for name in extra if name not in renamed
    )


def _file(path: Path, name: str, digest: str, lost: Mapping[str, str]) -> Iterator[str]:
    """``lost`` are files that no record names, by their hash: one of them may be this one under another name."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts:
        yield f"{name}: recorded with a path outside the run folder"
        return
    file = path / name
    try:
        info = file.lstat()
    except OSError:
        yield (f"{name}: renamed to {lost[digest]}" if digest in lost else f"{name}{_MISSING}")
        return
    if not stat.S_ISREG(info.st_mode):
        yield f"{name}: no plain file any more"
    elif _digest(file) != digest:
        yield f"{name}: {_how(file, info.st_size)}"


def _how(file: Path, size: int) -> str:
    """In which way a file is not what it was, as far as its end tells."""
    if not size:
        return "empty now; it was not when it was recorded"
    with file.open("rb") as stream:
        head = stream.read(200)
        stream.seek(max(0, size - 200))
        tail = stream.read()
    cut = {
        ".xml": head.lstrip().startswith(b"<")
        and not tail.rstrip().endswith((b"</testsuites>", b"</testsuite>")),
        ".json": not tail.rstrip().endswith((b"}", b"]")),
        ".jsonl": not tail.endswith(b"\n"),
    }
    return "truncated: its end is missing" if cut.get(file.suffix) else "changed after it was recorded"


def _digest(file: Path) -> str:
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return ""
        return sha256(file)
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _agreement(path: Path, run: Run) -> Iterator[str]:
    """Whether ``run.json`` says what the files before it say, as written: types may have got fields since."""
    whole = _data(path / "run.json")
    if not isinstance(whole, dict):
        yield "run.json: it cannot be read again"
        return
    planned = _data(path / "plan.json")
    for name in _BEGUN_WITH if isinstance(planned, dict) else ():
        if planned.get(name) != whole.get(name):
            yield f"plan.json: run.json has another {name}"
    prepared = _data(path / "prepared.json")
    if prepared is not None and prepared != whole.get("prepared"):
        yield "prepared.json: run.json has other images, probes or models"
    for record, written in zip(run.records, whole.get("records", ()), strict=False):
        name = f"cells/{record.cell.slug}/cell.json"
        said = _data(path / name)
        if said is not None and said != written:
            yield f"{name}: run.json has another record of this cell"


def _data(file: Path) -> Any:
    """The content of a file of a run folder; None for one that is gone or damaged, which is said elsewhere."""
    try:
        return json.loads(file.read_bytes())["data"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _strangers(path: Path, run: Run) -> Iterator[str]:
    known = {entry.cell.slug for entry in run.plan.planned()}
    records = {record.cell.slug: record for record in run.records}
    cells = path / "cells"
    for folder in sorted(cells.iterdir()) if cells.is_dir() else ():
        if folder.name not in known:
            yield f"cells/{folder.name}: no planned cell has this folder; a cell was renamed or dropped from the plan"
        elif folder.name in records:
            yield from _beside(folder, records[folder.name])


def _beside(folder: Path, record: CellRecord) -> Iterator[str]:
    """What lies beside the attempts of a cell. Attempts before the first of the record are those of a killed runner."""
    known = {f"attempt-{attempt.number}" for attempt in record.attempts}
    first = min((attempt.number for attempt in record.attempts), default=None)
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        number = re.fullmatch(r"attempt-([1-9][0-9]{0,5})", each.name)
        cut = number is not None and (first is None or int(number[1]) < first)
        if not (cut or each.name in known or _OWN.fullmatch(each.name)):
            yield f"cells/{folder.name}/{each.name}: not in the record; it was added later"
