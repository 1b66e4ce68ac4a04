"""The first worker error of a multi-process log, with its rank: one pass, bounded per line and in memory.

Candidates are ordered by who speaks, then by who spoke first: an exception of an engine process; an error that the
table knows, from anywhere; an exception of the process that started the engine; a line at level ERROR; and last,
errors that only tell of another one ("Engine core initialization failed"). Sources: the logs in the tests' data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from runner.facts import Finding
from runner.verdict.causes import CRASHED, ENGINE_ONLY, ERROR, EXCEPTION, is_consequence, kind_of
from runner.verdict.lines import LineReader, LogLine, is_assertion, is_exception, rank_in

SHOWN_CHARS = 300
_MOST_PROCESSES = 256
_FRAME = re.compile(r' {2,8}File "(?P<file>[^"]{1,400})", line (?P<line>\d+), in (?P<name>\S{1,100})')
_CUT_BY_PYTEST = "[+"
"""pytest 9 cuts the message attribute of a report: ``[+2 more lines; full report in element text]``."""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_VALIDATION = re.compile(r"validation errors? for \w+$")
_PYDANTIC_TAIL = re.compile(r" \[type=\w{1,60}, .*$")
_FIELD = re.compile(r"[A-Za-z_]\w{0,80}(?:\.\S{1,200})?")
_MOST_WAITED = 8
_PYDANTIC_HEAD = re.compile(r"^(?:Assertion failed|Value error), ")
_START_FAILED = re.compile(
    r"EngineStartFailed: (?:(?P<process>(?:\w*Worker|EngineCore|MainProcess)[\w-]{0,40}): )?(?P<rest>.*?)(?:; then [A-Z]\w{1,60}: .*)?$"
)
"""The suite's summary of a start that failed (``tests/moe/engine.py``): the first worker error, then what was raised."""
_DEATHS = frozenset({"rank_killed", "rank_died"})
"""The engine core's word for a worker that died without one of its own: it names the rank."""
_DEAD_RANK = re.compile(r"VllmWorker-(?P<rank>\d{1,5})")
_TRIGGER = re.compile(
    r"rror|EADDRINUSE|died unexpectedly|No space left|quota exceeded|Segfault|Segmentation fault|Bus error"
    r"|already in use|fault by GPU|Exception by GPU|terminate called|NVML|/dev/kfd|/dev/dri|GPUs are available"
    r"|CUDA-capable|shared memory|fallen off|device type|busy or unavailable|not yet initialized|driver version"
)
_NOISE = re.compile(
    r"Dumping (?:input data|scheduler output)|failed to start\.$|encountered a fatal error|hit an exception\.?$"
    r"|\[shutdown\]|leaked \w+ objects|Traceback \(most recent|^(?:FAILED|ERROR) \S{1,300}::"
)


class _Tier(IntEnum):
    """Who speaks: a lower tier always wins."""

    ENGINE = 0
    KNOWN = 1
    STARTER = 2
    LOGGED = 3
    CONSEQUENCE = 4


@dataclass(slots=True)
class _Trace:
    """Where one process stands in a traceback that it is writing."""

    open: bool = False
    unraisable: bool = False
    chained: bool = False
    frame: str = ""
    of_tokenizer: bool = False
    wants: int = 0
    validating: bool = False
    loose: bool = False
    text: str = ""
    at: tuple[LogLine, int] | None = None
    last_kind: str = ""
    last_number: int = 0


@dataclass(frozen=True, slots=True)
class _Candidate:
    tier: _Tier
    finding: Finding
    pid: str


