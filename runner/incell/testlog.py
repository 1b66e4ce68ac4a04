"""pytest plugin (`-p incell.testlog`): one flushed line per test event in OUT/tests.jsonl, readable after a SIGKILL.

Events: begin {nodeid}; result {nodeid, when: setup|call|teardown, outcome: passed|failed|skipped, seconds, message: first
500 characters}; collect_error {nodeid, message}; session_finish {exitstatus}. Works with any suite. Where OUT cannot be
written the session goes on and stderr says so.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from .lines import Lines  # noqa: TID252 - in a cell this package is plain `incell`
from .where import out_folder  # noqa: TID252 - in a cell this package is plain `incell`

MESSAGE_LIMIT = 500


class TestLog:
    """The plugin object; one for a session."""

    __test__ = False

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins: after a kill, the test without results is the one that was running."""
        self._lines.append("begin", {"nodeid": nodeid})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A setup, call or teardown ended."""
        self._lines.append(
            "result",
            {
                "nodeid": report.nodeid,
                "when": report.when,
                "outcome": report.outcome,
                "seconds": round(report.duration, 3),
                "message": message_of(report.longrepr),
            },
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be collected is news as well."""
        if report.failed:
            self._lines.append(
                "collect_error", {"nodeid": report.nodeid, "message": message_of(report.longrepr)}
            )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """The session ended by itself."""
        self._lines.append("session_finish", {"exitstatus": int(exitstatus)})


def message_of(longrepr: Any) -> str:
    """The first 500 characters of what a report says: a skip's reason, a crash line, the first raised line, or the text."""
    if longrepr is None:
        return ""
    if isinstance(longrepr, tuple) and len(longrepr) == 3:
        return str(longrepr[2])[:MESSAGE_LIMIT]
    crash = getattr(longrepr, "reprcrash", None)
    text = getattr(crash, "message", None) or str(longrepr)
    raised = [line[1:].strip() for line in str(text).splitlines() if line.startswith("E ")]
    return (raised[0] if raised and crash is None else str(text))[:MESSAGE_LIMIT]


def pytest_configure(config: pytest.Config) -> None:
    """Registers the log where OUT is known; says on stderr where it is not."""
    folder, why = out_folder()
    if folder is None:
        sys.stderr.write(f"incell: no test log: {why}\n")
        return
    config.pluginmanager.register(TestLog(Lines(folder / "tests.jsonl")), "incell-testlog-lines")
