"""Engines that lie on the host and are mounted into cells: are they there, and which content do they have."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runner.errors import PrepareError
from runner.model import CellSettings, Culprit, Fault

_SKIP = ("__pycache__",)


def check_mounts(settings: CellSettings) -> None:
    """See that every host path exists. Raises :class:`PrepareError` whose culprit is the configuration."""
    paths = [mount.source for mount in settings.mounts] + list(settings.engine_folders)
    missing = sorted({path for path in paths if not Path(path).exists()})
    if missing:
        msg = f"image {settings.image}: this host has no {', '.join(missing)}, which the platform mounts or hashes"
        raise PrepareError(msg, Fault.DISK, culprit=Culprit.CONFIG)


def engine_digest(folders: tuple[str, ...], cache: Path) -> str:
    """SHA-256 over names and contents below host folders; "" where none are named.

    Contents of files that kept path, size and time of change are not read again: ``cache`` is a file that remembers
    them. Compiled Python is left out, since importing makes it. Raises :class:`PrepareError` where a file cannot be
    read.
    """
    if not folders:
        return ""
    known = _read(cache)
    used: dict[str, list[object]] = {}
    digest = hashlib.sha256()
    try:
        for number, folder in enumerate(folders):
            for path in _files(Path(folder)):
                # Where the folder lies is no part of it: another host may have the same engine elsewhere.
                line = f"{number}\0{path.relative_to(folder)}\0{_content(path, known, used)}\n"
                digest.update(line.encode("utf-8", "surrogateescape"))
    except OSError as error:
        msg = f"{error.filename}: {error.strerror}: the mounted engine cannot be hashed"
        raise PrepareError(msg, Fault.DISK) from error
    _write(cache, known | used)
    return "sha256:" + digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    for here, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name not in _SKIP)
        yield from (
            Path(here, name) for name in sorted([*files, *names]) if name in files or _link(here, name)
        )


def _link(here: str, name: str) -> bool:
    return Path(here, name).is_symlink()


def _content(path: Path, known: dict[str, list[object]], used: dict[str, list[object]]) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return "special"
    facts = path.stat()
    before = known.get(str(path))
    if before and before[:2] == [facts.st_size, facts.st_mtime_ns]:
        return str(before[2])
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    used[str(path)] = [facts.st_size, facts.st_mtime_ns, found]
    return found


def _read(cache: Path) -> dict[str, list[object]]:
    try:
        found = json.loads(cache.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(cache: Path, known: dict[str, list[object]]) -> None:
    """Remember, as far as that can be: without it the next run reads the files again."""
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        new = cache.with_name(f".{cache.name}.{os.getpid()}")
        new.write_text(json.dumps(known), encoding="utf-8")
        new.replace(cache)