class _Scan:
    """One pass over a log."""

    def __init__(self) -> None:
        self.best: _Candidate | None = None
        self.ranks: dict[str, int] = {}
        self.traces: dict[tuple[str, str], _Trace] = {}
        self.before: LogLine | None = None
        self.owner: LogLine | None = None

    def take(self, line: LogLine, number: int) -> None:
        """Take the next line of the log."""
        line = self._owned(line)
        if line.rank is not None and line.pid and len(self.ranks) < _MOST_PROCESSES:
            self.ranks.setdefault(line.pid, line.rank)
        if line.quiet:
            return
        trace = self._trace(line)
        if line.body.startswith("Traceback (most recent call last)"):
            self._settle(trace)
            trace.open, trace.frame, trace.of_tokenizer = True, "", False
        elif trace.open:
            self._inside(line, number, trace)
        elif trace.wants:
            self._continued(line, trace)
        elif line.body.startswith(_CHAINED):
            trace.chained = True
        elif line.body.startswith("Exception ignored in"):
            trace.unraisable = True
        elif line.body and (line.level or _TRIGGER.search(line.body)):
            self._outside(line, number, trace)

    def _owned(self, line: LogLine) -> LogLine:
        """A traceback without a process name belongs to the ERROR line right before it.

        vLLM's own formatter repeats the prefix on every line; Python's, which a logging configuration may ask for,
        writes it once.
        """
        before, self.before = self.before, line
        if line.process:
            self.owner = None
        elif line.body.startswith("Traceback (most recent call last)"):
            if before is not None and before.process and before.level in {"ERROR", "CRITICAL"}:
                self.owner = before
        elif self.owner is not None:
            trace = self._trace(self.owner)
            if line.body and not (trace.open or trace.wants or line.body.startswith(_CHAINED)):
                self.owner = None
        if self.owner is None:
            return line
        owner = self.owner
        return replace(line, process=owner.process, pid=owner.pid, rank=owner.rank, level=owner.level)

    def _trace(self, line: LogLine) -> _Trace:
        key = (line.process, line.pid)
        if key not in self.traces and len(self.traces) >= _MOST_PROCESSES:
            del self.traces[next(iter(self.traces))]
        return self.traces.setdefault(key, _Trace())

    def _inside(self, line: LogLine, number: int, trace: _Trace) -> None:
        """Inside a traceback: frames until the exception itself, which is not indented."""
        if frame := _FRAME.match(line.body):
            file = frame["file"].rsplit("/", 1)[-1]
            trace.frame = f"{file}:{frame['line']} in {frame['name']}"
            trace.of_tokenizer = trace.of_tokenizer or "tokeniz" in file
        elif is_exception(line.body):
            trace.open = False
            self._begin(line.body.rstrip(), line, number, trace, loose=False)

    def _outside(self, line: LogLine, number: int, trace: _Trace) -> None:
        """Words outside a traceback: an exception (pytest's "E" lines too), words of the table, or an ERROR line."""
        body = line.body.strip()
        if found := _START_FAILED.search(body):
            process = found["process"] or line.process
            line = replace(line, process=process, rank=rank_in(process))
            body = found["rest"].strip('" ')
        if not _NOISE.search(body):
            self._begin(body, line, number, trace, loose=True)

    def _begin(self, text: str, line: LogLine, number: int, trace: _Trace, *, loose: bool) -> None:
        """Take an error's first line; pydantic's details, and a message on the next line, are waited for."""
        trace.text, trace.at, trace.loose = text, (line, number), loose
        if _VALIDATION.search(text):
            trace.wants, trace.validating = _MOST_WAITED, True
        elif text.endswith(":") and is_exception(text):
            trace.wants, trace.validating = 1, False
        else:
            self._settle(trace)

    def _continued(self, line: LogLine, trace: _Trace) -> None:
        trace.wants -= 1
        detail = line.body.strip()
        if detail.startswith(_CUT_BY_PYTEST) and trace.at is not None:
            # The whole of it follows in the same report; this beginning counts only if it does not.
            began, number = trace.at
            kind = kind_of(trace.text) or EXCEPTION
            self._offer(_Candidate(_Tier.CONSEQUENCE, _finding(trace.text, kind, began, number), began.pid))
            trace.at, trace.wants = None, 0
            return
        # A validator's detail is told from other processes' lines between by its own words; a field's name stands above.
        told = not trace.validating or _PYDANTIC_TAIL.search(detail) or _PYDANTIC_HEAD.match(detail)
        if detail and (told or _FIELD.fullmatch(detail)):
            trace.text += "\n" + _PYDANTIC_TAIL.sub("", detail)
        if not trace.wants or (detail and told):
            self._settle(trace)

    def _settle(self, trace: _Trace) -> None:
        trace.wants = 0
        if trace.at is None:
            return
        line, number = trace.at
        trace.at = None
        if trace.loose:
            self._loose(trace.text, line, number)
        else:
            self._exception(line, number, trace)

    def _exception(self, line: LogLine, number: int, trace: _Trace) -> None:
        text, chained, ignored = trace.text, trace.chained, trace.unraisable
        if trace.of_tokenizer and "JSONDecodeError" in text:
            text += " (while the tokenizer was read)"  # the words of the error name no file
        trace.chained = trace.unraisable = False
        if ignored:
            return
        known = _kind(text, line)
        if is_consequence(text):
            tier, kind = _Tier.CONSEQUENCE, known or CRASHED
        elif line.of_engine:
            tier, kind = _Tier.ENGINE, known or CRASHED
        else:
            tier, kind = (_Tier.KNOWN, known) if known else (_Tier.STARTER, EXCEPTION)
        # Of one chain, an error that the table knows says more than the unknown one that it was raised from.
        vague = chained and known is not None and trace.last_kind in {CRASHED, EXCEPTION}
        instead_of = trace.last_number if vague else 0
        trace.last_kind, trace.last_number = kind, number
        finding = _finding(_shown(text, trace.frame), kind, line, number)
        self._offer(_Candidate(tier, finding, line.pid), instead_of)

    def _loose(self, body: str, line: LogLine, number: int) -> None:
        exception = is_exception(body)
        kind = _kind(body, line, bare=not exception) or (CRASHED if exception and line.of_engine else None)
        if exception and is_consequence(body):
            tier, kind = _Tier.CONSEQUENCE, kind or CRASHED
        elif kind is not None:
            tier = _Tier.ENGINE if kind in _DEATHS else _Tier.KNOWN
        elif line.level and not line.body.startswith(" "):
            tier, kind = _Tier.LOGGED, ERROR
        else:
            return
        self._offer(_Candidate(tier, _finding(_shown(body, ""), kind, line, number), line.pid))

    def _offer(self, candidate: _Candidate, instead_of: int = 0) -> None:
        """Keep the better candidate: the lower tier, then the earlier one, unless it is replaced by its own chain."""
        best = self.best
        follows = best is not None and candidate.tier == best.tier and best.finding.line_number == instead_of
        if best is None or candidate.tier < best.tier or follows:
            self.best = candidate

    def result(self) -> Finding | None:
        """What was found; an error that the log's end cuts off counts as it stands."""
        for trace in self.traces.values():
            self._settle(trace)
        if self.best is None:
            return None
        found = self.best.finding
        rank = found.rank if found.rank is not None else self.ranks.get(self.best.pid)
        return replace(found, rank=rank)


