"""A container's output, from the engine's socket into our log, while the container runs.

Attached before the start, so nothing is lost and nothing passes through the engine's own log file. Where the stream
breaks, the output the engine kept is read again and what is already on disk is skipped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from runner.runtimes.docker_client import Engine, Stream
from runner.runtimes.docker_errors import EngineError, one_line
from runner.runtimes.log import CappedLog

_CHUNK: Final = 64 << 10
_READ_S: Final = 1.0
_BREAKS: Final = 3
END_S: Final = 3.0
"""How long after the exit the stream may take to end, seconds."""


class Frames:
    """Takes the headers out of a multiplexed stream: 4 bytes of kind, 4 of length (Docker Engine API, "Attach")."""

    def __init__(self, write: Callable[[memoryview], None]) -> None:
        self._write = write
        self._header = b""
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take bytes cut anywhere, also inside a header."""
        view = memoryview(data)
        while view:
            if self._left:
                part = view[: self._left]
                self._write(part)
                self._left -= len(part)
                view = view[len(part) :]
                continue
            missing = 8 - len(self._header)
            self._header += bytes(view[:missing])
            view = view[missing:]
            if len(self._header) == 8:
                self._left = int.from_bytes(self._header[4:], "big")
                self._header = b""


class LogReader:
    """Reads one container's output in a thread of its own that never keeps the program from exiting."""

    def __init__(
        self, make_engine: Callable[[], Engine], container: str, log: CappedLog, kept_bytes: int
    ) -> None:
        self._make_engine = make_engine
        self._container = container
        self._log = log
        self._kept_bytes = kept_bytes
        self._ended = threading.Event()
        self._abandoned = threading.Event()
        self._remarks: list[str] = []
        self._stream: Stream | None = None
        self._thread: threading.Thread | None = None

    def attach(self, engine: Engine) -> None:
        """Open the stream; call before the container starts. A failure is a remark, the log is then read again."""
        try:
            self._stream = engine.attach(self._container)
        except EngineError as error:
            self._remarks.append(f"the log could not be attached: {error}")
        self._thread = threading.Thread(target=self._read, name=f"log-{self._container[:12]}", daemon=True)
        self._thread.start()

    def finish(self, limit_s: float = END_S) -> tuple[str, ...]:
        """Call when the container has ended: gives the stream a bounded time and says what may be missing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(limit_s)
            if self._thread.is_alive():
                self._abandoned.set()
                self._remarks.append(
                    f"the log stream did not end within {limit_s:g} s of the exit: the log may be incomplete"
                )
        return tuple(self._remarks)

    def _read(self) -> None:
        try:
            if self._stream is None:
                self._ended.wait()
                self._read_again()
            elif not self._pump(self._stream):
                self._read_again()
        except OSError as error:  # our own disk: the cell goes on, its log ends here
            self._remarks.append(f"the log could not be written: {one_line(str(error))}")
        finally:
            # Closed by the thread that reads: closed by another, its number could be another cell's socket already.
            if self._stream is not None:
                self._stream.close()

    def _pump(self, stream: Stream) -> bool:
        """Read to the end; False where the stream broke or ended before the container did."""
        frames = Frames(self._log.write)
        stream.settimeout(_READ_S)
        while not self._abandoned.is_set():
            try:
                data = stream.recv(_CHUNK)
            except TimeoutError:
                continue
            except OSError as error:
                self._remarks.append(f"the log stream broke and was read again: {one_line(str(error))}")
                return False
            if not data:
                return self._ended.wait(_READ_S) or not self._running()
            frames.feed(data)
        return True

    def _running(self) -> bool:
        try:
            with self._make_engine() as engine:
                return bool(engine.inspect(self._container)["State"]["Running"])
        except EngineError:
            return True

    def _read_again(self) -> None:
        for attempt in range(_BREAKS):
            if self._log.taken_bytes > self._kept_bytes:
                self._remarks.append(
                    "the log stream broke after more output than the engine keeps: the log is incomplete"
                )
                return
            skip = self._log.taken_bytes
            try:
                with self._make_engine() as engine:
                    for piece in engine.logs(self._container):
                        self._log.write(memoryview(piece)[skip:])
                        skip = max(skip - len(piece), 0)
            except EngineError as error:
                if error.status is not None or attempt == _BREAKS - 1:
                    self._remarks.append(f"the log is not available: {error}")
                    return
                time.sleep(0.2 * (attempt + 1))
            else:
                return
