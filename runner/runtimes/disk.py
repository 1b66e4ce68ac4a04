"""Whether what is about to be made fits on the disk, asked before and not after."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from runner.errors import PrepareError
from runner.model import Fault


def need_of(dockerfile: str, label: str) -> int:
    """Bytes that a Dockerfile states under a label; 0 where it states none."""
    match = re.search(rf"{re.escape(label)}=\"?(\d+)", dockerfile)
    return int(match[1]) if match else 0


def check_free(folder: Path, need_bytes: int, what: str) -> None:
    """Raise :class:`PrepareError` (disk) where a folder's file system has less free space than needed."""
    here = folder
    while not here.exists():
        here = here.parent
    free = shutil.disk_usage(here).free
    if free < need_bytes:
        message = f"{what} needs {need_bytes:,} bytes and {here} has {free:,} free: make room, or move the data to a larger disk"
        raise PrepareError(message, Fault.DISK)
