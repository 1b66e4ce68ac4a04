"""Takes a cell's files out of the folder it could write to. What a cell leaves there is not trusted.

Links are not followed, FIFOs, sockets and devices are not opened, and count and size are bounded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 200
MAX_FILE_BYTES = 300 << 20
MAX_TOTAL_BYTES = 600 << 20
MAX_SHOWN = 300
"""Characters of a name in a remark."""

JUDGED = frozenset({"junit.xml", "evidence.jsonl", "tests.jsonl"})
"""What the verdict rests on is taken first: no number of other files may cost it its place."""
RUNNERS = frozenset({"log.txt", "log.txt.tail", "cell-input.json", "in", "matrix", "cache", "out"})
"""What the runner itself puts into the folder of an attempt."""
APART = "cell-"
"""In front of a name that is not free. A file keeps its folders: ``a/b`` becomes ``cell-a/b``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Files kept (names relative to the attempt's folder) and a remark for each thing left behind."""

    names: tuple[str, ...]
    remarks: tuple[str, ...]


def collect(out: Path, into: Path) -> Collected:
    """Move regular files from ``out`` to ``into`` (same file system), then remove ``out``."""
    if not out.is_dir() or out.is_symlink():
        # A cell that is a process of this host can put something else in the place of its folder.
        out.unlink(missing_ok=True)
        return Collected(names=(), remarks=(f"left behind {out.name}: the cell replaced its own folder",))
    names: list[str] = []
    remarks: list[str] = []
    total = 0
    make_readable(out)
    for path in _walk(out):
        name = path.relative_to(out).as_posix()
        shown = name.encode("unicode_escape").decode()[:MAX_SHOWN]
        try:
            info = path.lstat()
            refusal = _refusal(info, len(names), total)
            if refusal:
                remarks.append(f"left behind {shown}: {refusal}")
                continue
            target = _place(into, safe_name(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):
                path.chmod(0o644)
            path.rename(target)
        except OSError as error:  # a path that is too long
            remarks.append(f"left behind {shown}: {error.strerror}")
            continue
        kept = target.relative_to(into).as_posix()
        if kept != safe_name(name):
            remarks.append(f"{shown} is kept as {kept}: its name is taken")
        names.append(kept)
        total += info.st_size
    shutil.rmtree(out, ignore_errors=True)
    if out.exists():
        remarks.append(f"could not remove {out}; remove it by hand")
    return Collected(names=tuple(names), remarks=tuple(remarks))


def _place(into: Path, name: str) -> Path:
    """Where a file is kept: under its name, or under :data:`APART` in front of it where that is the runner's or taken."""
    while name.split("/", 1)[0] in RUNNERS or _taken(into, name):
        name = APART + name
    return into / name


def _taken(into: Path, name: str) -> bool:
    above = list((into / name).relative_to(into).parents)[:-1]
    return os.path.lexists(into / name) or any(
        os.path.lexists(into / each) and ((into / each).is_symlink() or not (into / each).is_dir())
        for each in above
    )


def _refusal(info: os.stat_result, kept: int, total: int) -> str:
    """Why a file is not kept; empty where it is. ``kept`` files of ``total`` bytes are so far."""
    if not stat.S_ISREG(info.st_mode):
        return "not a plain file"
    if info.st_nlink > 1:
        return "has other hard links"
    if kept >= MAX_FILES or info.st_size > MAX_FILE_BYTES or total + info.st_size > MAX_TOTAL_BYTES:
        return f"over the limits on files kept ({info.st_size} bytes)"
    return ""


def safe_name(name: str) -> str:
    """A relative path without characters that break logs, links or shells."""
    parts = ["".join(c if c.isalnum() or c in "._-" else "_" for c in part)[:100] for part in name.split("/")]
    return "/".join(part if part.strip(".") else "_" for part in parts)


def make_readable(out: Path) -> None:
    """Undo modes that would stop the runner from reading or removing folders, without following links."""
    if out.is_symlink():
        return
    for folder, folders, _ in os.walk(out, followlinks=False):
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o755)
        for path in (os.path.join(folder, name) for name in folders):  # noqa: PTH118 - may be longer than a Path can ask
            if not os.path.islink(path):  # noqa: PTH114 - as above: False where it cannot be known
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o755)  # noqa: PTH101, S103


def _walk(out: Path) -> list[Path]:
    """All files and links, in the order in which they are taken."""
    found = []
    for folder, folders, files in os.walk(out, followlinks=False):
        here = Path(folder)
        found += [here / name for name in files]
        found += [here / name for name in folders if os.path.islink(here / name)]  # noqa: PTH114 - never raises
    return sorted(found, key=lambda path: (path.relative_to(out).as_posix() not in JUDGED, path))
