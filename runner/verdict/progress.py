"""How far the tests of a cell came: the streamed test log, written by ``runner/incell/testlog.py``."""

from __future__ import annotations

from collections.abc import Iterable

from runner.facts import TestProgress
from runner.verdict.events import read_objects

INTERRUPTED = 2
"""pytest's exit status for a session that a signal ended (``pytest.ExitCode.INTERRUPTED``)."""


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def read_progress(lines: Iterable[str]) -> TestProgress:
    """How far the tests came, from the lines of the streamed test log. Never raises.

    A test is finished when its call (or a setup that did not pass) has a result. ``running`` is the test that began
    last and whose teardown has no result, unless the session itself finished and was not stopped in that test.
    """
    finished: set[str] = set()
    passed: set[str] = set()
    failed: set[str] = set()
    running, session_finished, interrupted = "", False, False
    for event in read_objects(lines):
        if event is None:
            continue
        node, when, outcome = (
            _word(event.get("nodeid")),
            _word(event.get("when")),
            _word(event.get("outcome")),
        )
        if event["event"] == "begin":
            running = node
        elif event["event"] == "result" and node:
            if when != "setup" or outcome != "passed":
                finished.add(node)
            if when == "call" and outcome == "passed":
                passed.add(node)
            if outcome in {"failed", "error"}:
                failed.add(node)
            if when == "teardown" and node == running:
                running = ""
        elif event["event"] == "collect_error":
            failed.add(node)
        elif event["event"] == "session_finish":
            session_finished = True
            interrupted = event.get("exitstatus") == INTERRUPTED
    return TestProgress(
        finished=len(finished),
        passed=len(passed - failed),
        failed=len(failed),
        running="" if session_finished and not interrupted else running,
        session_finished=session_finished,
    )
