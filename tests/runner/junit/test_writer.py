"""The merged file of a run: valid by the common schema, counts right, nothing red hidden, nothing left out silently."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import xmlschema

from runner.facts import CellExit, JUnitReport, Tally, TestCase, TestResult
from runner.junit import MAX_BYTES, read_bytes, write
from runner.machine import CpuFacts, Inventory
from runner.model import (
    Cell,
    CellSettings,
    Culprit,
    Limits,
    Outcome,
    Plan,
    PlanEntry,
    Reason,
    Status,
    Suite,
    Verdict,
)
from runner.records import Attempt, CellRecord, Run

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "data" / "junit.xsd")
SETTINGS = CellSettings(image="images/cpu", suite=Suite(), limits=Limits(), devices=0)
OK = Verdict(outcome=Outcome.PASSED)


def cell(tp: str = "1", **axes: str) -> Cell:
    return Cell.of({"platform": "cpu", "dtype": "bfloat16", "tp": tp, "quantization": "none"} | axes)


def entry(
    of: Cell, status: Status = Status.PLANNED, reason: str = "", refused: Reason | None = None
) -> PlanEntry:
    reasons = (Reason(text=reason, source="matrix.yaml:41"),) if reason else ()
    return PlanEntry(cell=of, status=status, settings=SETTINGS, reasons=reasons, refused=refused)


def run_of(*records: CellRecord, more: tuple[PlanEntry, ...] = (), **facts: Any) -> Run:
    entries = tuple(entry(record.cell) for record in records) + more
    plan = Plan(matrix="matrix.yaml", matrix_hash="0", axes={}, entries=entries)
    inventory = Inventory(hostname="node-a", boot_id="b", cpu=CpuFacts())
    facts = {"finished": True} | facts
    return Run(
        run_id="run-1",
        plan=plan,
        runtime="docker",
        runtime_detail="",
        inventory=inventory,
        records=records,
        **facts,
    )


def verdict(outcome: Outcome, culprit: Culprit = Culprit.PRODUCT, cause: str = "it broke") -> Verdict:
    return Verdict(outcome=outcome, culprit=culprit, cause=cause, remarks=("seen in the log",))


def attempt(number: int, said: Verdict, *failing: TestCase, tally: Tally | None = None) -> Attempt:
    ended = CellExit(exit_code=1, duration_s=1.0)
    return Attempt(
        number=number,
        verdict=said,
        exit=ended,
        started_at="2031-02-03T04:05:06+00:00",
        failing=failing,
        tally=tally,
    )


def record(said: Verdict, *attempts: Attempt, of: Cell | None = None) -> CellRecord:
    return CellRecord(cell=of or cell(), verdict=said, attempts=attempts, duration_s=12.34567)


def case(name: str, result: TestResult = TestResult.FAILED, *messages: str, **facts: Any) -> TestCase:
    facts.setdefault("classname", "tests.test_a")
    return TestCase(name=name, result=result, messages=messages, time_s=0.5, **facts)


def merged(run: Run, reports: Mapping[str, JUnitReport] | None = None, **options: int) -> ET.Element:
    """Write, check against the schema, check all counts against the elements, and give the tree."""
    data = write(run, reports, **options)
    SCHEMA.validate(io.BytesIO(data))
    root = ET.fromstring(data)
    sums = {"tests": 0, "failures": 0, "errors": 0}
    for suite in root:
        cases = suite.findall("testcase")
        held = {
            "tests": len(cases),
            "failures": sum(c.find("failure") is not None for c in cases),
            "errors": sum(c.find("error") is not None for c in cases),
            "skipped": sum(c.find("skipped") is not None for c in cases),
        }
        assert {key: int(suite.attrib[key]) for key in held} == held
        for key in sums:
            sums[key] += held[key]
    assert {key: int(root.attrib[key]) for key in sums} == sums
    return root


def suite_of(root: ET.Element, of: Cell) -> ET.Element:
    (found,) = [suite for suite in root if suite.get("name") == of.id]
    return found


def facts_of(suite: ET.Element) -> dict[str, str]:
    return {p.attrib["name"]: p.attrib["value"] for p in suite.iterfind("properties/property")}


def names_of(suite: ET.Element) -> list[str]:
    return [c.attrib["name"] for c in suite.iterfind("testcase")]


def children(suite: ET.Element, name: str) -> list[tuple[str, str]]:
    (found,) = [c for c in suite.iterfind("testcase") if c.get("name") == name]
    return [(child.tag, child.get("message", "")) for child in found]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_cell_is_red_in_the_file_exactly_when_it_did_not_pass(outcome: Outcome) -> None:
    said = verdict(outcome) if outcome is not Outcome.PASSED else OK
    root = merged(run_of(record(said, attempt(1, said, tally=Tally(total=1, passed=1)))))
    suite = suite_of(root, cell())
    assert names_of(suite) == [outcome.value]
    red = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    assert red == (outcome is not Outcome.PASSED)
    tally = read_bytes(write(run_of(record(said)))).tally
    assert (tally.failed + tally.errors == 0) is (outcome is Outcome.PASSED)
    if red:
        assert children(suite, outcome.value)[0][1] == f"{outcome.value}: it broke"


def test_axes_and_outcome_are_properties() -> None:
    said = verdict(Outcome.CRASHED, Culprit.IMAGE, "segfault in rank 1")
    of = cell("2", outcome="fast")
    suite = suite_of(merged(run_of(record(said, attempt(1, said), of=of))), of)
    assert facts_of(suite) == {
        "platform": "cpu",
        "dtype": "bfloat16",
        "tp": "2",
        "quantization": "none",
        "outcome": "fast",
        "cell.outcome": "crashed",
        "culprit": "image",
        "cause": "segfault in rank 1",
        "runtime": "docker",
        "attempts": "1",
    }
    assert suite.get("hostname") == "node-a"
    assert suite.get("timestamp") == "2031-02-03T04:05:06+00:00"
    assert suite.get("time") == "12.346"


def test_left_out_cells_are_skipped_with_their_reason_and_missing_ones_are_errors() -> None:
    out, far, other, gone = cell("8"), cell("4"), cell("2"), cell("16")
    more = (
        entry(out, Status.EXCLUDED, "CPU lane qualifies tp 1 and 2"),
        entry(far, Status.NOT_RUNNABLE, "no device"),
        entry(other, Status.NOT_SELECTED),
        entry(gone),
    )
    run = run_of(record(OK, attempt(1, OK)), more=more, finished=False, interrupted="SIGTERM")
    root = merged(run)
    assert [suite.get("name") for suite in root] == [e.cell.id for e in run.plan.entries]
    assert children(suite_of(root, out), "excluded") == [
        ("skipped", "CPU lane qualifies tp 1 and 2 (matrix.yaml:41)")
    ]
    assert children(suite_of(root, far), "not_runnable") == [("skipped", "no device (matrix.yaml:41)")]
    assert children(suite_of(root, other), "not_selected") == [("skipped", "not selected")]
    missing = "planned, but the run has no record of it: the run was interrupted by SIGTERM"
    assert children(suite_of(root, gone), "missing") == [("error", missing)]
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("5", "1", "0")


def test_refused_cell_without_an_attempt() -> None:
    said = verdict(Outcome.REFUSED, Culprit.CONFIG, "mamba cache mode 'align' needs chunked prefill")
    suite = suite_of(merged(run_of(CellRecord(cell=cell(), verdict=said, refused=True))), cell())
    assert children(suite, "refused") == [
        ("error", "refused: mamba cache mode 'align' needs chunked prefill")
    ]


def test_failing_tests_of_the_record_and_passing_ones_of_the_report() -> None:
    said = verdict(Outcome.FAILED, cause="test_b: call broke")
    broken = case("test_b", TestResult.FAILED, "call broke\nE  1 == 2", "failed on teardown")
    last = attempt(1, said, broken, tally=Tally(total=4, passed=1, failed=1, skipped=1, xfailed=1))
    report = JUnitReport(
        tally=Tally(total=4, passed=1, failed=1, skipped=1, xfailed=1),
        cases=(
            case("test_a", TestResult.PASSED),
            broken,
            case("test_s", TestResult.SKIPPED, "needs 8 devices"),
            case("test_x", TestResult.XFAILED, "issue 7"),
        ),
    )
    alone = suite_of(merged(run_of(record(said, last))), cell())
    assert names_of(alone) == ["test_b"]
    assert facts_of(alone)["tests"] == "4: 1 passed, 1 failed, 1 skipped, 1 xfailed"
    run = run_of(record(said, last))
    whole = suite_of(merged(run, {cell().id: report}), cell())
    assert names_of(whole) == ["test_a", "test_b", "test_s", "test_x"]
    assert children(whole, "test_a") == []
    assert children(whole, "test_b") == [("failure", "call broke")]
    assert whole.findtext("testcase[@name='test_b']/failure") == "call broke\nE  1 == 2\n\nfailed on teardown"
    assert read_bytes(write(run, {cell().id: report})).tally == report.tally


def test_tests_that_pass_do_not_hide_a_red_cell() -> None:
    said = verdict(Outcome.FELL_BACK, cause="rank 0 reports UnquantizedFusedMoEMethod")
    report = JUnitReport(tally=Tally(total=1, passed=1), cases=(case("test_a", TestResult.PASSED),))
    suite = suite_of(merged(run_of(record(said, attempt(1, said))), {cell().id: report}), cell())
    assert names_of(suite) == ["fell_back", "test_a"]
    assert children(suite, "fell_back") == [
        ("failure", "fell_back: rank 0 reports UnquantizedFusedMoEMethod")
    ]


def test_an_attempt_lost_to_the_host_is_shown_and_the_cell_stays_green() -> None:
    infra = verdict(Outcome.INFRA, Culprit.HOST, "pull timed out")
    suite = suite_of(
        merged(run_of(record(OK, attempt(1, infra), attempt(2, OK, tally=Tally(total=1, passed=1))))), cell()
    )
    assert children(suite, "passed") == [("flakyError", "attempt 1: infra: pull timed out")]
    assert suite.find("testcase/flakyError").get("type") == "infra"  # type: ignore[union-attr]


def test_failures_of_superseded_attempts() -> None:
    first = attempt(
        1,
        verdict(Outcome.FAILED),
        case("test_b", TestResult.FAILED, "first"),
        case("test_c", TestResult.ERROR, "c"),
    )
    flaky = verdict(Outcome.FLAKY)
    again = attempt(
        2, flaky, case("test_b", TestResult.FAILED, "second"), tally=Tally(total=3, passed=2, failed=1)
    )
    suite = suite_of(merged(run_of(record(verdict(Outcome.FAILED), first, again))), cell())
    assert children(suite, "test_b") == [("failure", "second"), ("rerunFailure", "attempt 1: first")]
    assert children(suite, "test_c") == [("flakyError", "attempt 1: c")]
    report = JUnitReport(
        tally=Tally(total=2, passed=1, failed=1),
        cases=(case("test_b", TestResult.FAILED, "second"), case("test_c", TestResult.PASSED)),
    )
    suite = suite_of(
        merged(run_of(record(verdict(Outcome.FAILED), first, again)), {cell().id: report}), cell()
    )
    assert children(suite, "test_c") == [("flakyError", "attempt 1: c")]


def test_a_failure_that_was_never_run_again_stands() -> None:
    first = attempt(1, verdict(Outcome.FAILED), case("test_b", TestResult.FAILED, "first"))
    crashed = verdict(Outcome.CRASHED)
    suite = suite_of(merged(run_of(record(crashed, first, attempt(2, crashed)))), cell())
    assert names_of(suite) == ["crashed", "test_b"]
    assert children(suite, "test_b") == [("failure", "failed in attempt 1, not run again: first")]


def test_flaky_and_rerun_inside_one_report() -> None:
    said = verdict(Outcome.FLAKY)
    cases = (
        case("test_f", TestResult.FLAKY, "try 1", "try 2", attempts=3),
        case("test_r", TestResult.FAILED, "one", "two", attempts=2),
        case("test_w", TestResult.ERROR, "worker crash: gw0", crashed=True),
    )
    run = run_of(record(said, attempt(1, said, *cases)))
    suite = suite_of(merged(run), cell())
    assert children(suite, "flaky") == [("failure", "flaky: it broke")]
    assert children(suite, "test_f") == [("flakyFailure", "try 1"), ("flakyFailure", "try 2")]
    assert children(suite, "test_r") == [("failure", "two"), ("rerunFailure", "one")]
    assert children(suite, "test_w") == [("error", "worker crash: gw0")]
    assert read_bytes(write(run)).tally == Tally(total=4, failed=2, errors=1, flaky=1)


def test_j19_tests_of_one_name_stay_apart() -> None:
    said = verdict(Outcome.FAILED)
    cases = (
        case("test_b", TestResult.FAILED, "x", file="x/u.py"),
        case("test_b", TestResult.FAILED, "y", file="y/u.py"),
        case("test_b", TestResult.FAILED, "z"),
        case("test_b", TestResult.FAILED, "z2"),
    )
    run = run_of(record(said, attempt(1, said, *cases)))
    assert names_of(suite_of(merged(run), cell())) == [
        "test_b (x/u.py)",
        "test_b (y/u.py)",
        "test_b",
        "test_b #2",
    ]
    assert read_bytes(write(run)).tally == Tally(total=4, failed=4)


def test_j11_forbidden_characters_are_replaced() -> None:
    nasty = "a\x00b \x1b[31mred\x1b[0m \x85 \ud800 \ufffe <&>\"']]> \U0001f525"
    said = verdict(Outcome.FAILED, cause=nasty)
    run = run_of(
        record(said, attempt(1, said, case(nasty, TestResult.FAILED, nasty + "\nmore " + nasty))),
        command=nasty,
    )
    suite = suite_of(merged(run), cell())
    safe = "a\u2400b red \ufffd \ufffd \ufffd <&>\"']]> \U0001f525"
    assert names_of(suite) == [safe]
    assert facts_of(suite)["cause"] == safe
    assert suite.findtext("testcase/failure") == f"{safe}\nmore {safe}"


def test_messages_are_cut_with_their_size() -> None:
    said = verdict(Outcome.FAILED)
    run = run_of(
        record(said, attempt(1, said, case("t", TestResult.FAILED, "m" * 1_000 + "\n" + "x" * 9_000)))
    )
    failure = merged(run).find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.get("message") == "m" * 300 + "... (1,000 characters)"
    assert "[... cut: 10,001 characters in all ...]" in (failure.text or "")
    assert len(failure.text or "") < 4_100


def big_run(cells: int, failing: int, passing: int) -> tuple[Run, dict[str, JUnitReport]]:
    said = verdict(Outcome.FAILED)
    broken = tuple(case(f"test_{n}", TestResult.FAILED, "x" * 3_500) for n in range(failing))
    fine = tuple(case(f"ok_{n}", TestResult.PASSED) for n in range(passing))
    tally = Tally(total=failing + passing, passed=passing, failed=failing)
    records = [record(said, attempt(1, said, *broken, tally=tally), of=cell(str(n))) for n in range(cells)]
    reports = {r.cell.id: JUnitReport(tally=tally, cases=broken + fine) for r in records}
    out = tuple(entry(cell(f"x{n}"), Status.EXCLUDED, "rule") for n in range(cells))
    return run_of(*records, more=out), reports


@pytest.mark.parametrize(
    ("limit", "said", "rows"),
    [
        (MAX_BYTES, None, 60),
        (600_000, "texts cut to 1,000 characters", 60),
        (250_000, "texts cut to 300 characters, passing tests not listed", 30),
        (110_000, "no texts, passing tests not listed, at most 20 others of a cell", 21),
        (20_000, "one failing test of a cell, no texts or facts", 2),
    ],
)
def test_size_is_capped_by_telling_less(limit: int, said: str | None, rows: int) -> None:
    run, reports = big_run(10, 30, 30)
    data = write(run, reports, max_bytes=limit)
    assert len(data) <= limit
    root = merged(run, reports, max_bytes=limit)
    for planned in run.plan.planned():
        suite = suite_of(root, planned.cell)
        assert len(names_of(suite)) == rows
        assert facts_of(suite).get("shortened") == said
        assert int(suite.attrib["failures"]) > 0
    left_out = [suite for suite in root if int(suite.attrib["skipped"]) == 1]
    assert len(left_out) == (10 if limit > 20_000 else 1)
    assert children(left_out[-1], names_of(left_out[-1])[0])[0][0] == "skipped"


def test_no_planned_cell_is_dropped_even_over_the_cap() -> None:
    run, reports = big_run(10, 3, 3)
    assert len(list(merged(run, reports, max_bytes=1))) == 11


def test_empty_run() -> None:
    assert merged(run_of()).attrib == {
        "name": "run-1",
        "tests": "0",
        "failures": "0",
        "errors": "0",
        "time": "0.0",
    }


def test_reading_needs_no_other_package() -> None:
    """Neither lxml nor junitparser is imported to read, so results cannot depend on what is installed."""
    code = (
        "import sys; from runner.junit import read_bytes, clean, read; read_bytes(b'<testsuites/>');"
        "print([m for m in sys.modules if m.partition('.')[0] in ('lxml', 'junitparser', 'defusedxml')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
