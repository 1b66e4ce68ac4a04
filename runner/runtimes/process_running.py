"""A cell that has been started as processes: asked, stopped, read and ended, and nothing of it lost on the way."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import Final

from runner.facts import Watch
from runner.model import Stop
from runner.runtimes.log import CappedLog
from runner.runtimes.process_tree import CellTree
from runner.runtimes.stopping import KILL_S, TICK_S, grace

DRAIN_S: Final = 2.0
"""How long after the last process of a cell its output may take to end, seconds."""
OPEN_FILES: Final = 65_536
_CHUNK: Final = 64 << 10


class Running:
    """A started cell: its leader, the tree of its processes, and the thread that reads its output.

    To make one cannot fail; whoever has one calls :meth:`finish`, whatever else failed.
    """

    def __init__(self, process: subprocess.Popen[bytes], tree: CellTree, log: CappedLog) -> None:
        self._process = process
        self._tree = tree
        self._log = log
        self.remarks: list[str] = []
        self._over = threading.Event()
        self._pidfd: int | None = None
        self._reader: threading.Thread | None = None

    def guard(self) -> None:
        """Take hold of the leader and of its output. Raises :class:`OSError`."""
        self._pidfd = os.pidfd_open(self._process.pid)
        reader = threading.Thread(target=self._read, name=f"log-{self._process.pid}", daemon=True)
        try:
            reader.start()
        except (
            RuntimeError
        ) as error:  # no thread can be made: CPython's own words are "can't start new thread"
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
        self._reader = reader

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
        if self._process.returncode is None:
            if self._pidfd is None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(limit_s)
                return self._process.returncode is not None
            if not select.select([self._pidfd], [], [], limit_s)[0]:
                return False
        self._process.wait()
        return True

    def finish(self) -> bool:
        """End what is left of the cell and give its output a bounded time; whether all of it was seen to be gone.

        What went wrong is in ``remarks``. Never raises: what is left behind must be said, whatever failed.
        """
        gone = self._end()
        if self._pidfd is not None:
            os.close(self._pidfd)
        if self._reader is not None:
            self._reader.join(DRAIN_S)
            if self._reader.is_alive():
                self.remarks.append("the output did not end with the cell: the log may be incomplete")
        elif self._process.stdout is not None:
            self._process.stdout.close()
        self._over.set()
        return gone

    def _end(self) -> bool:
        if self._pidfd is None or self._reader is None:
            # Its guard could not be made, perhaps for want of what looking for its processes needs too.
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        try:
            left = self._tree.end(KILL_S)
        except OSError as error:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self.remarks.append(f"cannot tell whether processes of the cell are left: {error.strerror}")
            self._ended(KILL_S)
            return False
        if left:
            names = ", ".join(str(seen.pid) for seen in sorted(left, key=lambda seen: seen.pid))
            self.remarks.append(f"processes still alive {KILL_S:g} s after SIGKILL: {names}")
        return self._ended(KILL_S) and not left

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
                    if not any("could not be written" in remark for remark in self.remarks):
                        self.remarks.append(f"the log could not be written: {error.strerror}")
