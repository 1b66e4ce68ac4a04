"""Cells of one model against each other: which are compared, with what allowance, and what is red."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from runner.across import between, notices, pairs
from runner.control import Control, Distance, distance
from runner.errors import ExitCode
from runner.facts import Evidence
from runner.machine import CpuFacts, Inventory
from runner.model import Cell, CellSettings, Culprit, Limits, Outcome, Plan, PlanEntry, Status, Suite, Verdict
from runner.records import Attempt, CellRecord, Run
from runner.verdict import exit_code, read_evidence

TOP = (((7, -0.2), (8, -2.0)), ((9, -0.5), (7, -1.0)))


def control(shift: float = 0.0, *, of: str = "m/1", bound: float = 0.3, far: float = 0.5) -> Control:
    """Two texts; every log-probability moved."""
    top = tuple(tuple((token, value - shift) for token, value in position) for position in TOP)
    return Control(
        of=of, bound=bound, mean_bound=bound / 2, control_bound=far, control_mean_bound=far / 2, top=top
    )


def cell(**axes: str) -> Cell:
    """A cell of the usual axes."""
    return Cell.of({"platform": "cpu", "dtype": "bfloat16", "tp": "1", "quantization": "none"} | axes)


def run(controls: Mapping[Cell, Control | None]) -> Run:
    """A finished run whose cells all passed, with these answers."""
    settings = CellSettings(image="i", suite=Suite(), limits=Limits(), devices=0)
    passed = Verdict(outcome=Outcome.PASSED)
    return Run(
        run_id="r",
        plan=Plan(
            matrix="m",
            matrix_hash="h",
            axes={},
            entries=tuple(PlanEntry(cell=c, status=Status.PLANNED, settings=settings) for c in controls),
        ),
        runtime="docker",
        runtime_detail="",
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts()),
        records=tuple(
            CellRecord(
                cell=c,
                verdict=passed,
                attempts=(Attempt(number=1, verdict=passed, evidence=Evidence(control=found)),),
            )
            for c, found in controls.items()
        ),
        finished=True,
    )


def test_distance_is_the_largest_and_the_mean_over_both_directions() -> None:
    found = distance(control(), control(0.1))
    assert found is not None
    assert [found.largest, found.mean] == pytest.approx([0.1, 0.1])
    one = Control(
        of="m", bound=1, mean_bound=1, control_bound=1, control_mean_bound=1, top=(((1, -0.1), (2, -3.0)),)
    )
    two = Control(
        of="m", bound=1, mean_bound=1, control_bound=1, control_mean_bound=1, top=(((1, -0.1), (3, -1.0)),)
    )
    # 2 is at most as likely as the other's last one, -1.0: it may be that likely; 3 is two nats above -3.0.
    assert distance(one, two) == Distance(2.0, 0.5)


def test_other_models_and_other_texts_are_not_compared() -> None:
    assert distance(control(), control(of="n/1")) is None
    made = run({cell(): control(), cell(tp="2"): control(5.0, of="n/1")})
    assert pairs(made) == ()
    assert notices(made) == ()


def test_widths_platforms_and_methods_are_compared_with_the_first_of_each() -> None:
    made = run(
        {
            cell(): control(),
            cell(tp="2"): control(0.01),
            cell(tp="4"): control(0.02),
            cell(quantization="int8"): control(0.03),
            cell(platform="cuda"): control(0.04),
            cell(dtype="float16"): control(9.0),
        }
    )
    assert [
        (p.axis, p.cell.id.split(",", 1)[1] if p.axis != "platform" else p.cell.get("platform"))
        for p in pairs(made)
    ] == [
        ("tp", "dtype=bfloat16,tp=2,quantization=none"),
        ("tp", "dtype=bfloat16,tp=4,quantization=none"),
        ("platform", "cuda"),
        ("quantization", "dtype=bfloat16,tp=1,quantization=int8"),
    ]
    (told,) = notices(made)
    assert not told.red
    assert told.text == (
        "cells compared with each other: 2 across tp, 1 across platforms, 1 with the unquantized model; all agree"
    )


def test_the_allowance_is_the_root_of_the_sum_of_squares_of_two_bounds() -> None:
    (pair,) = pairs(run({cell(): control(bound=0.3), cell(tp="2"): control(bound=0.4)}))
    assert [pair.allowed.largest, pair.allowed.mean] == pytest.approx([0.5, 0.25])


@pytest.mark.parametrize(("shift", "red"), [(0.21, False), (0.22, True), (0.5, True)])
def test_a_width_that_answers_otherwise_is_red_and_named(shift: float, red: bool) -> None:
    """The mean decides here: the root of two times 0.15 is 0.212."""
    wrong, right = cell(tp="2"), cell()
    made = [n for n in notices(run({right: control(), wrong: control(shift)})) if n.red]
    assert bool(made) is red
    if red:
        assert made[0].cells == (wrong, right)
        assert made[0].culprit is Culprit.PRODUCT
        assert made[0].text.startswith(
            f"{wrong.id} answers otherwise than tp=1 (here tp=2): log-probabilities differ by"
        )


def test_a_quantized_cell_has_its_own_allowance_from_the_unquantized_one() -> None:
    far = control(0.24, far=0.5)
    assert all(p.agrees for p in pairs(run({cell(): control(), cell(quantization="int8"): far})))
    assert not any(
        p.agrees for p in pairs(run({cell(): control(), cell(quantization="int8"): control(0.26)}))
    )


def test_without_an_unquantized_cell_there_is_no_control() -> None:
    assert pairs(run({cell(quantization="a"): control(), cell(quantization="b"): control(9.0)})) == ()


def test_a_cell_that_says_nothing_is_left_out() -> None:
    assert pairs(run({cell(): control(), cell(tp="2"): None})) == ()


def test_a_disagreement_makes_a_run_red_whose_cells_pass() -> None:
    made = run({cell(): control(), cell(tp="2"): control(3.0)})
    assert exit_code(made, interrupted=0) is ExitCode.OK
    assert exit_code(replace(made, notices=notices(made)), interrupted=0) is ExitCode.RED


EVENT = '{"event":"control","of":"m","bound":0.5,"mean_bound":0.1,"control_bound":1,"control_mean_bound":0.2,"top":%s}'


def test_the_event_is_read() -> None:
    found = read_evidence([EVENT % "[[[7,-0.2],[8,-2.0]]]"])
    assert found.bad_lines == 0
    assert found.control is not None
    assert found.control.top == (((7, -0.2), (8, -2.0)),)
    assert found.control.control_bound == 1.0


@pytest.mark.parametrize(
    "top",
    ["[]", "[[]]", "null", "[[[7,NaN]]]", "[[[7,-Infinity]]]", '[[["7",-0.2]]]', "[[[7,-0.2,1]]]", "[[[7,-0.2],[7,-0.3]]]",
     "[[7]]", "[[[true,-0.2]]]", "[[[7,true]]]", str([[[1, -0.1]]] * 65)],
)  # fmt: skip
def test_an_event_of_another_shape_is_a_bad_line(top: str) -> None:
    found = read_evidence([EVENT % top])
    assert found.control is None
    assert found.bad_lines == 1


def test_an_event_without_a_bound_is_a_bad_line() -> None:
    assert read_evidence([(EVENT % "[[[7,-0.2]]]").replace('"bound":0.5,', "")]).bad_lines == 1


def test_platforms_on_two_hosts_are_compared_through_the_baseline() -> None:
    here = run({cell(platform="cuda"): control(0.6), cell(platform="cuda", tp="2"): control(0.6)})
    there = replace(run({cell(): control(), cell(tp="4"): control()}), run_id="earlier")
    (pair,) = between(here, there)
    assert (pair.cell, pair.other, pair.agrees) == (cell(platform="cuda"), cell(), False)
    red, told = notices(here, there)
    assert red.text.startswith(
        "platform=cuda,dtype=bfloat16,tp=1,quantization=none answers otherwise than platform=cpu of run earlier (here "
        "platform=cuda): log-probabilities differ by up to 0.6"
    )
    assert told.text == "cells compared with each other: 1 across tp, 1 across platforms; 1 of them disagree"


def test_the_same_platform_of_another_run_is_not_compared() -> None:
    """What changed against a baseline is another question."""
    assert between(run({cell(): control()}), run({cell(): control(9.0)})) == ()


def test_a_file_with_a_model_axis_meets_one_without() -> None:
    """The event says which model it was; another model's cell is not taken for it."""
    named = run(
        {
            cell(platform="cuda", model="m-tiny"): control(0.1),
            cell(platform="cuda", model="n"): control(of="n/1"),
        }
    )
    (pair,) = between(named, run({cell(): control()}))
    assert (pair.cell.get("model"), pair.agrees) == ("m-tiny", True)
