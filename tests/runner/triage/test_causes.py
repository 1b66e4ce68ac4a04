"""One cause over many cells is one line with its count; each red cell is in exactly one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.model import Culprit, Outcome, Reason, Status
from runner.triage import causes, settle, signature
from runner.triage.wording import joined
from tests.runner.report import factory as make


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rank 1: diff 0.31 > 0.01", "rank 3: diff 2 > 0.01"),
        ("cannot open /models/a/x.bin: error 5", "cannot open /tmp/q: error 28"),
        ("fault at 0x7f01 in worker", "fault at 0xdead in worker"),
        ("(VllmWorker-0 pid=12) boom", "(VllmWorker-3 pid=9999) boom"),
        ("(Worker_TP1 pid=77) boom", "(Worker_TP0 pid=78) boom"),
        ("test_weights[rank1] failed", "test_weights[rank0] failed"),
        ("lost cuda:0 at 12:30:01.5", "lost cuda:7 at 01:00:59.25"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-aaaa-12d3-a456-42661417abcd"),
        ("device GPU-000b is lost", "device GPU-0009-1f is lost"),
        ("image sha256:0123456789abcdef gone", "image sha256:fedcba9876543210 gone"),
    ],
)
def test_one_cause_has_one_signature(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("expected int8", "expected int4"),
        ("expected bfloat16", "expected float16"),
        ("experts_w13 missing", "experts_w2 missing"),
        ("Xid error", "ECC error"),
    ],
)
def test_words_are_no_chance(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_causes_count_cells_over_word_culprit_and_signature() -> None:
    records = [
        make.record(
            entry.cell, Outcome.FAILED, culprit=Culprit.PRODUCT, cause=f"rank {n}: token {n * 7} differs"
        )
        for n, entry in enumerate(make.plan().planned()[:5])
    ]
    records.append(
        make.record(make.plan().planned()[5].cell, Outcome.INFRA, culprit=Culprit.HOST, cause="no space left")
    )
    found = causes(make.run(records=records))
    assert [(len(cause.cells), cause.line) for cause in found] == [
        (5, "rank 0..4: token 0..28 differs"),
        (1, "no space left"),
    ]
    assert found[1].rule is None
    assert found[1].advice == "mend the host, then run --failed-in this folder"


def test_missing_cells_are_a_cause_and_a_green_run_has_none() -> None:
    run = make.run()
    assert causes(run) == ()
    cut = replace(run, records=run.records[:4])
    (cause,) = causes(cut)
    assert (cause.word, len(cause.cells), cause.culprit) == ("missing", 2, Culprit.UNKNOWN)


def test_settle_names_cells_that_could_run_and_no_other() -> None:
    """quark_int8 fails at tp 1 and 2 on cpu; float16 was sampled out and would tell whether dtype matters."""

    def decide(axes: dict[str, str]) -> tuple[Status, tuple[Reason, ...]]:
        if axes["platform"] != "cpu":
            return Status.NOT_RUNNABLE, (Reason(text="no device"),)
        return (Status.PLANNED if axes["dtype"] == "bfloat16" else Status.NOT_SELECTED), ()

    plan = make.plan(decide=decide)  # type: ignore[arg-type]
    records = [
        make.record(entry.cell, Outcome.FAILED, culprit=Culprit.PRODUCT, cause="wrong tokens")
        if entry.cell.get("quantization") == "quark_int8" and entry.cell.get("tp") in ("4", "8")
        else make.record(entry.cell)
        for entry in plan.planned()
    ]
    ids = settle(make.run(plan, records))
    assert ids
    open_ids = {e.cell.id for e in plan.entries if e.status is Status.NOT_SELECTED}
    assert set(ids) <= open_ids
    assert settle(make.run()) == ()


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([], ""),
        (["a 1", "a 1"], "a 1"),
        (["off by 0.31 (bound 0.5)", "off by 12.5 (bound 0.5)"], "off by 0.31..12.5 (bound 0.5)"),
        (["rank 9: lost", "rank 10: lost", "rank 2: lost"], "rank 2..10: lost"),
        (["cannot open /a/x", "cannot open /b/y"], "cannot open ..."),
        (["fault at 0x7f01 here", "fault at 0xdead here"], "fault at ... here"),
        (["one", "one and two"], "one (and 1 wordings like it)"),
        (["off by -0.5 nats", "off by -0.7 nats"], "off by -0.7..-0.5 nats"),
        (["diff 1e-05", "diff 3e-06"], "diff 3e-06..1e-05"),
        (["needs torch 2.11.1", "needs torch 2.11.0"], "needs torch ..."),
        (["lost expert-5", "lost expert-7"], "lost expert-5..7"),
    ],
)
def test_the_line_of_a_cause_is_true_of_all_its_cells(lines: list[str], wanted: str) -> None:
    assert joined(lines) == wanted


def test_a_cell_that_failed_of_something_else_first_is_said_to_be_masked() -> None:
    """quark_int8 fails at every width but one, where a crash came first: the crash may hide the same failure."""
    plan = make.plan({**make.AXES, "platform": ("cuda", "cpu")}, make.everything)
    records = []
    for entry in plan.planned():
        quark = entry.cell.get("quantization") == "quark_int8"
        crashed = quark and entry.cell.get("tp") == "8" and entry.cell.get("platform") == "cpu"
        if crashed:
            records.append(
                make.record(entry.cell, Outcome.CRASHED, culprit=Culprit.PRODUCT, cause="no such operator")
            )
        elif quark:
            records.append(
                make.record(entry.cell, Outcome.FAILED, culprit=Culprit.PRODUCT, cause="wrong tokens")
            )
        else:
            records.append(make.record(entry.cell))
    wrong, crash = causes(make.run(plan, records))
    assert wrong.rule is not None
    assert wrong.rule.rule == "quantization=quark_int8"
    assert set(wrong.masked) == set(crash.cells)
    assert not set(crash.masked) & set(crash.cells)


def test_a_guess_masks_nothing() -> None:
    """One failing cell makes no rule, so nothing can be said to be hidden by another."""
    first, second, *rest = (entry.cell for entry in make.plan().planned())
    records = [
        make.record(first, Outcome.FAILED, culprit=Culprit.PRODUCT, cause="wrong tokens"),
        make.record(second, Outcome.CRASHED, culprit=Culprit.PRODUCT, cause="no such operator"),
        *(make.record(cell) for cell in rest),
    ]
    assert [cause.masked for cause in causes(make.run(records=records))] == [(), ()]


def test_a_cell_that_the_host_failed_is_not_asked_for() -> None:
    """It would fail so again until the host is mended; one that was stopped, or left no record, is asked for."""
    plan = make.plan(make.AXES, make.everything)
    host = [e.cell for e in plan.planned() if e.cell.get("dtype") == "float16"]
    records = [
        make.record(entry.cell, Outcome.INFRA, culprit=Culprit.HOST, cause="no space left")
        if entry.cell in host
        else make.record(entry.cell, Outcome.FAILED, culprit=Culprit.PRODUCT, cause="wrong tokens")
        if entry.cell.get("quantization") == "quark_int8" and entry.cell.get("tp") in ("4", "8")
        else make.record(entry.cell)
        for entry in plan.planned()
    ]
    assert not set(settle(make.run(plan, records))) & {cell.id for cell in host}
    stopped = [
        make.record(r.cell, Outcome.CANCELLED, culprit=Culprit.NONE, cause="stopped") if r.cell in host else r
        for r in records
    ]
    assert set(settle(make.run(plan, stopped))) <= {cell.id for cell in host}
    assert settle(make.run(plan, stopped))
