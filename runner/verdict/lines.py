"""One line of an engine's log, taken apart: who wrote it, at which level, and what it says.

The shape of a line is vLLM's (``vllm/logger.py`` and ``vllm/logging_utils/formatter.py``, 0.26 to 0.32):
``(Worker_TP1 pid=117) ERROR 11-30 12:40:38 [multiproc_executor.py:953] body``. Every part but the body may be missing.
The suite's ``engine-errors.log`` writes ``@ 1796050979.304 VllmWorker-1 117: body`` for what is logged as an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

HEAD_CHARS = 4096
"""Only this much of a line is looked at, in characters: a line of megabytes costs no more than a long one."""

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}m")
_PROCESS = re.compile(r"\((?P<process>[A-Za-z][\w.-]{0,40}) pid=(?P<pid>\d{1,10})\) ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[(?P<where>[^\]]{1,80})\] ?)?"
)
_SUITE = re.compile(r"@ \d{9,11}\.\d{1,6} (?P<process>[A-Za-z][\w.-]{0,40}) (?P<pid>\d{1,10}): ")
_TORCH_RANK = re.compile(r"\[rank(?P<rank>\d{1,5})\]: ?")
_RANK_IN_NAME = re.compile(r"(?:_TP|VllmWorker-|RayWorkerProc-)(?P<rank>\d{1,5})")
_RANK_IN_WORDS = re.compile(r"\bworld_size=\d+ rank=(?P<rank>\d{1,5})\b")
_PYTEST = re.compile(r"E {2,}")
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


def read_line(text: str) -> Iterator[LogLine]:
    """The log lines in one line of a file: progress bars redraw with carriage returns and swallow line ends."""
    head = text[:HEAD_CHARS].rstrip("\r\n")
    if "\x1b" in head:
        head = _COLOUR.sub("", head)
    for part in head.split("\r") if "\r" in head else (head,):
        yield _read_part(part)


def rank_in(process: str) -> int | None:
    """The rank that a worker's process name carries."""
    named = _RANK_IN_NAME.search(process)
    return int(named["rank"]) if named else None


def _read_part(part: str) -> LogLine:
    process = pid = level = where = ""
    rank: int | None = None
    if "pid=" in part and (found := _PROCESS.search(part)):
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
