"""The process runtime: each cell as local processes, where no Docker engine answers.

What it keeps of a container: an environment of its own, a private temporary folder, a process group of its own,
limits on files and core dumps, a rendezvous port of its own, bounded output, and nothing left running. What it cannot
give: its own network, a read-only system, a memory limit.
"""

from __future__ import annotations

import os
import platform
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from runner.facts import CellExit, CellSpec, PreparedImage, Watch
from runner.model import Fault, Stop
from runner.runtimes import process_venv
from runner.runtimes.labels import MARK, RUN, homes, new_mark, this_owner
from runner.runtimes.log import CappedLog
from runner.runtimes.port import rendezvous_port
from runner.runtimes.process_tree import CellTree, oom_kills
from runner.runtimes.stopping import KILL_S, TICK_S, grace

DRAIN_S: Final = 2.0
"""How long after the last process of a cell its output may take to end, seconds."""
OPEN_FILES: Final = 65_536
_CHUNK: Final = 64 << 10


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
        except OSError as error:
            message = f"{error.filename or spec.log_path}: {error.strerror}"
            return CellExit(
                exit_code=None, duration_s=time.monotonic() - began, fault=Fault.DISK, message=message
            )

    def _run(self, spec: CellSpec, watch: Watch, log: CappedLog, home: Path, began: float) -> CellExit:
        mark = new_mark(self._owner, spec.labels.get(RUN, ""), spec.name)
        kills = oom_kills()
        environment = cell_environment(spec, home, mark)
        try:
            with _on_cores(spec.hand_over.cpus):
                process = subprocess.Popen(
                    _command(spec.argv, environment), cwd=home, env=environment, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            not_found = 126 if isinstance(error, PermissionError) else 127
            message = f"cannot start {spec.argv[0]}: {error.strerror}"
            log.write(f"{message}\n".encode())
            return CellExit(exit_code=not_found, duration_s=time.monotonic() - began, message=message)
        cell = _Running(process, CellTree(mark, process.pid), log)
        stopped: Stop | None = None
        try:
            cell.limit()
            stopped = cell.wait(watch, spec.limits.stop_grace_s, signal.Signals[spec.stop_signal])
        finally:
            remarks = cell.finish()
        log.close()
        code = exit_code(process.returncode)
        return CellExit(
            exit_code=code, duration_s=time.monotonic() - began, stopped=stopped, handle=str(process.pid),
            oom_killed=code == 137 and stopped is None and oom_kills() > kills,
            log_bytes=log.taken_bytes, log_cut_bytes=log.cut_bytes, remarks=remarks,
        )  # fmt: skip


class _Running:
    """A started cell: its leader, the tree of its processes, and the thread that reads its output."""

    def __init__(self, process: subprocess.Popen[bytes], tree: CellTree, log: CappedLog) -> None:
        self._process = process
        self._tree = tree
        self._log = log
        self._remarks: list[str] = []
        self._over = threading.Event()
        self._pidfd = os.pidfd_open(process.pid)
        self._reader = threading.Thread(target=self._read, name=f"log-{process.pid}", daemon=True)
        self._reader.start()

    def limit(self) -> None:
        """Set resource limits from outside: code between fork and exec is not safe in a program with threads."""
        for kind, wanted in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)):
            hard = resource.getrlimit(kind)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            try:
                resource.prlimit(self._process.pid, kind, (value, value))
            except ProcessLookupError:
                return

    def wait(self, watch: Watch, grace_s: float, number: signal.Signals) -> Stop | None:
        """Wait for the leader, asking the watch; stop it when the watch says so."""
        begin = time.monotonic()
        while True:
            if self._ended(TICK_S):
                return None
            stop = watch.poll(time.monotonic() - begin)
            if stop is not None:
                self._tree.look()  # remember who belongs to the cell before parents die
                # To the leader alone, as a container's init does: an engine whose workers die first looks crashed.
                self._process.send_signal(number)
                deadline = time.monotonic() + grace(stop, grace_s)
                while not self._ended(max(0.0, min(TICK_S, deadline - time.monotonic()))):
                    if time.monotonic() >= deadline or watch.poll(time.monotonic() - begin) is not None:
                        break
                return stop

    def _ended(self, limit_s: float) -> bool:
        # Popen.wait with a limit sleeps in steps of up to 50 ms; a process descriptor wakes at once (pidfd_open(2)).
        if self._process.returncode is None and not select.select([self._pidfd], [], [], limit_s)[0]:
            return False
        self._process.wait()
        return True

    def finish(self) -> tuple[str, ...]:
        """End what is left of the cell, give its output a bounded time, and say what went wrong with either."""
        left = self._tree.end(KILL_S)
        if left:
            names = ", ".join(str(seen.pid) for seen in sorted(left, key=lambda seen: seen.pid))
            self._remarks.append(f"processes still alive {KILL_S:g} s after SIGKILL: {names}")
        self._ended(KILL_S)
        os.close(self._pidfd)
        self._reader.join(DRAIN_S)
        if self._reader.is_alive():
            self._remarks.append("the output did not end with the cell: the log may be incomplete")
        self._over.set()
        return tuple(self._remarks)

    def _read(self) -> None:
        pipe = self._process.stdout
        if pipe is None:
            return
        with pipe:
            while not self._over.is_set():
                if not select.select([pipe], [], [], 0.2)[0]:
                    continue
                data = os.read(pipe.fileno(), _CHUNK)
                if not data:
                    return
                try:
                    self._log.write(data)
                except OSError as error:  # read on, so that the cell does not block on a full disk of ours
                    if not any("could not be written" in remark for remark in self._remarks):
                        self._remarks.append(f"the log could not be written: {error.strerror}")


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
        os.sched_setaffinity(0, before)
