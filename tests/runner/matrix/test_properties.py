"""Properties of expansion on random matrices, against a slow and obvious expander."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import runner.matrix
from runner.errors import MatrixError
from runner.matrix import product
from runner.matrix.rules import Exclusion, canonical
from runner.model import Matrix, Reason

VALUES = {
    "platform": ["cuda", "rocm", "cpu"],
    "dtype": ["bfloat16", "float16"],
    "tp": ["1", "2", "4", "8"],
    "quantization": ["none", "a8", "b4"],
    "zoo": ["x", "y"],
    "alpha": ["3.1", "3.10", "no"],
}

File = dict[str, Any]


@st.composite
def files(draw: st.DrawFn) -> File:
    names = ["platform", *draw(st.lists(st.sampled_from(list(VALUES)[1:]), unique=True, max_size=4))]
    axes = {
        name: draw(st.lists(st.sampled_from(VALUES[name]), unique=True, min_size=1, max_size=4))
        for name in names
    }

    def some(**more: Any) -> dict[str, Any]:
        picked = draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=3))
        return {
            **more,
            "of": {
                name: draw(st.lists(st.sampled_from(axes[name]), unique=True, min_size=1)) for name in picked
            },
        }

    rules = [
        {"exclude": some()["of"], "reason": f"reason {number}"} for number in range(draw(st.integers(0, 4)))
    ]
    overrides = [
        {
            "when": " and ".join(f"{name} in ({', '.join(values)})" for name, values in some()["of"].items()),
            "env": {f"V{number}": "x"},
        }
        for number in range(draw(st.integers(0, 2)))
    ]
    include = []
    if draw(st.booleans()):
        include.append(
            {"cell": {name: draw(st.sampled_from(VALUES[name])) for name in names}, "env": {"I": "1"}}
        )
    return {
        "version": 1,
        "suite": {"proof": "tests"},
        "axes": axes,
        "rules": rules,
        "overrides": overrides,
        "include": include,
    }


def expand(file: File, folder: Path, name: str = "matrix.yaml") -> Matrix | None:
    """The matrix, or None where nothing is left or an override picks nothing."""
    path = folder / name
    path.write_text(json.dumps(file))  # JSON is YAML
    try:
        return runner.matrix.load(path)
    except MatrixError as error:
        texts = [each.text for each in error.mistakes]
    assert all("picks no cell that is left" in text or "every cell is excluded" in text for text in texts)
    return None


def left(file: File) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Every cell of the product with the reasons that take it out."""
    found = {}
    for values in itertools.product(*file["axes"].values()):
        axes = dict(zip(file["axes"], values, strict=True))
        key = tuple((name, axes[name]) for name in canonical(axes))
        found[key] = [
            rule["reason"]
            for rule in file["rules"]
            if all(axes[name] in taken for name, taken in rule["exclude"].items())
        ]
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(files())
def test_cells_are_the_product_and_what_is_included(tmp_path: Path, file: File) -> None:
    matrix = expand(file, tmp_path)
    if matrix is None:
        return
    expected = left(file)
    included = [
        tuple((name, each["cell"][name]) for name in canonical(each["cell"])) for each in file["include"]
    ]
    assert {each.cell.axes for each in matrix.cells} == set(expected) | set(included)
    assert len(matrix.cells) == len(set(expected) | set(included))
    for each in matrix.cells:
        if each.cell.axes in included:
            assert (each.excluded, each.settings.env["I"]) == ((), "1")
            assert each.included_by
        else:
            assert [reason.text for reason in each.excluded] == expected[each.cell.axes]
            assert not each.included_by


def shuffled(file: File, seed: int) -> File:
    rng = random.Random(seed)

    def mixed(values: list[Any]) -> list[Any]:
        return rng.sample(values, len(values))

    axes = {name: mixed(file["axes"][name]) for name in mixed(list(file["axes"]))}
    rules = [
        {
            "reason": rule["reason"],
            "exclude": {name: mixed(rule["exclude"][name]) for name in mixed(list(rule["exclude"]))},
        }
        for rule in mixed(file["rules"])
    ]
    changed = {**file, "axes": axes, "rules": rules}
    return {name: changed[name] for name in mixed(list(changed))}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(files(), st.integers(0, 2**16))
def test_the_order_of_axes_values_rules_and_keys_changes_no_id_and_no_hash(
    tmp_path: Path, file: File, seed: int
) -> None:
    one, other = expand(file, tmp_path), expand(shuffled(file, seed), tmp_path, "renamed.yaml")
    assert (one is None) is (other is None)
    if one is None or other is None:
        return
    assert sorted(each.cell.id for each in one.cells) == sorted(each.cell.id for each in other.cells)
    assert sorted(each.cell.slug for each in one.cells) == sorted(each.cell.slug for each in other.cells)
    assert one.hash == other.hash


@settings(deadline=None, max_examples=60)
@given(files())
def test_counting_without_walking_counts_what_walking_finds(file: File) -> None:
    rules = [
        Exclusion(
            {name: frozenset(taken) for name, taken in rule["exclude"].items()}, Reason(text=rule["reason"])
        )
        for rule in file["rules"]
    ]
    names = canonical(file["axes"])
    expected = left(file)
    assert product.size(file["axes"]) == len(expected)
    assert product.left(names, file["axes"], rules) == sum(not reasons for reasons in expected.values())
    walked = dict(product.walk(names, file["axes"], rules))
    assert {
        combo: [rules[number].reason.text for number in product.numbers(live)]
        for combo, live in walked.items()
    } == expected


BASE = """\
version: 1
suite: {proof: tests}
axes: {platform: [cuda], tp: [1, 2]}
engine_args: {a: 1, b: 2}
rules: [{exclude: {tp: 2}, reason: why}]
"""


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("a: 1, b: 2", "b: 2, a: 1"), True),
        (("reason: why", "reason: because"), True),
        (("version", "# a comment\nversion"), True),
        (("tp: [1, 2]", "tp: ['2', '1']"), True),
        (("a: 1", "a: 3"), False),
        (("a: 1", "a: '1'"), False),
        (("a: 1", "a: true"), False),
        (("tp: 2}", "tp: 1}"), False),
        (("tp: [1, 2]", "tp: [1, 2, 4]"), False),
        (("version", "env: {A: b}\nversion"), False),
        (("version", "retry: {infra: 2}\nversion"), False),
        (("version", "limits: {start: 11m}\nversion"), False),
        (("version", "platforms: {cuda: {requires: capability > 8}}\nversion"), False),
        (("version", "platforms: {cuda: {image: other}}\nversion"), False),
        (("proof: tests", "proof: tests, path: other"), False),
    ],
)
def test_what_changes_the_hash(tmp_path: Path, change: tuple[str, str], same: bool) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(BASE)
    before = runner.matrix.load(path).hash
    assert BASE.count(change[0]) == 1
    path.write_text(BASE.replace(*change))
    assert (runner.matrix.load(path).hash == before) is same
