"""Durable writes: a file is there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write beside, flush to disk, rename. Readers see the old file or the new one, also after a power cut.

    Raises:
        OSError: as any write does; also where a device, pipe or folder has the name, which renaming would put away.

    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
