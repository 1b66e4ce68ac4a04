"""What a log alone shows: whole lives of an engine, what came after them, an engine's host that failed, the running test.

Only ``explain`` uses it. A run knows the exit code and the report, so it never has to believe a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from runner.facts import Finding, TestProgress
from runner.model import Culprit, Outcome, Verdict
from runner.verdict.causes import ERROR
from runner.verdict.faults import classify_message
from runner.verdict.finding import SHOWN_CHARS
from runner.verdict.lines import LineReader, LogLine, is_exception

_START = re.compile(r"Initializing an? (?:V\d )?LLM engine \(")
"""The first words of an engine core (vllm/v1/engine/core.py 0.26 to 0.32)."""
_LIFE = ("init engine (profile", "Processed prompts: 100%", "[shutdown]")
"""An engine's log from its start over a generation to its shutdown (vLLM 0.26 to 0.32)."""

_SIGNALLED = r"(?:Killed|Aborted|Terminated|Hangup|Quit|Bus error|Illegal instruction|Segmentation fault|Floating point exception)"
_DEATH = re.compile(
    r"\(core dumped\)|\bSegmentation fault\b"
    rf"|(?:^|: ){_SIGNALLED}(?:: \d+)?\s*$|: line \d+:\s+\d+ {_SIGNALLED}\b"
    r"|[Oo]ut of memory: Kill|oom-kill:|\bXid \(|Watchdog caught collective operation timeout"
    r"|^make(?:\[\d+\])?: \*\*\* |\b(?:exited|completed|ended|failed|finished|returned) with (?:exit )?(?:status|code) (?!0\b)-?\d"
    r"|\bexit (?:status|code):? (?!0\b)-?\d|^##\[error\]|^\W{0,6}(?:FATAL|PANIC|[Pp]anic)\b|^fatal: "
    r"|^(?:FAILED|ERROR) \S|^(?:=+ )?(?:.*, )?[1-9]\d* (?:failed|errors?)\b.*\bin \d"
    r"|^(?:\w+\.)*(?:AssertionError|KeyboardInterrupt)\b|^SystemExit: (?!0\b)"
)
"""How a shell, a kernel, a CI, NCCL, make and pytest say that something ended badly, in lines that no cause row knows.

Sources: bash jobs.c, dash jobs.c, glibc strsignal; mm/oom_kill.c; torch ProcessGroupNCCL.cpp 2.13; pytest 9 terminal.py.
"""

_BAD_END = re.compile(
    r"\b(?:fail(?:ed|ures?|s)?|errors?|fatal|abort(?:ed|ing)?|kill(?:ed)?|terminated?|crash(?:ed)?|died|panic|traceback|exception"
    r"|corrupt(?:ed|ion)|segfault|traps|dumped|smashing|pure virtual|invalid pointer|undefined symbol"
    r"|cancell?ed|interrupt(?:ed)?|time(?:d ?out|out| limit)|not ok|non-?zero|no tests ran|oom\w{0,12}|outcomes\.exit"
    r"|signal \d+|sig[a-z]{2,6})\b|\^C|segmentation|internalerror"
    r"|\b(?:rc|exit(?:ed)?|return) ?(?:with )?(?:exit )?(?:code|status)?\W{0,6}[1-9]\d{0,9}\b"
    r"|^(?!.*\bpassed\b).*\b[1-9]\d* (?:skipped|deselected) in \d",
    re.IGNORECASE,
)
"""Any word for a bad end, wherever it stands: after the last engine's life nothing else is left to speak of."""
_NO_HARM = re.compile(
    r"\b(?:0|no|zero|without(?: an?y?)?) (?:\w{1,20} )?(?:failed|failures?|errors?|exceptions?|crash|timeouts?)\b"
    r"|\b(?:failed|failures?|errors?|timeouts?|aborted|killed)[\"']? ?[=:]? ?0\b",
    re.IGNORECASE,
)
_MILD = re.compile(r"\b(?:INFO|DEBUG|PASSED)\b|\b[Ww]arn|\bWARN|Warning\b")
_IGNORED = "Exception ignored in"
"""CPython's words before a traceback that ends nothing (``sys.unraisablehook``)."""

_ENGINE_SPEAKS = re.compile(
    r"^(?:docker|podman|nerdctl): |Error response from daemon|^error during connect|^Error: "
)
_VAGUE = frozenset({"daemon", "container_state", "registry_down", "network", "no_such_program"})
"""Faults whose words a script may say as well: they count only where a container engine speaks."""
_NO_CONTAINER = 125
"""The exit code of ``docker run`` for a container that the engine could not make (docker's manual)."""

_FILE = re.compile(r"[^\s:\[]{1,300}\.py::")
_RESULT = re.compile(r"(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN)\b")
_NODE_CHARS = 600


