"""The streamed test log of a cell, whole and damaged."""

from __future__ import annotations

from typing import Any

from runner.facts import TestProgress
from runner.verdict import read_progress
from tests.runner.verdict.test_events import lines


def result(node: str, when: str, outcome: str = "passed") -> dict[str, Any]:
    return {"event": "result", "nodeid": node, "when": when, "outcome": outcome}


def whole_test(node: str, outcome: str = "passed") -> list[dict[str, Any]]:
    return [
        {"event": "begin", "nodeid": node},
        result(node, "setup"),
        result(node, "call", outcome),
        result(node, "teardown"),
    ]


def test_the_test_that_was_running_is_named() -> None:
    events = [*whole_test("t::a"), *whole_test("t::b", "failed"), {"event": "begin", "nodeid": "t::c"}]
    assert read_progress(lines(*events)) == TestProgress(finished=2, passed=1, failed=1, running="t::c")


def test_a_test_that_dies_in_its_teardown_is_still_running() -> None:
    assert read_progress(lines(*whole_test("t::a")[:3])) == TestProgress(finished=1, passed=1, running="t::a")


def test_a_setup_that_fails_or_skips_finishes_its_test() -> None:
    events = [
        {"event": "begin", "nodeid": "t::a"},
        result("t::a", "setup", "skipped"),
        result("t::a", "teardown"),
    ]
    assert read_progress(lines(*events)) == TestProgress(finished=1)


def test_a_session_that_finished_has_nothing_running() -> None:
    events = [*whole_test("t::a"), {"event": "session_finish", "exitstatus": 0}]
    assert read_progress(lines(*events)) == TestProgress(finished=1, passed=1, session_finished=True)


def test_a_file_that_cannot_be_collected_counts_as_failed() -> None:
    assert read_progress(lines({"event": "collect_error", "nodeid": "t.py", "message": "x"})).failed == 1


def test_a_cut_test_log_keeps_what_it_said() -> None:
    text = lines(*whole_test("t::a"), {"event": "begin", "nodeid": "t::b"})
    assert read_progress([*text, '{"t": 1, "ev']) == TestProgress(finished=1, passed=1, running="t::b")


def test_a_session_that_a_signal_ended_names_the_test_it_was_stopped_in() -> None:
    events = [
        *whole_test("t::a"),
        {"event": "begin", "nodeid": "t::b"},
        {"event": "session_finish", "exitstatus": 2},
    ]
    assert read_progress(lines(*events)) == TestProgress(
        finished=1, passed=1, running="t::b", session_finished=True
    )
