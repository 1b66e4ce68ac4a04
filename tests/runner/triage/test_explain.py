"""The rule that explains failures: found where it is there, unsure where the cells cannot tell, settled by few more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from runner.expr import parse
from runner.model import Cell
from runner.triage import Explanation, explain
from runner.triage.atoms import terms

AXES = {
    "platform": ("cuda", "rocm", "cpu"),
    "dtype": ("bfloat16", "float16"),
    "tp": ("1", "2", "4", "8"),
    "quantization": ("none", "experts_int8", "quark_int8"),
}
GRID = [Cell.of(dict(zip(AXES, values, strict=True))) for values in itertools.product(*AXES.values())]


def told(bad: Callable[[Cell], bool], ran: Sequence[Cell] = GRID) -> Explanation:
    found = explain(
        [cell for cell in ran if bad(cell)],
        [cell for cell in ran if not bad(cell)],
        [cell for cell in GRID if cell not in ran],
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ("quantization=quark_int8", "24 of 24 fail inside, 0 of 48 outside"),
        ("tp>=2 and quantization=quark_int8", "18 of 18 fail inside, 0 of 54 outside"),
        ("tp<=2", "36 of 36 fail inside, 0 of 36 outside"),
        ("quantization!=none", "48 of 48 fail inside, 0 of 24 outside"),
        ("platform=rocm and dtype=float16 and tp>=4", "6 of 6 fail inside, 0 of 66 outside"),
        ("tp in (2, 8)", "36 of 36 fail inside, 0 of 36 outside"),
        ("platform!=cpu and tp>=2 and quantization=quark_int8", "12 of 12 fail inside, 0 of 60 outside"),
    ],
)
def test_the_planted_rule_is_found_and_said(rule: str, counts: str) -> None:
    expression = parse(rule)
    found = told(lambda cell: expression.matches(dict(cell.axes)))
    assert found.rule == rule
    assert found.text.startswith(f"fails iff {rule} ({counts}; confidence 9")
    assert found.sure
    assert found.settle == ()


def test_one_turned_result_does_not_hide_the_rule_and_iff_is_not_said() -> None:
    odd = GRID[7]
    found = told(lambda cell: (cell.get("quantization") == "quark_int8") != (cell == odd))
    assert found.rule == "quantization=quark_int8"
    assert found.text.startswith(
        "fails mostly where quantization=quark_int8 (24 of 24 fail inside, 1 of 48 outside"
    )


def test_failures_at_random_are_explained_by_no_axis() -> None:
    rng = random.Random(1)
    bad = set(rng.sample(GRID, 12))
    found = told(bad.__contains__)
    assert found.confidence < 0.5
    assert found.text.startswith("no axis explains it yet")


def test_what_cannot_be_told_apart_is_unsure_and_names_cells_that_tell() -> None:
    ran = [c for c in GRID if c.get("tp") in ("1", "8") and c.get("platform") == "cuda"]
    found = told(lambda cell: cell.get("tp") == "8", ran)
    assert not found.sure
    assert found.settle
    assert not set(found.settle) & set(ran)
    assert {cell.get("tp") for cell in found.settle} & {"2", "4"}


def test_settling_makes_it_sure_in_a_few_rounds() -> None:
    ran = [c for c in GRID if c.get("tp") in ("1", "8")]
    extra, found = 0, told(lambda cell: int(cell.get("tp")) >= 4, ran)
    while not found.sure and found.settle:
        extra += len(found.settle)
        ran = [*ran, *found.settle]
        found = told(lambda cell: int(cell.get("tp")) >= 4, ran)
    assert found.rule == "tp>=4"
    assert found.sure
    assert extra <= 8


def test_a_cell_that_failed_for_another_reason_is_neither() -> None:
    """Hidden by another fault, it could have failed for this one too: the rule has no exception."""
    hidden = {c for c in GRID if c.get("platform") == "cpu"}
    failed = [c for c in GRID if c.get("quantization") == "quark_int8" and c not in hidden]
    passed = [c for c in GRID if c.get("quantization") != "quark_int8" and c not in hidden]
    found = explain(failed, passed, [])
    assert found is not None
    assert found.text.startswith("fails iff quantization=quark_int8 (16 of 16 fail inside, 0 of 32 outside")


def test_nothing_failed_and_everything_failed() -> None:
    assert explain([], GRID, []) is None
    found = told(lambda _: True)
    assert found.rule == "every cell"
    assert found.text.startswith("fails in every cell that ran (72 of 72 fail inside, none ran outside")


def test_one_failing_cell_makes_no_rule() -> None:
    found = told(lambda cell: cell == GRID[40])
    assert not found.sure
    assert found.text.startswith("one failing cell makes no rule; narrowest guess ")
    assert explain([GRID[40]], [], GRID[:40]) is None


def test_terms_of_an_axis() -> None:
    assert terms("platform", ["cpu", "cpu"]) == ()
    assert {t.text for t in terms("tp", ["1", "2", "10"])} == {
        "tp=1",
        "tp=2",
        "tp=10",
        "tp>=2",
        "tp<=2",
        "tp!=2",
    }
    assert {t.text for t in terms("python", ["3.9", "3.10"])} == {"python=3.9", "python=3.10"}
    newer = next(t for t in terms("python", ["3.9", "3.10", "3.11"]) if t.text == "python>=3.10")
    assert newer.values == {"3.10", "3.11"}


@pytest.mark.parametrize("value", ["a b", "x,y", "not", "", "it's", 'say "so"', "1.5", "-3"])
def test_terms_are_expressions_that_select_their_values(value: str) -> None:
    for term in terms("extra", ["plain", value, "other"]):
        expression = parse(term.text)
        for one in ("plain", value, "other"):
            assert expression.matches({"extra": one}) == (one in term.values), term.text
