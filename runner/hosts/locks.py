"""Kernel locks in one folder per host. A lock belongs to an open file and dies with its owner; files stay for ever.

Files are never unlinked while a lock on them may mean something: a second process could lock a new file of the same
name beside the first. Descriptors are closed on ``exec``, so a child that outlives its runner keeps no lease.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from runner.errors import RunnerError

SHARED_FOLDER_MODE = 0o1777
SHARED_FILE_MODE = 0o666
POLL_S = 0.005
RECORD_LIMIT_BYTES = 1 << 16

PLACES = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - a known name is the point: all users must meet here
FOLDER_NAME = "vllm-matrix"


class LeaseError(RunnerError):
    """The lease folder cannot be used; the text says where and what to do."""


def lease_folder(places: tuple[Path, ...] = PLACES) -> Path:
    """The one folder of this host, made if it is missing.

    The first place that every user can write to, or where the folder already is (an administrator made it, mode
    1777). Which one does not depend on who asks: two users who lock in two places would share no device.
    """
    for place in places:
        folder = place / FOLDER_NAME
        if folder.is_dir():
            return folder
        with contextlib.suppress(OSError):
            if place.stat().st_mode & stat.S_IWOTH:
                return make_folder(folder)
    msg = f"no place for device leases: neither {' nor '.join(map(str, places))} is writable; make {places[0]} mode 1777"
    raise LeaseError(msg)


def make_folder(folder: Path) -> Path:
    """Make a lease folder that all users of the host share, whatever this process's umask is."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return folder
    except OSError as error:
        msg = f"{folder}: the lease folder cannot be made ({error.strerror}); name another with --leases"
        raise LeaseError(msg) from error
    folder.chmod(SHARED_FOLDER_MODE)
    return folder


def open_lock(path: Path) -> int:
    """Open (make) a lock file that every user can lock. Raises :class:`LeaseError`.

    First without ``O_CREAT``: the kernel refuses that flag on another user's file in a sticky folder
    (``fs.protected_regular``). Links are not followed: the folder is writable by all.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(3):
        with contextlib.suppress(FileNotFoundError):
            return _regular(path, _open(path, flags))
        with contextlib.suppress(FileExistsError):
            descriptor = _open(path, flags | os.O_CREAT | os.O_EXCL, SHARED_FILE_MODE)
            os.fchmod(descriptor, SHARED_FILE_MODE)  # the umask took away what others need
            return descriptor
    msg = f"{path}: the lock file appears and disappears; something cleans the lease folder"
    raise LeaseError(msg)


def _open(path: Path, flags: int, mode: int = 0) -> int:
    try:
        return os.open(path, flags, mode)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        msg = f"{path}: the lock file cannot be opened ({error.strerror}); its mode must be 666 and its folder's 1777"
        raise LeaseError(msg) from error


def _regular(path: Path, descriptor: int) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    msg = f"{path}: not an ordinary file; remove it"
    raise LeaseError(msg)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock if it is free now. Raises :class:`LeaseError` where the file system has no locks."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
            return False
        msg = f"the lease folder's file system has no kernel locks ({error.strerror}); use a local one"
        raise LeaseError(msg) from error
    return True


@contextlib.contextmanager
def gate(folder: Path, wait_s: float) -> Iterator[bool]:
    """Hold the folder's gate, so that taking several devices is one step. Gives False if it stays busy."""
    descriptor = open_lock(folder / "gate.lock")
    try:
        deadline = time.monotonic() + wait_s
        while not (mine := try_lock(descriptor)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        yield mine
    finally:
        os.close(descriptor)


def read_record(descriptor: int) -> bytes:
    """Content of a lock file."""
    return os.pread(descriptor, RECORD_LIMIT_BYTES, 0)


def write_record(descriptor: int, record: bytes) -> None:
    """Replace the content in place: the lock is on this very file, so no other may take its name."""
    os.ftruncate(descriptor, 0)
    if os.pwrite(descriptor, record, 0) != len(record):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int | None]:
    """A lock file that is there, closed at the end; None where it is gone (its owner has just given it back)."""
    try:
        descriptor = _open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