def _kind(text: str, line: LogLine, *, bare: bool = False) -> str | None:
    """The kind of an error, as far as its speaker can know it: what a test asserts, or pytest quotes, is no error's word."""
    if not line.of_engine and (is_assertion(text) or (bare and line.quoted)):
        return None
    kind = kind_of(text, bare=bare)
    return None if kind in ENGINE_ONLY and not line.of_engine else kind


def _finding(shown: str, kind: str, line: LogLine, number: int) -> Finding:
    dead = _DEAD_RANK.search(shown) if kind in _DEATHS else None
    rank = int(dead["rank"]) if dead else line.rank
    return Finding(line=shown, kind=kind, rank=rank, process=line.process, line_number=number)


def _shown(text: str, frame: str) -> str:
    """One line for a person: a validator's detail instead of its header, and a place for an error without words."""
    first, _, rest = text.partition("\n")
    parts = [part for part in rest.split("\n") if part and not part.startswith("For further information")]
    if _VALIDATION.search(first) and parts:
        words = ": ".join(_PYDANTIC_HEAD.sub("", part) for part in parts)
    elif parts:
        words = f"{first} {parts[0]}"
    elif ":" not in first and frame:
        words = f"{first} ({frame})"
    else:
        words = first
    if _PYDANTIC_HEAD.match(words):
        words = _PYDANTIC_TAIL.sub("", _PYDANTIC_HEAD.sub("", words))
    return words if len(words) <= SHOWN_CHARS else words[: SHOWN_CHARS - 1] + "\N{HORIZONTAL ELLIPSIS}"


def find_cause(lines: Iterable[str]) -> Finding | None:
    """The first error of a worker, or the engine's refusal, in the lines of a log; None where there is no error.

    Reads once and keeps a bounded state; of each line only the first 4,096 characters are looked at.
    """
    scan, reader = _Scan(), LineReader()
    for number, text in enumerate(lines, 1):
        for line in reader.read(text):
            scan.take(line, number)
    return scan.result()
