"""Takes secrets out of the files that a cell left, and out of their names. What cannot be cleaned does not stay."""

from __future__ import annotations

import contextlib
import filecmp
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from runner.cells.redact import Redactor, Stream

_CHUNK = 1 << 20
_STARS = re.compile(rb"\*+")
_MOST_PATH = 4000
"""Bytes of a path that every call of the system takes, and some to spare (PATH_MAX of Linux is 4,096)."""


def clean_file(path: Path, redactor: Redactor) -> bool:
    """Rewrite a plain file without secrets; whether it held one. Raises OSError.

    Where the disk does not take a second file, secrets are replaced by stars in the file itself.
    """
    try:
        return _rewritten(path, redactor)
    except OSError:
        return _starred(path, redactor)


def _rewritten(path: Path, redactor: Redactor) -> bool:
    # A name of its own, and never through a link: the folder may be one that a cell could write to.
    number, name = tempfile.mkstemp(prefix=".redacting-", dir=path.parent)
    beside = Path(name)
    changed = False
    try:
        with path.open("rb") as source, os.fdopen(number, "wb") as target:
            stream = Stream(redactor)
            while piece := source.read(_CHUNK):
                target.write(stream.feed(piece))
            target.write(stream.close())
        changed = not filecmp.cmp(path, beside, shallow=False)
        if changed:
            beside.chmod(path.stat().st_mode & 0o777)
            beside.replace(path)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
    return changed


def _starred(path: Path, redactor: Redactor) -> bool:
    changed, done, stream = False, 0, Stream(redactor, same_size=True)
    with path.open("rb", buffering=0) as source:
        while True:
            source.seek(done + stream.kept)
            piece = source.read(_CHUNK)
            clean = stream.feed(piece) if piece else stream.close()
            source.seek(done)
            before = source.read(len(clean))
            if clean != before:
                changed = True
                with path.open("r+b", buffering=0) as target:
                    for stars in _STARS.finditer(clean):  # all that differs
                        if stars[0] != before[stars.start() : stars.end()]:
                            target.seek(done + stars.start())
                            target.write(stars[0])
            done += len(clean)
            if not piece:
                return changed


def clean_folder(folder: Path, redactor: Redactor) -> tuple[str, ...]:
    """Rewrite every plain file below a folder, names included; a remark for each that held a secret.

    What cannot be read or rewritten is removed, and said first: a run without a file is better than a secret on disk.
    """
    if not redactor or not folder.is_dir():
        return ()
    cleaned: list[str] = []
    gone: list[str] = []
    unread: list[OSError] = []
    for here, folders, files in os.walk(folder, topdown=False, onerror=unread.append):
        for path in (Path(here, name) for name in sorted(files) + sorted(folders)):
            try:
                kept = _entry(path, redactor)
            except FileNotFoundError:
                continue  # removed with something that is in it
            except OSError as error:
                gone.append(_removed(redactor, folder, path, error))
                continue
            if kept is not None:
                cleaned.append(f"a secret was taken out of {_shown(redactor, folder, kept)}")
    gone += [_removed(redactor, folder, Path(error.filename), error) for error in unread]
    return (*filter(None, gone), *cleaned)


def _entry(path: Path, redactor: Redactor) -> Path | None:
    """Clean one file, and the name of anything; where it is now, None where it held nothing."""
    changed = stat.S_ISREG(path.lstat().st_mode) and clean_file(path, redactor)
    name = redactor.text(path.name)
    if name == path.name:
        return path if changed else None
    return path.rename(_free(path.with_name(re.sub(r"[^\w.-]+", "_", name))))


def _removed(redactor: Redactor, folder: Path, path: Path, error: OSError) -> str:
    """Remove what could not be searched, and say so; empty where it is gone already."""
    # The path of what lies too deep cannot be used; that of a folder above it can.
    short = next(each for each in (path, *path.parents) if len(os.fsencode(each)) < _MOST_PATH)
    if not os.path.lexists(short):
        return ""
    if short == folder:
        pass  # it holds what could be read as well
    elif short.is_dir() and not short.is_symlink():
        shutil.rmtree(short, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            short.unlink(missing_ok=True)
    shown, why = _shown(redactor, folder, short), error.strerror or type(error).__name__
    if os.path.lexists(short):
        return f"{shown} may hold a secret, remove it by hand: it could not be rewritten ({why}) or removed"
    return f"{shown} was removed: it could not be searched for secrets ({why})"


def _shown(redactor: Redactor, folder: Path, path: Path) -> str:
    return redactor.text(path.relative_to(folder).as_posix())


def _free(path: Path) -> Path:
    """The path, or the first one numbered like it that nothing has."""
    free, number = path, 1
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{number}-{path.name}")
    return free
