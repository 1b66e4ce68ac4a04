"""One line of an engine's log, taken apart: who wrote it, at which level, and what it says.

The shape of a line is vLLM's (``vllm/logger.py`` and ``vllm/logging_utils/formatter.py``, 0.26 to 0.32):
``(Worker_TP1 pid=117) ERROR 11-30 12:40:38 [multiproc_executor.py:953] body``. Every part but the body may be missing.
The suite's ``engine-errors.log`` writes ``@ 1796050979.304 VllmWorker-1 117: body`` for what is logged as an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HEAD_CHARS = 4096
"""Only this much of a line is looked at, in characters: a line of megabytes costs no more than a long one."""

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]{0,20}[ -/]{0,4}[@-~]|[\]_P^][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
"""A terminal's control sequence (ECMA-48: CSI; OSC, APC, DCS and PM). Buildkite writes times as ``ESC _bk;t=... BEL``."""

_COLLECTED = re.compile(
    r"(?=[\w\[])(?!E {2})(?:[A-Za-z0-9][\w.-]{0,60} {1,40}\|(?: |$))?"
    r"(?:\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)\]?(?: |$)(?:std(?:out|err) [FP] )?)?"
)
"""What stands before each line of ``docker compose logs``, ``docker logs -t``, a CI's raw log and a CRI's log file."""
_OWN = re.compile(
    r"\([A-Za-z][\w.-]{0,40} pid=\d{1,10}\) |(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \["
)
"""Where vLLM's own words begin in a line: what stands before them in line after line is a collector's."""
_PREFIX_CHARS, _PREFIX_LINES, _MOST_PREFIXES = 160, 3, 8
_JSON_FILE, _JSON_CHARS = '{"log":', 1 << 17
"""How a line of docker's json-file log driver begins; it splits longer output after 16 KiB."""
_PROCESS = re.compile(r"\((?P<process>[A-Za-z][\w.-]{0,40}) pid=(?P<pid>\d{1,10})\) ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[(?P<where>[^\]]{1,80})\] ?)?"
)
_SUITE = re.compile(r"@ \d{9,11}\.\d{1,6} (?P<process>[A-Za-z][\w.-]{0,40}) (?P<pid>\d{1,10}): ")
_TORCH_RANK = re.compile(r"\[rank(?P<rank>\d{1,5})\]: ?")
_RANK_IN_NAME = re.compile(r"(?:_TP|VllmWorker-|RayWorkerProc-)(?P<rank>\d{1,5})")
_RANK_IN_WORDS = re.compile(r"\bworld_size=\d+ rank=(?P<rank>\d{1,5})\b")
_PYTEST = re.compile(r"E {2,}")
_OF_PYTEST = re.compile(r"E {2,}|(?:FAILED|ERROR) \S{1,300}::")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,12}(?:[A-Z]\w{1,80}|[a-z]{1,30}error)(?::(?: |$)|$)")
_ASSERTION = re.compile(
    r"\s{0,40}(?:failed on \w{1,20} with \")?(?:(?:[A-Za-z_]\w{0,80}\.){0,12}(?:AssertionError\b|Failed: )|assert )"
)
_ENGINE_NAMES = ("Worker", "VllmWorker", "EngineCore", "RayWorker", "rank")


@dataclass(frozen=True, slots=True)
class LogLine:
    """``body`` keeps its own indentation; ``process`` is empty for a line that carries no process name."""

    body: str
    process: str = ""
    pid: str = ""
    level: str = ""
    where: str = ""
    rank: int | None = None
    quoted: bool = False

    @property
    def of_engine(self) -> bool:
        """Whether an engine core or a worker wrote it, and not the process that started the engine."""
        return self.process.startswith(_ENGINE_NAMES)

    @property
    def quiet(self) -> bool:
        """Whether its writer says that it is no error."""
        return self.level in {"DEBUG", "INFO", "WARNING"}


