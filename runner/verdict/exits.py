"""Exit codes of a cell in words: which signal, whose, and the codes that shells and wrappers use.

128+n is how a shell and a container engine report signal n; a wrapper may give -n or 256-n for the same.
"""

from __future__ import annotations

import signal

_OWN = frozenset(
    {
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGPIPE,
        signal.SIGXCPU,
        signal.SIGXFSZ,
    }
)
_WRAPPED = frozenset({signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV})
TIMEOUT_WRAPPER = 124
"""Exit code of coreutils ``timeout``."""
NOT_STARTED = frozenset({126, 127})
"""A shell's codes for a program that cannot be executed, or is not there (POSIX 2.8.2)."""
NO_TESTS_COLLECTED = 5
"""pytest's exit code for a session without tests (``pytest.ExitCode.NO_TESTS_COLLECTED``)."""


def signal_of(code: int | None) -> signal.Signals | None:
    """The signal that an exit code reports, or None."""
    if code is None:
        return None
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if 256 - code in _WRAPPED:
        number = 256 - code
    try:
        return signal.Signals(number) if number else None
    except ValueError:
        return None


def own_signal(code: int | None) -> signal.Signals | None:
    """The signal by which a process died of itself, such as SIGSEGV or SIGABRT."""
    number = signal_of(code)
    return number if number in _OWN else None


def foreign_signal(code: int | None) -> signal.Signals | None:
    """The signal by which somebody else ended the process, such as SIGKILL or SIGTERM."""
    number = signal_of(code)
    return None if number is None or number in _OWN else number


def exit_words(code: int | None) -> str:
    """An exit code for a person: ``exit code 139 (SIGSEGV)``."""
    number = signal_of(code)
    if code is None:
        return "no exit code"
    return f"exit code {code}" + (f" ({number.name})" if number is not None else "")
