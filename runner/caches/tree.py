"""Files of a cache as values: reading what a cell left without trusting it, and writing it where cells cannot reach.

Engines write absolute paths into some of their files (:data:`runner.vendors.CACHE_PATH_FILES`). Those are kept as if the
cache lay at :data:`runner.vendors.CACHE_DIR`, so that a layer serves cells that see it elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from runner.vendors import CACHE_DIR, CACHE_PATH_FILES, CACHE_SKIP

MAX_FILES = 20_000
MAX_BYTES = 512 << 20
"""What one layer may hold. A cell copies it before it starts: 9.4 MB in 150 files take 0.02 s."""
MAX_FILE_BYTES = 128 << 20
MAX_NAME_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Kept:
    """One file of a layer: size in bytes, and the sha256 of its content."""

    size: int
    sha256: str


@dataclass(slots=True)
class Seen:
    """Files of a private layer that may be kept, and how many may not (links, too large, without a usable name).

    ``over`` is True where there is more than a layer may hold: the rest was not read.
    """

    files: dict[str, Kept] = field(default_factory=dict)
    left_out: int = 0
    over: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in self.files.values())


def scan(private: Path, seen_at: str) -> Seen:
    """Look at the plain files of a private layer that its cell saw at ``seen_at``; links are not followed."""
    found, size = Seen(), 0
    if private.is_symlink():  # a cell that is a process can put one in the folder's place
        return Seen(left_out=1)
    for name in _names(private):
        if any(fnmatchcase(part, skip) for part in PurePosixPath(name).parts for skip in CACHE_SKIP):
            continue
        data = read_plain(private / name)
        if data is None or not usable(name):
            found.left_out += 1
            continue
        data = moved(name, data, seen_at, CACHE_DIR)
        found.files[name] = Kept(len(data), hashlib.sha256(data).hexdigest())
        size += len(data)
        if size > MAX_BYTES or len(found.files) + found.left_out > MAX_FILES:
            found.over = True
            break
    return found


def usable(name: str) -> bool:
    """Whether a relative name can be kept: nothing that leads elsewhere, and nothing that breaks a line or a file."""
    parts = name.split("/")
    plain = name.isprintable() and len(name) <= MAX_NAME_CHARS
    return plain and not any(part in ("", ".", "..") for part in parts)


def read_plain(path: Path) -> bytes | None:
    """The content of a plain file of one name and of bounded size; None for anything else."""
    try:
        # Non-blocking: a FIFO would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1 or facts.st_size > MAX_FILE_BYTES:
            return None
        data = file.read(MAX_FILE_BYTES + 1)
    return data if len(data) <= MAX_FILE_BYTES else None


def moved(name: str, data: bytes, old: str, new: str) -> bytes:
    """The content of a file as if its cache lay at ``new`` and not at ``old``."""
    if old == new or not any(fnmatchcase(PurePosixPath(name).name, each) for each in CACHE_PATH_FILES):
        return data
    return data.replace(old.rstrip("/").encode() + b"/", new.rstrip("/").encode() + b"/")


def write(path: Path, data: bytes, mode: int) -> None:
    """Write a new file; its folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def layer_digest(files: Mapping[str, Kept]) -> str:
    """SHA-256 over names and contents of a layer; "" for an empty one."""
    if not files:
        return ""
    lines = "".join(f"{files[name].sha256} {name}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def _names(private: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(private, followlinks=False):
        folders.sort()
        here = Path(folder).relative_to(private)
        for name in sorted([*files, *(each for each in folders if _is_link(Path(folder, each)))]):
            yield (here / name).as_posix()


def _is_link(path: Path) -> bool:
    """Whether a folder is a link; a path too long to be looked at is none, and is not walked into either."""
    try:
        return path.is_symlink()
    except OSError:
        return False
