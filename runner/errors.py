"""Every failure this program reports by itself, and the exit code of each: one line, where, and what to do.

::

    RunnerError                  (2 unless said)
    +-- UsageError               a wrong option, an unknown cell
    +-- FileError                a file of the user with mistakes: all of them, each with file:line:column and the fix
    |   +-- MatrixError          a matrix file
    |   +-- PolicyError          a release policy or a file of waivers
    +-- PrepareError             an image, model or probe that could not be made ready (becomes a verdict, not an exit)
    +-- BadReport                a JUnit file that cannot be read as one (becomes a verdict)
    +-- BadRunFolder             a run folder that this version cannot read
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from runner.model import Culprit, Fault

if TYPE_CHECKING:
    from runner.facts import Tally


class ExitCode(IntEnum):
    """Exit codes of the command line. 1, 94, 125-127, 255 and 128+n mean something else in every CI and are not used.

    Precedence where several apply: interrupted, USAGE, RED, GATE, host faults, NOTHING_RAN, OK.
    """

    OK = 0
    USAGE = 2
    RED = 10
    GATE = 11
    HOST_NETWORK = 12
    NOTHING_RAN = 13
    HOST = 75
    SIGINT = 130
    SIGTERM = 143


class RunnerError(Exception):
    """Base of all errors a user can cause or must know; ``str()`` is what the user reads."""

    exit_code = ExitCode.USAGE


class UsageError(RunnerError):
    """A wrong option or argument."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a file. ``line`` and ``column`` count from 1; ``fix`` says what to write instead."""

    path: str
    line: int
    column: int
    text: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.text}" + (f" ({self.fix})" if self.fix else "")


class FileError(RunnerError):
    """A file of the user with mistakes, all reported together."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = mistakes


class MatrixError(FileError):
    """A matrix file with mistakes."""


class PolicyError(FileError):
    """A release policy or a file of waivers with mistakes."""


class PrepareError(RunnerError):
    """An image, model or probe could not be made ready. ``fault`` decides the verdict of the cells that need it.

    ``culprit`` says more where it is known: the configuration asks for what is not there or not allowed.
    ``left_behind``: the handle of what was started, could not be removed and may still hold its devices.
    """

    def __init__(
        self, message: str, fault: Fault, *, culprit: Culprit | None = None, left_behind: str = ""
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.culprit = culprit
        self.left_behind = left_behind


class BadReport(RunnerError):
    """A JUnit file that is no whole report; ``truncated`` where its end is missing.

    ``partial`` counts what was read until there, where something was: to be shown, never to be judged by.
    """

    def __init__(self, message: str, *, truncated: bool = False, partial: Tally | None = None) -> None:
        super().__init__(message)
        self.truncated = truncated
        self.partial = partial


class BadRunFolder(RunnerError):
    """A run folder that is unfinished, damaged or of another version."""
