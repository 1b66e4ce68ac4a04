"""Exclusions, demands, includes and overrides: what they do, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runner.model import Matrix, MatrixCell

Load = Callable[..., Matrix]
Wrong = Callable[..., list[str]]

AXES = (
    "version: 1\nsuite: {proof: tests}\naxes: {platform: [cuda, cpu], tp: [1, 2, 4], method: [none, int8]}\n"
)
MODELS = """\
version: 1
axes: {platform: [cuda, cpu], quantization: [none, int8]}
quantizations:
  none: {model: plain}
  int8: {model: {cuda: hybrid, cpu: plain}, engine_args: {enable_chunked_prefill: false}}
models:
  plain: {recipe: qwen3moe}
  hybrid: {recipe: jamba, traits: [mamba]}
"""
DEMAND = """\
rules:
  - require: {enable_chunked_prefill: true}
    when: {model.traits: mamba, enable_prefix_caching: true}
    reason: align mode
"""


def cell(matrix: Matrix, cell_id: str) -> MatrixCell:
    return next(each for each in matrix.cells if each.cell.id == cell_id)


@pytest.mark.parametrize(
    ("condition", "excluded"),
    [
        ("{platform: cpu}", 6),
        ("{platform: cpu, tp: '>2'}", 2),
        ("{tp: '>=2'}", 8),
        ("{tp: '<2'}", 4),
        ("{tp: '<= 2'}", 8),
        ("{method: '!=none'}", 6),
        ("{tp: [1, 4]}", 8),
        ("{tp: [1, '>2'], platform: [cuda, cpu], method: int8}", 4),
        ("{tp: '01'}", None),
    ],
)
def test_exclude_takes_out_what_matches_every_named_axis(
    load: Load, wrong: Wrong, condition: str, excluded: int | None
) -> None:
    text = AXES + f"rules: [{{exclude: {condition}, reason: because}}]\n"
    if excluded is None:
        assert "so this matches nothing" in wrong(text)[0]
        return
    matrix = load(text)
    out = [each for each in matrix.cells if each.excluded]
    assert (len(matrix.cells), len(out)) == (12, excluded)
    assert {(reason.text, reason.source) for each in out for reason in each.excluded} == {
        ("because", "matrix.yaml:4")
    }


def test_every_exclusion_that_matches_is_listed(load: Load) -> None:
    text = AXES + "rules:\n  - {exclude: {platform: cpu}, reason: one}\n  - {exclude: {tp: 4}, reason: two}\n"
    reasons = [
        (each.text, each.source) for each in cell(load(text), "platform=cpu,tp=4,method=int8").excluded
    ]
    assert reasons == [("one", "matrix.yaml:5"), ("two", "matrix.yaml:6")]


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        (
            "{exclude: {tp: '>4'}, reason: x}",
            "4:24: no value of tp is > 4, so this matches nothing (values: 1, 2, 4)",
        ),
        (
            "{exclude: {method: '>4'}, reason: x}",
            "4:28: > puts numbers in order, and the axis method has other values (list the values instead)",
        ),
        ("{exclude: {tp: '>x'}, reason: x}", "4:24: rules[0].exclude.tp: > needs a number, 'x' is none"),
        (
            "{exclude: {tp: [1, 3]}, reason: x}",
            "4:28: the axis tp has no value '3', so this matches nothing (known: 1, 2, 4)",
        ),
        ("{exclude: {tp: []}, reason: x}", "4:20: rules[0].exclude.tp has no values (write at least one)"),
        (
            "{exclude: {}, reason: x}",
            "4:19: rules[0].exclude names nothing (name at least one, or remove it)",
        ),
        ("{exclude: {tp: 1}, reason: ''}", "4:36: rules[0].reason: '' is empty (write a value)"),
        (
            "{exclude: {tp: 1}, when: {tp: 1}, reason: x}",
            "4:9: when belongs to require (name the axis values under exclude)",
        ),
    ],
)
def test_stale_and_broken_exclusions_are_mistakes(wrong: Wrong, rule: str, mistake: str) -> None:
    assert wrong(AXES + f"rules: [{rule}]\n")[0] == mistake


def test_a_broken_axis_does_not_make_rules_about_it_look_wrong(wrong: Wrong) -> None:
    text = AXES.replace("[1, 2, 4]", "[1, 2, x]") + "rules: [{exclude: {tp: 4}, reason: x}]\n"
    assert wrong(text) == ["3:42: axis tp: 'x' does not fit (write a whole number from 1)"]


def test_a_broken_demand_refuses_with_reason_and_line(load: Load) -> None:
    text = MODELS + "engine_args: {enable_prefix_caching: true}\n" + DEMAND
    matrix = load(text)
    assert [each.cell.id for each in matrix.cells if each.refused] == ["platform=cuda,quantization=int8"]
    refused = cell(matrix, "platform=cuda,quantization=int8").refused
    assert refused is not None
    assert (refused.text, refused.source) == ("align mode", "matrix.yaml:11")
    free = load(text, apply_rules=False)
    assert not any(each.refused for each in free.cells)
    assert free.hash != matrix.hash


def test_an_unset_argument_counts_as_engine_defaults_say(load: Load) -> None:
    on = load(MODELS + "engine_defaults: {enable_prefix_caching: true}\n" + DEMAND)
    assert [each.cell.id for each in on.cells if each.refused] == ["platform=cuda,quantization=int8"]
    assert on.remarks == ("rules take enable_prefix_caching as true where no cell sets it (engine_defaults)",)


def test_an_argument_that_a_cell_sets_outranks_the_default(load: Load) -> None:
    args = "engine_defaults: {enable_prefix_caching: true}\nengine_args: {enable_prefix_caching: false}\n"
    override = "overrides: [{when: quantization=none, engine_args: {enable_prefix_caching: true}}]\n"
    matrix = load(MODELS + args + override + DEMAND.replace("model.traits: mamba", "model.name: plain"))
    assert not any(each.refused for each in matrix.cells)
    assert matrix.remarks == (
        "matrix.yaml:13: left to the engine where enable_chunked_prefill is not set; engine_defaults can say it",
    )


def test_all_broken_demands_are_named(load: Load) -> None:
    rules = DEMAND + "  - {require: {enable_chunked_prefill: true}, when: {platform: cuda}, reason: again}\n"
    matrix = load(MODELS + "engine_defaults: {enable_prefix_caching: true}\n" + rules)
    refused = cell(matrix, "platform=cuda,quantization=int8").refused
    assert refused is not None
    assert (refused.text, refused.source) == ("align mode; again", "matrix.yaml:11, matrix.yaml:14")


def test_what_nothing_says_is_left_to_the_engine_and_remarked(load: Load) -> None:
    text = (
        MODELS
        + "overrides: [{when: quantization=none, engine_args: {enable_prefix_caching: true}}]\n"
        + DEMAND
    )
    matrix = load(text)
    assert not any(each.refused for each in matrix.cells)
    assert matrix.remarks == (
        "matrix.yaml:11: left to the engine where enable_prefix_caching is not set; engine_defaults can say it",
    )


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        (
            "{require: {enable_chunked_prefil: true}, reason: x}",
            "9:20: require: nothing sets the engine argument 'enable_chunked_prefil' and engine_defaults does not say it (did you mean enable_chunked_prefill?)",
        ),
        (
            "{require: {enable_chunked_prefill: true}, when: {platfrom: cpu}, reason: x}",
            "9:58: when: 'platfrom' is no axis, no fact of a model, and no engine argument that anything sets (did you mean platform?)",
        ),
        (
            "{require: {enable_chunked_prefill: on}, reason: x}",
            "9:44: enable_chunked_prefill: on is a text and never equal to true or false (write true or false)",
        ),
        (
            "{require: {enable_chunked_prefill: true}, when: {model.traits: mumba}, reason: x}",
            "9:9: this rule is about no cell that is left: its when is true of none (remove it)",
        ),
        (
            "{require: {enable_chunked_prefill: true}, when: {quantization: fp8}, reason: x}",
            "9:72: the axis quantization has no value 'fp8', so this matches nothing (known: int8, none)",
        ),
    ],
)
def test_demands_that_can_never_matter_are_mistakes(wrong: Wrong, rule: str, mistake: str) -> None:
    assert wrong(MODELS + f"rules: [{rule}]\n") == [mistake]


def test_include_adds_brings_back_and_merges(load: Load) -> None:
    text = (
        AXES
        + """\
