"""Names of what is prepared, and the content hashes that caches are keyed by."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from runner.errors import PrepareError
from runner.model import Fault, ModelRef


def resolve(reference: str, root: Path) -> Path | None:
    """The folder that a path of the matrix file means, relative to ``root``; None where it is no folder there."""
    path = root / reference
    return path.resolve() if path.is_dir() else None


def model_key(image: str, model: ModelRef) -> str:
    """Key of a prepared model in :class:`runner.records.Prepared`: models are made inside an image."""
    return f"{image}|{model.name}"


def tree_hash(*folders: Path, skip: tuple[str, ...] = ("__pycache__", ".pytest_cache")) -> str:
    """SHA-256 over names and contents of the regular files below some folders, in a fixed order."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if any(part in skip for part in path.parts) or not path.is_file() or path.is_symlink():
                continue
            name = path.relative_to(folder).as_posix().encode()
            digest.update(b"%d:%b%d:" % (len(name), name, path.stat().st_size))
            with path.open("rb") as file:
                while piece := file.read(1 << 20):  # a file of weights has gigabytes
                    digest.update(piece)
    return "sha256:" + digest.hexdigest()


def short(*parts: str) -> str:
    """A folder name of 20 hex digits over some texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def open_to_readers(folder: Path) -> None:
    """Let any user read a prepared model: safetensors writes its files with mode 600."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


def check_room(folder: Path, need_bytes: int, what: str) -> None:
    """See that a folder's file system has room, before anything is written.

    Raises:
        PrepareError: it has not (disk).

    """
    here = folder
    while not here.exists():
        here = here.parent
    free = shutil.disk_usage(here).free
    if free < need_bytes:
        msg = (
            f"{what} needs {need_bytes / (1 << 30):,.2f} GiB free on the disk of {here}, which has"
            f" {free / (1 << 30):,.2f} GiB: make room, or set VLLM_MATRIX_CACHE to a folder on a larger disk"
        )
        raise PrepareError(msg, Fault.DISK)
