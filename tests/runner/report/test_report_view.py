"""What a run says: totals that add up, a headline that is never green by mistake, groups, causes, rerun lines."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from runner.model import Cell, Culprit, Fault, Outcome, Status, Verdict
from runner.records import CellRecord, Prepared, PrepareFailure, Run
from runner.report import MISSING, html, rerun_line, terminal
from runner.report.grid import fold, grid
from runner.report.groups import left_out
from runner.report.view import outcome_sum, plan_sum, view
from tests.runner.report import factory as make


def test_all_passed_is_green() -> None:
    shown = view(make.run())
    assert shown.green
    assert shown.tone == "good"
    assert shown.headline == "All 6 planned cells passed."


@pytest.mark.parametrize(
    ("run", "headline"),
    [
        (make.mixed(), "3 of 6 planned cells did not pass: 1 failed, 1 fell back, 1 refused."),
        (make.run(finished=False), "Incomplete: the run did not finish; 6 of 6 planned cells passed so far."),
        (
            make.run(interrupted="SIGINT"),
            "Incomplete: interrupted by SIGINT; 6 of 6 planned cells passed so far.",
        ),
        (
            make.run(records=[make.record(make.short(1, "none"))]),
            "Incomplete: 5 planned cells without a result; 1 of 6 planned cells passed so far.",
        ),
        (
            make.run(
                records=[
                    *make.run().records,
                    make.record(make.cell("platform=cuda,dtype=float16,tp=1,quantization=none")),
                ]
            ),
            "Incomplete: 1 record of no planned cell; 6 of 6 planned cells passed so far.",
        ),
        (
            make.run(records=[*make.run().records, make.run().records[0]]),
            "Incomplete: 1 record of no planned cell; 6 of 6 planned cells passed so far.",
        ),
        (
            make.run(make.plan(decide=lambda _: (Status.NOT_SELECTED, ())), []),
            "Nothing ran: none of 72 cells was planned.",
        ),
    ],
    ids=["red", "unfinished", "interrupted", "missing", "stray", "twice", "nothing"],
)
def test_anything_else_is_not_green(run: Run, headline: str) -> None:
    shown = view(run)
    assert not shown.green
    assert shown.tone != "good"
    assert shown.headline == headline


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.PASSED])
def test_every_other_outcome_is_red(outcome: Outcome) -> None:
    records = [make.record(make.short(1, "none"), outcome), *make.run().records[1:]]
    shown = view(make.run(records=records))
    assert [cell.word for cell in shown.red] == [outcome]
    assert not shown.green


def test_the_headline_names_the_most_frequent_outcomes_and_counts_the_rest() -> None:
    bad = [Outcome.INFRA, Outcome.FAILED, Outcome.FAILED, Outcome.HUNG, Outcome.CRASHED, Outcome.SKIPPED]
    records = [make.record(e.cell, word) for e, word in zip(make.plan().planned(), bad, strict=True)]
    assert view(make.run(records=records)).headline == (
        "6 of 6 planned cells did not pass: 2 failed, 1 crashed, 1 hung, 2 others."
    )


def test_totals_add_up() -> None:
    run = make.run(records=make.mixed().records[:4])
    shown = view(run)
    assert plan_sum(run.plan) == "product 72 = 6 planned + 18 excluded + 48 not runnable + 0 not selected"
    assert outcome_sum(shown) == "planned 6 = 3 passed + 1 fell back + 2 missing"
    assert shown.outcomes == {Outcome.PASSED: 3, Outcome.FELL_BACK: 1, MISSING: 2}
    assert len(shown.red) == 3
    groups = left_out(shown.cells, run.plan.axes)
    assert sum(group.size for group in groups) + 6 == 72


def test_left_out_groups_name_reasons_lines_and_place() -> None:
    groups = left_out(view(make.run()).cells, make.AXES)
    assert [(group.size, group.word, group.text, group.where) for group in groups] == [
        (12, "excluded", "float16 is not qualified on CPU (matrix.yaml:41)", "platform=cpu dtype=float16"),
        (
            6,
            "excluded",
            "CPU lane qualifies tp 1 and 2 (matrix.yaml:43)",
            "platform=cpu dtype=bfloat16 tp=4|8",
        ),
        (24, "not_runnable", "no NVIDIA device: /dev/nvidiactl is missing", "platform=cuda"),
        (
            16,
            "not_runnable",
            "no AMD device: /dev/kfd is missing",
            "platform=rocm quantization=none|quark_int8",
        ),
        (
            8,
            "not_runnable",
            "no AMD device: /dev/kfd is missing; experts_int8 is not qualified on rocm (matrix.yaml:29)",
            "platform=rocm quantization=experts_int8",
        ),
    ]


def test_grid_has_every_cell_once_and_folds_only_rows_in_which_nothing_was_planned() -> None:
    cells = view(make.mixed()).cells
    whole = grid(cells, make.AXES)
    assert whole.axes == ("platform", "dtype", "tp")
    assert whole.columns == ("none", "experts_int8", "quark_int8")
    slots = [slot for row in whole.rows for slot in row.slots if slot]
    assert len(whole.rows) == 24
    assert {slot.id for slot in slots} == {cell.id for cell in cells}
    assert len(slots) == 72
    folded = fold(whole)
    assert [tuple(" ".join(key) for key in row.keys) for row in folded.rows] == [
        ("cuda", "bfloat16 float16", "1 2 4 8"),
        ("rocm", "bfloat16 float16", "1 2 4 8"),
        ("cpu", "bfloat16", "1"),
        ("cpu", "bfloat16", "2"),
        ("cpu", "bfloat16", "4 8"),
        ("cpu", "float16", "1 2 4 8"),
    ]


def test_an_extra_axis_becomes_a_row_axis() -> None:
    axes = {**make.AXES, "prefix_caching": ("on", "off")}
    whole = grid(view(make.run(make.plan(axes))).cells, axes)
    assert whole.axes == ("platform", "dtype", "tp", "prefix_caching")
    assert len(whole.rows) == 48
    assert [row.keys[3][0] for row in whole.rows[:2]] == ["on", "off"]


def test_a_plan_without_cells_has_an_empty_grid() -> None:
    assert grid((), {}).rows == ()
    assert fold(grid((), {})).rows == ()


def test_rerun_line_keeps_what_was_qualified() -> None:
    command = (
        "python -m runner run matrix.yaml --image cpu=registry/vllm:1 --image=rocm=x -k 'tp=1' --no-rules "
    )
    command += "--max-cells 200000 --jobs 4"
    run = make.run(command=command, expect_engine="0.32.0")
    assert rerun_line(run, make.short(1, "none")) == (
        "python -m runner matrix.yaml --cell platform=cpu,dtype=bfloat16,tp=1,quantization=none --runtime docker "
        "--expect-engine 0.32.0 --image cpu=registry/vllm:1 --image=rocm=x --no-rules "
        "--max-cells 200000"
    )


@pytest.mark.parametrize("value", ["a b", "x;rm -rf ~", "it's", "$HOME `id`", "--flag", "é中"])
def test_rerun_line_is_quoted_for_a_shell(value: str) -> None:
    where = Cell.of({"platform": "cpu", "tag": value})
    words = shlex.split(rerun_line(make.run(), where))
    assert words[words.index("--cell") + 1] == where.id


def test_rerun_line_of_a_value_with_control_characters_stays_one_line() -> None:
    line = rerun_line(make.run(), Cell.of({"platform": "cpu", "tag": "a\nb'\x1b"}))
    assert line.isprintable()
    assert "$'platform=cpu,tag=a\\x0ab\\'\\x1b'" in line


def test_rerun_line_of_a_broken_command_and_another_runtime() -> None:
    run = replace(make.run(command="python 'never closed"), runtime="fake")
    assert rerun_line(run, make.short(1, "none")).endswith("quantization=none")


def test_the_log_to_look_at_is_of_the_last_attempt_that_did_not_pass() -> None:
    first = make.record(make.short(1, "none"), Outcome.FAILED, culprit=Culprit.TEST, cause="token 3 differs")
    second = replace(
        make.record(make.short(1, "none")).attempts[0], number=2, files={"attempt-2/log.txt": ""}
    )
    record = replace(
        first, verdict=replace(first.verdict, outcome=Outcome.FLAKY), attempts=(*first.attempts, second)
    )
    cell = view(make.run(records=[record])).red[0]
    assert cell.word == Outcome.FLAKY
    assert cell.log == f"cells/{make.short(1, 'none').slug}/attempt-1/log.txt"


def test_a_cell_whose_preparation_failed_points_to_the_preparation_log() -> None:
    verdict = Verdict(outcome=Outcome.INFRA, culprit=Culprit.HOST, cause="no space left", fault=Fault.DISK)
    other = Verdict(outcome=Outcome.CRASHED, culprit=Culprit.IMAGE, cause="model recipe failed")
    failures = {
        "images/cpu|qwen3moe-tiny": PrepareFailure(verdict=other, log="prepare/recipe.log"),
        "images/cpu": PrepareFailure(verdict=verdict, log="prepare/image-0.log"),
    }
    records = [CellRecord(cell=entry.cell, verdict=verdict) for entry in make.plan().planned()]
    run = make.run(records=records, prepared=Prepared(failures=failures))
    assert {cell.log for cell in view(run).red} == {"prepare/image-0.log"}
    assert "  log      reports/20260301-100000-a1b2/prepare/image-0.log\n" in terminal(
        run, color=False, width=100
    )
    assert 'href="prepare/image-0.log"' in html(run, lambda _: None)
