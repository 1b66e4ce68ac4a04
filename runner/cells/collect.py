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


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Files kept (names relative to the attempt's folder) and a remark for each thing left behind."""

    names: tuple[str, ...]
    remarks: tuple[str, ...]


def collect(out: Path, into: Path) -> Collected:
    """Move regular files from ``out`` to ``into`` (same file system), then remove ``out``."""
    names: list[str] = []
    remarks: list[str] = []
    total = 0
    make_readable(out)
    for path in _walk(out):
        name = path.relative_to(out).as_posix()
        shown = name.encode("unicode_escape").decode()
        info = path.lstat()
        if not stat.S_ISREG(info.st_mode):
            remarks.append(f"left behind {shown}: not a plain file")
        elif info.st_nlink > 1:
            remarks.append(f"left behind {shown}: has other hard links")
        elif (
            len(names) >= MAX_FILES or info.st_size > MAX_FILE_BYTES or total + info.st_size > MAX_TOTAL_BYTES
        ):
            remarks.append(f"left behind {shown}: over the limits on files kept ({info.st_size} bytes)")
        else:
            target = into / safe_name(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):
                path.chmod(0o644)
            path.rename(target)
            names.append(target.relative_to(into).as_posix())
            total += info.st_size
    shutil.rmtree(out, ignore_errors=True)
    if out.exists():
        remarks.append(f"could not remove {out}; remove it by hand")
    return Collected(names=tuple(names), remarks=tuple(remarks))


def safe_name(name: str) -> str:
    """A relative path without characters that break logs, links or shells."""
    parts = ["".join(c if c.isalnum() or c in "._-" else "_" for c in part)[:100] for part in name.split("/")]
    return "/".join(part if part.strip(".") else "_" for part in parts)


def make_readable(out: Path) -> None:
    """Undo modes that would stop the runner from reading or removing folders, without following links."""
    for folder, folders, _ in os.walk(out, followlinks=False):
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o755)
        for name in folders:
            path = Path(folder) / name
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o755)


def _walk(out: Path) -> list[Path]:
    found = []
    for folder, folders, files in os.walk(out, followlinks=False):
        here = Path(folder)
        found += [here / name for name in files]
        found += [here / name for name in folders if (here / name).is_symlink()]
    return sorted(found)
