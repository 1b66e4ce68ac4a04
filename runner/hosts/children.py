"""Run a probe in a child process that can be given up: NVML and vendor tools can hang in the kernel for ever."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from dataclasses import dataclass

ANSWER_LIMIT_BYTES = 4 << 20
REAP_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Answer:
    """What a child printed. ``problem`` is one line where it gave no whole answer; ``hung`` where it had to be killed."""

    text: str = ""
    problem: str = ""
    hung: bool = False


_given_up: list[subprocess.Popen[bytes]] = []
"""Children that did not die of SIGKILL at once (uninterruptible sleep): kept, so that a later call can reap them."""


def ask(argv: tuple[str, ...], timeout_s: float) -> Answer:
    """Run ``argv`` and return what it prints, after ``timeout_s`` seconds at the latest (plus half a second to reap).

    Output goes to a file and not a pipe: a child stuck in the kernel keeps a pipe open and a reader waiting.
    """
    _given_up[:] = [child for child in _given_up if child.poll() is None]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            return Answer(problem=f"{argv[0]} cannot be started: {error.strerror}")
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _give_up(child)
            return Answer(problem=f"no answer within {timeout_s:g} s", hung=True)
        except BaseException:
            _give_up(child)
            raise
        out.seek(0)
        text = out.read(ANSWER_LIMIT_BYTES).decode("utf-8", "replace")
        if code:
            err.seek(0)
            words = err.read(ANSWER_LIMIT_BYTES).decode("utf-8", "replace").strip().splitlines()
            return Answer(text=text, problem=(words[-1] if words else f"ended with code {code}")[:300])
        return Answer(text=text)


def _give_up(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(REAP_WAIT_S)
    if child.poll() is None:
        _given_up.append(child)
