"""Whatever a run holds, every form of the report is made, is one whole, and holds no control character."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.facts import CellExit, Evidence, RankFacts
from runner.model import Cell, Culprit, Outcome, Plan, Stop, Verdict
from runner.records import Attempt, CellRecord, Run
from runner.report import html, markdown, plan_text, terminal
from tests.runner.report import factory as make
from tests.runner.report.test_report_page import Page

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
ANYTHING = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["</script>", "```\n\n# x", "\x1b]0;a\x07", "a\rb", "|"]
)


def every_form(run: Run) -> None:
    for text in (
        terminal(run, color=False, width=100),
        plan_text(run.plan, run.runtime_detail),
        markdown(run),
        html(run, lambda _: run.runtime_detail),
    ):
        assert text.strip()
        assert not CONTROL.search(text)
        text.encode()
    page = Page(text)
    assert page.open == []
    assert len(page.data()["cells"]) == len(run.plan.entries)


@settings(max_examples=40, deadline=None)
@given(value=ANYTHING, cause=ANYTHING, name=ANYTHING, message=ANYTHING)
def test_any_text(value: str, cause: str, name: str, message: str) -> None:
    axes = {
        "platform": ("cuda", "cpu"),
        "tp": ("1", "2"),
        "quantization": ("none", "quark_int8"),
        "extra" + value: ("plain", value),
    }
    plan = make.plan(axes, make.everything)
    where = plan.entries[0].cell
    bad = make.record(
        where,
        Outcome.FAILED,
        culprit=Culprit.PRODUCT,
        cause=cause,
        failing=[make.failing_case(name, message, value)],
    )
    every_form(make.run(plan, [bad], run_id=value, command=cause, runtime_detail=message, interrupted=name))


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_shown_by_its_word(outcome: Outcome) -> None:
    records = [
        make.record(entry.cell, outcome, culprit=Culprit.UNKNOWN, cause="c")
        for entry in make.plan().planned()
    ]
    run = make.run(records=records)
    every_form(run)
    word = outcome.replace("_", " ")
    assert f" {word}" in terminal(run, color=False, width=100)
    assert word in markdown(run)
    assert f" {word}<i>41s</i></a>" in html(run, lambda _: None)


def test_numbers_that_are_none() -> None:
    where = make.short(1, "none")
    evidence = Evidence(
        phases={"load": float("nan"), "ready": float("inf")},
        max_abs_logprob_diff=float("nan"),
        ranks=(RankFacts(rank=0, world_size=1),),
    )
    exit_ = CellExit(exit_code=None, duration_s=float("inf"), stopped=Stop.HUNG)
    verdict = Verdict(outcome=Outcome.HUNG, culprit=Culprit.UNKNOWN)
    record = CellRecord(
        cell=where,
        verdict=verdict,
        attempts=(Attempt(number=1, verdict=verdict, exit=exit_, evidence=evidence),),
        duration_s=float("nan"),
    )
    every_form(make.run(records=[record]))


@pytest.mark.parametrize(
    "plan",
    [
        make.plan({}, make.everything),
        make.plan({"platform": ("cpu",)}, make.everything),
        Plan(matrix="m.yaml", matrix_hash="", axes={}, entries=()),
        replace(
            make.plan(),
            entries=(*make.plan().entries, replace(make.plan().entries[-1], cell=Cell.of({"other": "x"}))),
        ),
    ],
    ids=["no axis", "one axis", "no cell", "cell of other axes"],
)
def test_odd_shapes(plan: Plan) -> None:
    every_form(make.run(plan, []))
