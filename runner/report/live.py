"""Progress while cells run: a live table on a terminal, one flushed line per event elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from runner.report.paint import Style
from runner.report.text import clean, cut, seconds
from runner.report.vocabulary import LOOKS, TONES

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from runner.model import Cell
    from runner.records import CellRecord

Clock = Callable[[], float]
"""Seconds of a clock that never goes back."""

LONG_WAIT_S = 5.0
"""From here on a wait for devices is worth a word. Making a cell's files and leasing takes less than a second."""


class Progress(Protocol):
    """Told what happens, from any thread; shows it until left as a context manager."""

    def started(self, cell: Cell, attempt: int) -> None:
        """An attempt (counted from 1) of a cell begins."""
        ...

    def finished(self, record: CellRecord) -> None:
        """A cell has its verdict."""
        ...

    def note(self, text: str) -> None:
        """Something else worth a line: an image is built, a host fault is retried."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress(
    total: int, stream: TextIO, *, live: bool | None = None, clock: Clock = time.monotonic
) -> Progress:
    """The progress view that fits a stream: live where it is a terminal, unless told."""
    if stream.isatty() if live is None else live:
        return LiveProgress(total, stream, clock)
    return LineProgress(total, stream, clock)


def _ending(record: CellRecord, done: int, total: int) -> str:
    tries = f" after {len(record.attempts)} attempts" if len(record.attempts) > 1 else ""
    waited = f", waited {seconds(record.waited_s)} for devices" if record.waited_s >= LONG_WAIT_S else ""
    return (
        f"[{done:>{len(str(total))}}/{total}] {clean(record.cell.id)} {seconds(record.ran_s)}{tries}{waited}"
    )


def _why(record: CellRecord) -> str:
    verdict = record.verdict
    return (
        ""
        if verdict.green
        else f"{verdict.culprit}: {cut(clean(verdict.cause) or LOOKS[verdict.outcome].meaning, 300)}"
    )


class LineProgress:
    """One line per event, flushed, with no control character: for files, pipes and CI logs."""

    def __init__(self, total: int, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._total, self._stream, self._clock = total, stream, clock
        self._begun, self._done, self._lock = clock(), 0, threading.Lock()
        self._style = Style(color=False, width=100, plain=not _writes_unicode(stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def started(self, cell: Cell, attempt: int) -> None:
        """``+12 s  started  ID``, or ``retry 1`` for a later attempt."""
        with self._lock:
            self._line(f"{'started' if attempt <= 1 else f'retry {attempt - 1}'}  {clean(cell.id)}")

    def finished(self, record: CellRecord) -> None:
        """Outcome, place in the plan, seconds, attempts, and for a red cell culprit and cause."""
        with self._lock:
            self._done += 1
            why = _why(record)
            ending = _ending(record, self._done, self._total)
            self._line(f"{self._style.face(record.verdict.outcome)}  {ending}" + (f"  {why}" if why else ""))

    def note(self, text: str) -> None:
        """The text on one line."""
        with self._lock:
            self._line(f"note  {clean(text)}")

    def _line(self, text: str) -> None:
        line = f"+{seconds(self._clock() - self._begun):<9} {text}\n"
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(line.encode(encoding, "replace").decode(encoding, "replace"))
        self._stream.flush()


class LiveProgress:
    """Finished cells scroll up; below them stand the running ones with their seconds, and the count."""

    def __init__(self, total: int, stream: TextIO, clock: Clock = time.monotonic) -> None:
        from rich.console import Console

        self._total, self._clock = total, clock
        self._console: Console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._style = Style(color=False, width=self._console.width, plain=not _writes_unicode(stream))
        self._running: dict[str, tuple[str, int, float]] = {}
        self._counts: dict[str, int] = {}
        self._begun, self._lock = clock(), threading.Lock()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.live import Live

        self._live = Live(
            console=self._console, refresh_per_second=4, transient=True, get_renderable=self._table
        )
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def started(self, cell: Cell, attempt: int) -> None:
        """The cell joins the running ones."""
        with self._lock:
            self._running[cell.id] = (clean(cell.id), attempt, self._clock())

    def finished(self, record: CellRecord) -> None:
        """The cell leaves the running ones; its line stays."""
        from rich.text import Text

        with self._lock:
            self._running.pop(record.cell.id, None)
            word = record.verdict.outcome
            self._counts[word] = self._counts.get(word, 0) + 1
            ending = _ending(record, sum(self._counts.values()), self._total)
        line = Text(self._style.face(word), style=_rich_style(word)).append(
            f"  {ending}", style="not bold default"
        )
        self._console.print(line)
        if why := _why(record):
            self._console.print(Text(f"    {why}", style="dim"))

    def note(self, text: str) -> None:
        """The text on a line that stays."""
        from rich.text import Text

        self._console.print(Text(f"· {clean(text)}", style="dim"))

    def _table(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        now = self._clock()
        with self._lock:
            running, counts = list(self._running.values()), dict(self._counts)
        table = Table.grid(padding=(0, 2))
        for name, attempt, since in running[-20:]:
            retry = f"retry {attempt - 1}" if attempt > 1 else ""
            table.add_row(
                Text("▸ running"), Text(name), Text(seconds(now - since), justify="right"), Text(retry)
            )
        words = ", ".join(f"{n} {LOOKS[word].label}" for word, n in counts.items())
        done = f"{sum(counts.values())} of {self._total} cells"
        bar = Text(f"{done}{f': {words}' if words else ''}  ({seconds(now - self._begun)})", style="bold")
        outer = Table.grid()
        outer.add_row(table)
        outer.add_row(bar)
        return outer


def _rich_style(word: str) -> str:
    sgr = {"32": "green", "31": "red", "33": "yellow", "35": "magenta", "2": "dim"}
    return sgr[TONES[LOOKS[word].tone].sgr]


def _writes_unicode(stream: TextIO) -> bool:
    try:
        "✓─▸".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