env: {A: file}
rules: [{exclude: {platform: cpu}, reason: no}]
include:
  - {cell: {platform: cpu, tp: 1, method: none}, reason: wanted}
  - {cell: {platform: cuda, tp: 1, method: none}, env: {A: mine, B: more}}
  - {cell: {platform: rocm, tp: 8, method: new}}
"""
    )
    matrix = load(text)
    assert len(matrix.cells) == 13
    back = cell(matrix, "platform=cpu,tp=1,method=none")
    assert (back.excluded, back.included_by) == ((), "matrix.yaml:7: wanted")
    merged = cell(matrix, "platform=cuda,tp=1,method=none")
    assert (dict(merged.settings.env), merged.included_by) == ({"A": "mine", "B": "more"}, "matrix.yaml:8")
    added = matrix.cells[-1]
    assert (added.cell.id, added.settings.devices) == ("platform=rocm,tp=8,method=new", 8)
    assert matrix.axes["platform"] == ("cuda", "cpu", "rocm")
    assert matrix.remarks == (
        "only included cells have platform=rocm",
        "only included cells have tp=8",
        "only included cells have method=new",
    )


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (
            "{cell: {platform: cpu, tp: 1, method: none}}",
            "4:11: include: this cell is in the product already and the entry changes nothing (give it settings, or remove it)",
        ),
        (
            "{cell: {platform: cpu, tp: 8}}",
            "4:11: include: the cell has no value for method (name every axis)",
        ),
        (
            "{cell: {platform: cpu, tp: 8, methd: a}}",
            "4:11: include: the cell has no value for method (name every axis)",
        ),
        (
            "{cell: {platform: xpu, tp: 8, method: none}}",
            "4:29: include: platform: 'xpu' is not known (did you mean cpu?)",
        ),
        (
            "{cell: {platform: cpu, tp: 0, method: none}}",
            "4:38: include: tp: '0' does not fit (write a whole number from 1)",
        ),
        (
            "{cell: {platform: cpu, tp: 8, method: a}}, {cell: {method: a, tp: 8, platform: cpu}}",
            "4:54: this cell is included twice: here and in line 4 (keep one entry)",
        ),
    ],
)
def test_includes_that_are_no_new_cell_are_mistakes(wrong: Wrong, entry: str, mistake: str) -> None:
    assert wrong(AXES + f"include: [{entry}]\n")[0] == mistake


def test_one_entry_included_twice_by_alias_is_a_mistake(wrong: Wrong) -> None:
    text = AXES + "x-e: &e {cell: {platform: cpu, tp: 8, method: a}}\ninclude: [*e, *e]\n"
    assert wrong(text) == ["4:6: this cell is included twice: here and in line 4 (keep one entry)"]


@pytest.mark.parametrize(
    ("override", "mistake"),
    [
        (
            "{when: platfrom=cpu, env: {A: b}}",
            "4:20: expression, column 1: 'platfrom' is not known, did you mean platform?: ^platfrom=cpu",
        ),
        (
            "{when: method=int4, env: {A: b}}",
            "4:20: expression, column 8: method has no value 'int4', did you mean int8?: method=^int4",
        ),
        ("{when: tp>4, env: {A: b}}", "4:20: when: 'tp>4' picks no cell that is left (remove it)"),
        ("{when: tp>2}", "4:13: the override changes nothing (give it settings, or remove it)"),
        (
            "{env: {A: b}}",
            "4:13: overrides[0]: the key 'when' is missing (give an axis expression, such as platform=cpu and tp>1)",
        ),
    ],
)
def test_overrides_without_effect_are_mistakes(wrong: Wrong, override: str, mistake: str) -> None:
    assert wrong(AXES + f"overrides: [{override}]\n") == [mistake]


def test_an_order_of_texts_in_an_override_is_a_mistake(wrong: Wrong) -> None:
    mistake = "4:20: when: 'method>2' puts values in order that are no numbers (use = or != for texts)"
    assert wrong(AXES + "overrides: [{when: method>2, env: {A: b}}]\n") == [mistake]
