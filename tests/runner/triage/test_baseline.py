"""A run against a baseline: each change by its name, and nothing compared that is not the same test and model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from runner.model import Cell, Culprit, Outcome, Status
from runner.records import CellRecord, Prepared, PreparedModel, Run
from runner.triage import Change, compare
from runner.triage.baseline import slower_from
from tests.runner.report import factory as make

CELLS = [entry.cell for entry in make.plan().planned()]


def run(outcomes: Mapping[Cell, CellRecord | None], tests: str = "sha256:aa", model: str = "sha256:m") -> Run:
    records = [outcomes.get(cell, make.record(cell)) for cell in CELLS]
    made = PreparedModel(name="qwen3moe-tiny", path="/m", digest=model, source="recipe")
    prepared = Prepared(
        suites={"tests/moe": tests} if tests else {}, models={"images/cpu|qwen3moe-tiny": made}
    )
    return make.run(records=[r for r in records if r], prepared=prepared, run_id=f"run-{tests}")


def bad(cell: Cell, outcome: Outcome = Outcome.FAILED, culprit: Culprit = Culprit.PRODUCT) -> CellRecord:
    return make.record(cell, outcome, culprit=culprit, cause="wrong tokens")


A = CELLS[0]


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (make.record(A), bad(A), Change.NEW),
        (bad(A), make.record(A), Change.FIXED),
        (bad(A), bad(A, Outcome.CRASHED), Change.STILL),
        (make.record(A), bad(A, Outcome.FLAKY), Change.NEWLY_FLAKY),
        (bad(A), bad(A, Outcome.FLAKY), Change.NEWLY_FLAKY),
        (bad(A, Outcome.FLAKY), bad(A, Outcome.FLAKY), Change.STILL),
        (make.record(A), None, Change.MISSING),
        (None, make.record(A), Change.NO_ANSWER),
        (make.record(A), bad(A, Outcome.SKIPPED, Culprit.TEST), Change.SKIPPED),
        (make.record(A), bad(A, Outcome.INFRA, Culprit.HOST), Change.NO_ANSWER),
        (bad(A, Outcome.INFRA, Culprit.HOST), bad(A), Change.NO_ANSWER),
        (make.record(A, duration_s=40), make.record(A, duration_s=51), Change.SAME),
        (make.record(A, duration_s=40), make.record(A, duration_s=53), Change.SLOWER),
        (make.record(A, duration_s=0.5), make.record(A, duration_s=4), Change.SAME),
    ],
)
def test_changes(before: CellRecord | None, now: CellRecord | None, change: Change) -> None:
    found = compare(run({A: now}), run({A: before}))
    assert found.cells[0].change is change
    assert {one.change for one in found.cells[1:]} == {Change.SAME}
    assert sum(found.counts().values()) == len(CELLS)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (run({A: bad(A)}, tests="sha256:bb"), "the tests changed"),
        (run({A: bad(A)}, tests=""), "the hash of the tests was not recorded"),
        (run({A: bad(A)}, model="sha256:other"), "the model changed"),
    ],
)
def test_other_tests_or_models_are_never_compared(now: Run, why: str) -> None:
    found = compare(now, run({}))
    assert {(one.change, one.why) for one in found.cells} == {(Change.NOT_COMPARABLE, why)}
    assert found.text.endswith(f": 6 not comparable ({why})")


def test_left_out_now_is_skipped_and_gone_is_missing() -> None:
    before, now = run({}), run({})
    entries = tuple(
        replace(e, status=Status.NOT_SELECTED) if e.cell == A else e
        for e in now.plan.entries
        if e.cell != CELLS[1]
    )
    found = compare(replace(now, plan=replace(now.plan, entries=entries)), before)
    by_cell = {one.cell: one for one in found.cells}
    assert by_cell[A].change is Change.SKIPPED
    assert (by_cell[CELLS[1]].change, by_cell[CELLS[1]].why) == (Change.MISSING, "no longer in the matrix")


def test_noise_is_measured_where_there_is_enough_of_it() -> None:
    assert slower_from([40.0]) == 52.0
    assert slower_from([10.0]) == 15.0
    assert slower_from([40, 41, 39, 40, 42, 38]) == 45.0
    assert slower_from([40, 50, 30, 45, 35]) == pytest.approx(40 + 3 * 1.4826 * 5)
    assert slower_from([]) == float("inf")
    noisy = {A.id: [40.0, 80.0, 45.0, 75.0, 60.0]}
    slow = run({A: make.record(A, duration_s=80)})
    assert compare(slow, run({}), noisy).cells[0].change is Change.SAME
    assert compare(slow, run({})).cells[0].change is Change.SLOWER


def test_the_summary_line() -> None:
    found = compare(run({A: bad(A)}), run({}))
    assert found.text == "against run-sha256:aa: 1 new, 5 same"
