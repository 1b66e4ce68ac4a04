"""What a decision looks like: terminal, page, JSON, in-toto statement."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import UsageError
from runner.facts import PreparedImage, Watch
from runner.model import Cell, Outcome
from runner.pipeline.gate import write_page, write_statement
from runner.release import Because, Decision, Refusal, ledger, page, statement, text
from runner.release.values import Seen
from runner.runtimes import FakeCell
from tests.runner.release.conftest import Make
from tests.runner.release.factory import (
    DIGEST,
    FAIL,
    POLICY,
    TODAY,
    Gated,
    Scripted,
    days,
    evidence,
    junit,
    slug,
)
from tests.runner.release.test_waivers import BROKEN, LOW, waiver

EMPTY = "sha256:" + hashlib.sha256(b"").hexdigest()
"""The content of a suite without files, which these runs have."""
CELL = Cell.of({"platform": "cpu", "tp": "2"})


def red(said: str, cells: int = 1) -> Decision:
    seen = tuple(Seen(cell=CELL, text=said) for _ in range(cells))
    reason = Refusal(kind=Because.NOT_PASSED, text=said, details=(said,), cells=seen, fix=said)
    return Decision(policy="p.yaml", run_id="r", decided_on=TODAY, reasons=(reason,), also_red=seen)


def test_a_green_decision_says_what_was_counted(green: Gated) -> None:
    shown = green.gate().text(200)
    assert shown.splitlines()[:2] == [
        f"GREEN: the run qualifies by {green.policy}",
        f"run {green.folder.name}, decided on {TODAY}: 4 blocking cells = 4 passed",
    ]
    assert shown.endswith(
        "coverage: platform=cpu 4 of 4, quantization=none 2 of 2, quantization=experts_int8 2 of 2\n\n"
        f"suite suite: {EMPTY}\n"
    )


def test_the_page_names_what_is_qualified(green: Gated) -> None:
    shown = green.gate().page()
    assert shown.startswith("# Release gate: green\n")
    assert "- engine `0.32.0`\n" in shown
    assert f"- image `images/cpu: images/cpu {DIGEST}`\n" in shown
    assert f"- suite `suite {EMPTY}`\n" in shown
    assert "| `quantization=experts_int8` | 2 | 2 |\n" in shown


def test_one_blocking_cell_is_one(green: Gated) -> None:
    only = "version: 1\nblocking: platform=cpu and tp=2 and quantization=none\nengine_version: any\n"
    assert f"decided on {TODAY}: 1 blocking cell = 1 passed\n" in green.gate(policy=only).text(200)


def test_a_waived_cell_is_on_the_page_with_who_answers_for_it(make_run: Make) -> None:
    shown = make_run(BROKEN).gate(waiver(), policy=LOW).page()
    assert "## Waived cells" in shown
    assert f"`https://example.org/1`, owner `kernels`, until {days(10)} (`waivers.yaml:3`)" in shown


def test_json_holds_the_decision_and_the_exit_code(green: Gated) -> None:
    made = green.gate(today=days(31)).as_json()
    assert (made["green"], made["exit_code"], made["reasons"][0]["kind"]) == (False, 11, "age")
    assert json.loads(json.dumps(made)) == made


def test_many_cells_are_counted_and_not_listed() -> None:
    decision = red("x", cells=5000)
    for shown in (page(decision), text(decision, 80)):
        assert "and 4988 more" in shown
        assert len(shown.splitlines()) < 60


@given(st.text(max_size=60), st.integers(40, 160))
def test_text_of_others_stays_text(said: str, width: int) -> None:
    decision = red(f"x{said}x")
    lines = text(decision, width).split("\n")
    assert all(line.isprintable() for line in lines)
    # Only a word that is itself longer than a line may stick out: ids must stay whole to be copied.
    assert all(len(line) <= width or max(map(len, line.split())) > width - 8 for line in lines)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", page(decision))
    assert not set("<>*[@\\") & set(outside), outside


def test_a_pulled_image_is_qualified_by_the_registrys_digest_and_not_by_the_engines_id(
    make_run: Make,
) -> None:
    held = "sha256:" + "c" * 64

    class Pulled(Scripted):
        def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
            made = super().image(ref, log_path)
            return replace(made, ref=f"reg.invalid/vllm@{DIGEST}", id=held, how="pulled")

    gated = make_run(runtime=Pulled)
    result = gated.gate(policy=POLICY + f"images: {{cpu: {DIGEST}}}\n")
    assert result.green
    made = result.statement()
    assert made is not None
    (subject,) = made["subject"]
    assert subject["name"] == f"reg.invalid/vllm@sha256:{subject['digest']['sha256']}"
    assert not gated.gate(policy=POLICY + f"images: {{cpu: {held}}}\n").green


def test_a_statement_follows_test_result_v0_1(make_run: Make) -> None:
    gated = make_run(BROKEN)
    result = gated.gate(waiver(), policy=LOW)
    made = result.statement()
    assert made is not None
    assert (made["_type"], made["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://in-toto.io/attestation/test-result/v0.1",
    )
    assert made["subject"] == [{"name": "images/cpu", "digest": {"sha256": DIGEST.removeprefix("sha256:")}}]
    predicate = made["predicate"]
    assert predicate["result"] == "WARNED"
    assert predicate["warnedTests"] == ["platform=cpu,dtype=bfloat16,tp=2,quantization=experts_int8"]
    assert (len(predicate["passedTests"]), predicate["failedTests"]) == (3, [])
    run = result.run
    assert run is not None
    digests = [each["digest"]["sha256"] for each in predicate["configuration"]]
    book = ledger(run, result.decision)
    policy = hashlib.sha256(LOW.encode()).hexdigest()
    assert digests == [run.plan.matrix_hash, policy, hashlib.sha256(book).hexdigest()]
    lines = [json.loads(line) for line in book.splitlines()]
    assert [line["status"] for line in lines].count("excluded") == 2
    assert next(line for line in lines if line["waiver"]) == {
        "cell": predicate["warnedTests"][0],
        "status": "planned",
        "outcome": "failed",
        "waiver": "waivers.yaml:3",
    }


@pytest.mark.parametrize("outcome", ["missing", *Outcome])
def test_no_cell_is_in_two_lists_and_only_green_is_passed(green: Gated, outcome: str) -> None:
    result = green.gate()
    run = result.run
    assert run is not None
    last = run.records[-1]
    records = run.records[:-1]
    if outcome != "missing":
        verdict = replace(last.verdict, outcome=Outcome(outcome))
        records += (replace(last, verdict=verdict),)
    from runner.release import decide

    changed = replace(run, records=records)
    predicate = statement(changed, decide(changed, result.policy, (), TODAY))["predicate"]
    lists = [predicate[name] for name in ("passedTests", "warnedTests", "failedTests")]
    assert sorted(sum(lists, [])) == sorted(entry.cell.id for entry in run.plan.planned())  # noqa: RUF017 - three lists
    place = "passedTests" if outcome == "passed" else "warnedTests" if outcome == "flaky" else "failedTests"
    assert last.cell.id in predicate[place]
    assert predicate["result"] == ("PASSED" if outcome == "passed" else "FAILED")


def test_page_and_statement_are_written_and_a_stale_statement_goes(green: Gated, tmp_path: Path) -> None:
    result = green.gate()
    write_page(tmp_path / "gate.md", result)
    write_statement(tmp_path / "s.json", result)
    assert (tmp_path / "gate.md").read_text() == result.page()
    assert json.loads((tmp_path / "s.json").read_text())["predicate"]["result"] == "PASSED"
    book = hashlib.sha256((tmp_path / "s.ledger.jsonl").read_bytes()).hexdigest()
    assert json.loads((tmp_path / "s.json").read_text())["predicate"]["configuration"][-1] == {
        "name": "ledger.jsonl",
        "digest": {"sha256": book},
    }
    (green.folder / "run.json").write_text("{")
    write_statement(tmp_path / "s.json", green.gate())
    assert not list(tmp_path.glob("s.*"))
    with pytest.raises(UsageError, match="No such file"):
        write_page(tmp_path / "nowhere" / "gate.md", result)


def test_a_red_cell_is_shown_with_outcome_culprit_and_cause(make_run: Make) -> None:
    cell = FakeCell(exit_code=1, out={"junit.xml": junit(FAIL), "evidence.jsonl": evidence(1, "none")})
    shown = make_run({f"*{slug(1, 'none')}-*": cell}).gate().text(200)
    assert "- platform=cpu,dtype=bfloat16,tp=1,quantization=none: failed, culprit product: " in shown
    assert "KeyError: scale" in shown
