"""``explain`` on the cases' reports and the labelled logs, with nothing known that is not given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner import junit
from runner.errors import BadReport
from runner.facts import JUnitReport
from runner.verdict import explain

DATA = Path(__file__).parent / "data"
LABELS: dict[str, dict[str, Any]] = json.loads((DATA / "logs" / "labels.json").read_text())


def report(name: str) -> tuple[JUnitReport | None, str]:
    try:
        return junit.read(DATA / name), ""
    except BadReport as error:
        return None, str(error)


def explained(name: str, code: int | None = None) -> dict[str, Any]:
    return explain(*report(name), None, code, None)


ROWS: list[tuple[str, int | None, str, dict[str, int]]] = [
    ("crash.xml", None, "crashed", {"total": 3, "passed": 2, "failed": 0, "errors": 1, "skipped": 0}),
    ("crash-then-pass.xml", 0, "crashed", {"total": 2}),
    ("lost-tests.xml", None, "passed", {"total": 3, "passed": 3}),
    ("lost-tests.xml", 1, "failed", {"total": 3, "passed": 3}),
    ("subtests.xml", 1, "failed", {"total": 2, "passed": 1, "failed": 1}),
    ("subtests-pass.xml", 0, "passed", {"total": 1, "passed": 1}),
    ("all-skipped.xml", 0, "skipped", {"total": 3, "passed": 0, "skipped": 3}),
    ("empty.xml", 0, "no_tests", {"total": 0}),
    ("empty.xml", 5, "no_tests", {"total": 0}),
    ("no-suite.xml", None, "no_tests", {"total": 0}),
    ("cut-in-tag.xml", 0, "bad_report", {}),
    ("cut-after-case.xml", 0, "bad_report", {}),
]


@pytest.mark.parametrize(("name", "code", "outcome", "tests"), ROWS)
def test_j12_j22_j23_j26(name: str, code: int | None, outcome: str, tests: dict[str, int]) -> None:
    found = explained(name, code)
    assert found["outcome"] == outcome
    assert found["tests"] | tests == found["tests"]


def test_j12_partial_counts_are_shown_and_judge_nothing() -> None:
    """Two tests passed before the file breaks off: said as such, and the outcome stays bad_report."""
    with pytest.raises(BadReport) as caught:
        junit.read(DATA / "cut-after-case.xml")
    said = explain(None, str(caught.value), None, 0, None, partial=caught.value.partial)
    assert said["outcome"] == "bad_report"
    assert said["tests_partial"] is True
    assert said["tests"] == {"total": 2, "passed": 2, "failed": 0, "errors": 0, "skipped": 0}
    assert "tests_partial" not in explained("crash.xml")


def test_j12_says_truncated() -> None:
    for name in ("cut-in-tag.xml", "cut-after-case.xml"):
        assert "truncated" in explained(name, 0)["cause"]


def test_j22_lost_tests_are_no_plain_pass() -> None:
    assert (
        "the header promises 6 tests, the file holds 3: 3 not reported"
        in explained("lost-tests.xml")["cause"]
    )


def test_j22_the_crashed_test_is_named() -> None:
    assert "test_boom" in explained("crash-then-pass.xml", 0)["cause"]


def test_j26_the_common_reason_is_named() -> None:
    assert explained("all-skipped.xml", 0)["cause"] == "all 3 tests were skipped: no accelerator visible"


@pytest.mark.parametrize("name", LABELS)
def test_labelled_log_alone(name: str) -> None:
    label = LABELS[name]
    lines = (DATA / "logs" / name).read_bytes().decode("utf-8", "replace").splitlines()
    found = explain(None, "", lines, None, None)
    assert found["outcome"] == label["outcome"]
    assert found["culprit"] == label.get("culprit", "none")
    assert label.get("cause", "judged by the log alone") in found["cause"]


def test_the_keys_are_those_promised() -> None:
    found = explain(None, "", None, None, None)
    assert list(found) == ["outcome", "culprit", "cause", "tests"]
    assert list(found["tests"]) == ["total", "passed", "failed", "errors", "skipped"]
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (None, "no_report"),
        (0, "no_report"),
        (1, "no_report"),
        (137, "killed"),
        (139, "crashed"),
        (5, "no_tests"),
    ],
)
def test_an_exit_code_alone_is_never_green(code: int | None, outcome: str) -> None:
    assert explain(None, "", None, code, None)["outcome"] == outcome


def test_a_log_without_an_engines_whole_life_is_no_pass() -> None:
    assert explain(None, "", ["copying"], 0, None)["outcome"] == "no_report"
    cut = (DATA / "logs" / "cpu-0.32-qwen3-moe-bf16-pass.log").read_text("utf-8", "replace").splitlines()[:40]
    assert explain(None, "", cut, None, None)["outcome"] == "no_report"


def test_a_good_log_does_not_make_up_for_a_bad_exit_or_missing_evidence() -> None:
    lines = (DATA / "logs" / "cpu-0.32-qwen3-moe-bf16-pass.log").read_text("utf-8", "replace").splitlines()
    assert explain(None, "", lines, 1, None)["outcome"] == "no_report"
    assert explain(None, "truncated", lines, 0, None)["outcome"] == "bad_report"
    assert explain(None, "", lines, 0, [])["outcome"] == "no_report"


def test_given_evidence_must_prove_something() -> None:
    good, _ = report("subtests-pass.xml")
    assert explain(good, "", None, 0, [])["outcome"] == "unproven"
    engine = {"event": "engine", "name": "vllm", "version": "0.32.0", "tp": 1}
    rank = {"event": "rank", "rank": 0, "world_size": 1, "layers": []}
    lines = [json.dumps(event) for event in ({"event": "start"}, engine, rank, {"event": "end"})]
    assert explain(good, "", None, 0, lines)["outcome"] == "passed"
    for part in (lines[1:], lines[:-1], lines[::-1], [*lines, *lines[1:]], [*lines[:-1], lines[-1][:5]]):
        assert explain(good, "", None, 0, part)["outcome"] == "unproven"


def test_flaky_and_expected_failures_keep_the_counts_adding_up() -> None:
    xml = b"""<testsuites><testsuite name="p" tests="2"><testcase classname="t" name="a"><failure message="x"/></testcase>
    <testcase classname="t" name="a"/><testcase classname="t" name="b"><skipped type="pytest.xfail" message="m"/></testcase>
    </testsuite></testsuites>"""
    found = explain(junit.read_bytes(xml), "", None, 0, None)
    assert found["outcome"] == "flaky"
    assert found["tests"] == {"total": 2, "passed": 1, "failed": 0, "errors": 0, "skipped": 1}