class VerboseTests:
    """Which test a log of ``pytest -v`` shows as running, and how many finished before it.

    pytest writes a test's name when it begins, and its result behind it or, after other output, on a line of its own.
    With several workers (pytest-xdist) the lines do not say which test runs, so then none is named.
    """

    def __init__(self) -> None:
        self.running, self.passed, self.failed, self.finished = "", 0, 0, 0
        self._several = False

    def take(self, line: str) -> None:
        """Take the next line."""
        self._several = self._several or line.startswith("[gw")
        begun = _FILE.match(line)
        if begun:
            rest = line[begun.end() : _NODE_CHARS]
            found = next((m for m in _RESULT.finditer(rest) if rest[: m.start()].endswith(" ")), None)
            self.running = begun[0] + _name(rest[: found.start()] if found else rest)
            self._ended(found)
        elif self.running and line.startswith("==="):
            self.running = ""
        elif self.running:
            self._ended(_RESULT.match(line))

    def _ended(self, result: re.Match[str] | None) -> None:
        if result is None:
            return
        self.running = ""
        self.finished += 1
        self.passed += result[0] == "PASSED"
        self.failed += result[0] in {"FAILED", "ERROR"}

    def progress(self) -> TestProgress | None:
        """How far the tests came; None where no running test can be told."""
        if not self.running or self._several:
            return None
        return TestProgress(
            finished=self.finished, passed=self.passed, failed=self.failed, running=self.running
        )


def _name(rest: str) -> str:
    """A test's name, with blanks only inside the brackets of its parameters."""
    words = rest.strip()
    return (
        words[: words.rindex("]") + 1] if "[" in words.split(" ")[0] and "]" in words else words.split(" ")[0]
    )


class LogLife:
    """Passes lines on and notes what they show. :attr:`whole` and the rest are known when all were taken."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._left: list[str] | None = None
        self._cut_short = self._any_whole = False
        self._spoiled: Finding | None = None
        self._host: str = ""
        self._ignored = False
        self.tests = VerboseTests()

    def __iter__(self) -> Iterator[str]:
        reader = LineReader()
        for number, line in enumerate(self._lines, 1):
            for part in reader.read(line):
                self._engine(part.body)
                if self._spoiled is None and not part.quiet and self._tells(part):
                    shown = part.body.strip()[:SHOWN_CHARS]
                    self._spoiled = Finding(line=shown, kind=ERROR, line_number=number)
                if self._left is None and not part.process and not self._host:
                    self._host = _host_words(part.body)
            self.tests.take(line)
            yield line

    def _tells(self, part: LogLine) -> bool:
        """Whether a line tells of a bad end. What Python ignored, and warnings, end nothing."""
        words = part.body
        if part.quoted or _DEATH.search(words):
            return True
        if self._ignored or words.startswith(_IGNORED):
            self._ignored = not is_exception(words)
            return False
        return self._left == [] and not _MILD.search(words) and bool(_BAD_END.search(_NO_HARM.sub("", words)))

    def _engine(self, words: str) -> None:
        if _START.search(words):
            self._cut_short = self._cut_short or bool(self._left)
            self._left = list(_LIFE)
        elif not self._left and _LIFE[0] in words:  # of a log whose beginning is not there
            self._left = list(_LIFE[1:])
        elif self._left and self._left[0] in words:
            self._left.pop(0)
            self._any_whole = self._any_whole or not self._left

    @property
    def whole(self) -> bool:
        """Whether each engine that started also generated and shut down, and there was one."""
        return self._left == [] and not self._cut_short

    @property
    def spoiled(self) -> Finding | None:
        """The first line that tells of a bad end in words that no cause row knows; it decides nothing by itself."""
        if self._spoiled is None and self._any_whole and not self.whole:
            words = "of several engines that started, one did not generate and shut down"
            return Finding(line=words, kind=ERROR)
        return self._spoiled

    def host_fault(self, exit_code: int | None) -> Verdict | None:
        """What a container engine said instead of starting a cell; None where an engine started, or it said nothing."""
        words = self._host
        known = classify_message(words)
        if self._left is not None or known is None or exit_code == 0:
            return None
        if known.name in _VAGUE and not _ENGINE_SPEAKS.search(words) and exit_code != _NO_CONTAINER:
            return None
        if known.fault is not None:
            outcome = Outcome.INFRA
        else:
            outcome = Outcome.REFUSED if known.culprit is Culprit.CONFIG else Outcome.CRASHED
        return Verdict(
            outcome=outcome,
            culprit=known.culprit,
            cause=words[:SHOWN_CHARS],
            fault=known.fault,
            remarks=(f"what to do: {known.hint}",),
        )


def _host_words(body: str) -> str:
    known = classify_message(body)
    return body.strip() if known is not None else ""