class LineReader:
    """Reads the lines of one log in order, without what a collector put before each (kubectl, journald, a CI, mpirun).

    A prefix is learned and not listed: what stands before the first lines of vLLM's own shape goes from every line that
    begins with it, digits apart. Where one of those lines has nothing before it, the log has no prefix, and nothing
    is learned from what later lines quote.
    """

    def __init__(self) -> None:
        self._bare = False
        self._seen = 0
        self._known: dict[str, re.Pattern[str]] = {}

    def read(self, text: str) -> Iterator[LogLine]:
        """The log lines in one line of a file."""
        return read_line(_unwrapped(text) if text.startswith(_JSON_FILE) else text, self._prefix)

    def _prefix(self, head: str) -> int:
        """How many characters a collector put before this line."""
        if self._bare:
            return 0
        likely = "pid=" in head or " [" in head
        if likely and (own := _OWN.search(head, 0, 2 * _PREFIX_CHARS)):
            return self._learned(head, own.start())
        return next((found.end() for each in self._known.values() if (found := each.match(head))), 0)

    def _learned(self, head: str, length: int) -> int:
        before = head[:length]
        if not length and self._seen < _PREFIX_LINES:
            self._bare = True
            self._known.clear()
        odd = length > _PREFIX_CHARS or "\r" in before or _OF_PYTEST.match(before) or is_exception(before)
        if not length or odd:
            return 0
        # Digits differ from line to line, and so may the blanks before and between; those at the end are the body's.
        inner = re.sub(r"(?:\\[ \t])+(?=.)", r"[ \\t]*", re.escape(before.rstrip()))
        shape = re.sub(r"\d+", r"\\d+", inner) + re.escape(before[len(before.rstrip()) :])
        self._seen += 1
        if shape not in self._known and len(self._known) < _MOST_PREFIXES:
            self._known[shape] = re.compile(shape)
        return length


def _unwrapped(text: str) -> str:
    """The line in one object of docker's json-file driver; the text as it is where it is no such object."""
    try:
        said = json.loads(text) if len(text) <= _JSON_CHARS else None
    except (ValueError, RecursionError):
        said = None
    inner = said.get("log") if isinstance(said, dict) else None
    return inner if isinstance(inner, str) else text


def read_line(text: str, prefix: Callable[[str], int] = lambda _: 0) -> Iterator[LogLine]:
    """The log lines in one line of a file: progress bars redraw with carriage returns and swallow line ends.

    NULs (a log that was cut while it was written has holes) and what a collector put before the line are left out;
    ``prefix`` says how many characters of it the known ones leave.
    """
    head = text.lstrip("\0")[:HEAD_CHARS].rstrip("\r\n").replace("\0", "")
    if "\x1b" in head:
        head = _SEQUENCE.sub("", head)
    if collected := _COLLECTED.match(head):
        head = head[collected.end() :]
    if length := prefix(head):
        head = head[length:]
    for part in head.split("\r") if "\r" in head else (head,):
        yield _read_part(part)


def rank_in(process: str) -> int | None:
    """The rank that a worker's process name carries."""
    named = _RANK_IN_NAME.search(process)
    return int(named["rank"]) if named else None


def is_exception(text: str) -> bool:
    """Whether a text begins as the last line of a traceback does: a class, then a colon or nothing."""
    return _EXCEPTION.match(text) is not None


def is_assertion(text: str) -> bool:
    """Whether a text begins as a failed assertion (or ``pytest.fail``): a test's own word, which may quote any error."""
    return _ASSERTION.match(text) is not None


def _read_part(part: str) -> LogLine:
    process = pid = level = where = ""
    rank: int | None = None
    # What pytest quotes may quote a log in turn: only a prefix right behind its own mark says who speaks.
    within = part.startswith(("E  ", "FAILED ", "ERROR ")) and _OF_PYTEST.match(part)
    if "pid=" in part and (found := _PROCESS.match(part, within.end()) if within else _PROCESS.search(part)):
        process, pid = found["process"], found["pid"]
        rank = rank_in(process)
        part = part[found.end() :]
    elif part.startswith("@ ") and (found := _SUITE.match(part)):
        process, pid, level, rank = found["process"], found["pid"], "ERROR", rank_in(found["process"])
        part = part[found.end() :]
    if found := _TORCH_RANK.match(part):
        rank = int(found["rank"])
        process = process or f"rank{rank}"
        part = part[found.end() :]
    if found := _LEVEL.match(part):
        level, where = found["level"], found["where"] or ""
        part = part[found.end() :]
    if rank is None and "world_size=" in part and (found := _RANK_IN_WORDS.search(part)):
        rank = int(found["rank"])
    quoted = part.startswith("E  ") and not process
    if quoted and (found := _PYTEST.match(part)):
        part = part[found.end() :]
    return LogLine(part, process, pid, level, where, rank, quoted)
