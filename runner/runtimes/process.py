"""The process runtime: each cell as local processes, where no Docker engine answers.

What it keeps of a container: an environment of its own, a private temporary folder, a process group of its own,
limits on files and core dumps, a rendezvous port of its own, bounded output, and nothing left running. What it cannot
give: its own network, a read-only system, a memory limit.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from runner.facts import CellExit, CellSpec, PreparedImage, Watch
from runner.model import Fault, Stop
from runner.runtimes import process_venv
from runner.runtimes.labels import MARK, RUN, homes, new_mark, this_owner
from runner.runtimes.log import CappedLog
from runner.runtimes.port import rendezvous_port
from runner.runtimes.process_running import Running
from runner.runtimes.process_tree import CellTree, oom_kills

_NO_PROGRAM: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
)
"""What execve(2) says of the program itself, or of the interpreter that it names: the image's. All else is the host's."""
_NO_PROCESS: Final = frozenset(
    {
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.EINVAL,
        errno.EPERM,
        errno.ESRCH,
        errno.EADDRINUSE,
    }
)
"""What fork(2), pidfd_open(2) and sched_setaffinity(2) say where a host cannot start a process or hold it on its cores; no port."""


class ProcessRuntime:
    """Runs cells as processes. ``root`` is the project's folder; venvs lie in ``cache``."""

    name = "process"

    def __init__(self, *, root: Path, cache: Path) -> None:
        self._root = root
        self._cache = cache
        self._owner = this_owner()

    def describe(self) -> str:
        """One line for a person."""
        return (
            f"process (local processes, Python {platform.python_version()}; no network or memory isolation)"
        )

    def view(self, source: Path, target: str) -> str:  # noqa: ARG002 - the protocol's: another runtime needs it
        """A cell sees host paths as they are."""
        return str(source.absolute())  # a cell starts in a folder of its own

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        """A venv with the pins of an image folder, or an interpreter by path. Raises :class:`PrepareError`."""
        return process_venv.prepare(ref, root=self._root, cache=self._cache, log_path=log_path, watch=watch)

    def keep(self, image: PreparedImage, labels: Mapping[str, str]) -> Callable[[], str]:  # noqa: ARG002 - protocol
        """Nothing to do: no other program removes venvs of this cache."""
        return lambda: ""

    def run(self, spec: CellSpec, watch: Watch) -> CellExit:
        """Run a cell to its end and end every process of it."""
        began = time.monotonic()
        try:
            log = CappedLog(spec.log_path, spec.limits.log_bytes, spec.log_filter)
            try:
                with (
                    rendezvous_port() as port,
                    tempfile.TemporaryDirectory(
                        prefix=homes(self._owner), ignore_cleanup_errors=True
                    ) as home,
                ):
                    return self._run(
                        replace(spec, env={"MASTER_PORT": str(port), **spec.env}),
                        watch,
                        log,
                        Path(home),
                        began,
                    )
            finally:
                log.close()
        except OSError as error:  # before anything was started, or after it was seen to be gone
            return _fault(error, _words(error, spec.log_path), began)

    def _run(self, spec: CellSpec, watch: Watch, log: CappedLog, home: Path, began: float) -> CellExit:
        mark = new_mark(self._owner, spec.labels.get(RUN, ""), spec.name)
        kills = oom_kills()
        environment = cell_environment(spec, home, mark)
        command = _command(spec.argv, environment)
        try:
            with _on_cores(spec.hand_over.cpus):
                process = subprocess.Popen(
                    command, cwd=home, env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            message = f"cannot start {spec.argv[0]}: {error.strerror}"
            log.write(f"{message}\n".encode())
            if error.errno not in _NO_PROGRAM or error.filename != command[0]:
                return _fault(error, message, began)
            not_found = 126 if isinstance(error, PermissionError) else 127
            return CellExit(exit_code=not_found, duration_s=time.monotonic() - began, message=message)
        cell = Running(process, CellTree(mark, process.pid), log)
        stopped: Stop | None = None
        failed: OSError | None = None
        try:
            cell.guard()
            cell.limit()
            stopped = cell.wait(watch, spec.limits.stop_grace_s, signal.Signals[spec.stop_signal])
        except OSError as error:
            failed = error
        finally:
            left_behind = not cell.finish()
        try:
            log.close()
        except OSError as error:
            failed = failed or error
        code = exit_code(process.returncode)
        done = CellExit(
            exit_code=code, duration_s=time.monotonic() - began, stopped=stopped, handle=str(process.pid),
            oom_killed=code == 137 and stopped is None and failed is None and oom_kills() > kills,
            log_bytes=log.taken_bytes, log_cut_bytes=log.cut_bytes, left_behind=left_behind,
            remarks=tuple(cell.remarks),
        )  # fmt: skip
        if failed is None:
            return done
        return replace(done, exit_code=None, fault=_part(failed), message=_words(failed, spec.log_path))


def cell_environment(spec: CellSpec, home: Path, mark: str) -> dict[str, str]:
    """The whole environment of a cell: nothing of the runner's own gets in but the system's path.

    Engines name their processes by setproctitle, which writes over the environment that others see, and so over the
    mark, unless ``SPT_NOENV`` is set (setproctitle 1.3).
    """
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
    venv = Path(spec.image)
    if (venv / "bin").is_dir():
        own |= {"PATH": f"{venv / 'bin'}:{path}", "VIRTUAL_ENV": str(venv)}
    return {**own, **spec.env, **spec.hand_over.env, MARK: mark, "SPT_NOENV": "1"}


def exit_code(returncode: int | None) -> int | None:
    """As a shell says it: 128+n for signal n."""
    if returncode is None or returncode >= 0:
        return returncode
    return 128 - returncode


def _command(argv: tuple[str, ...], environment: Mapping[str, str]) -> list[str]:
    # Popen searches the runner's own PATH, not the cell's.
    found = shutil.which(argv[0], path=environment["PATH"])
    return [found or argv[0], *argv[1:]]


def _part(error: OSError) -> Fault:
    """The part of the host that an error speaks of: its disk, or what starts and holds processes."""
    return Fault.DAEMON if error.errno in _NO_PROCESS else Fault.DISK


def _words(error: OSError, log: Path) -> str:
    return f"{error.filename or log}: {error.strerror or error}"


def _fault(error: OSError, message: str, began: float) -> CellExit:
    return CellExit(exit_code=None, duration_s=time.monotonic() - began, fault=_part(error), message=message)


@contextmanager
def _on_cores(cpus: tuple[int, ...]) -> Iterator[None]:
    """Start what is started here on these cores: a child inherits the affinity of the thread that makes it."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        try:
            os.sched_setaffinity(0, before)
        except (
            OSError
        ):  # the host took them away meanwhile: onto what it left, and no child is lost by an error here
            with suppress(OSError):
                os.sched_setaffinity(0, range(os.cpu_count() or 1))
