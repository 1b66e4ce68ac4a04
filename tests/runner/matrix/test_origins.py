"""How a cell came to be: for every cell, the value that is explained is the value that it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import runner.matrix
from runner.errors import UsageError
from runner.matrix.origins import Explained
from runner.model import Matrix, Scalar

Load = Callable[..., Matrix]
SHIPPED = Path(__file__).parents[3] / "matrix.yaml"

TEXT = """\
version: 1
suite: {path: mine, proof: tests}
axes: {platform: [cpu, cuda], quantization: [none, int8], tp: [1, 2]}
engine_args: {a: 1, b: 1}
env: {A: file}
limits: {idle: 90s, memory: 1g}
model: base
models: {base: {recipe: one}, other: {recipe: two}}
platforms:
  cpu:
    image: images/mine
    engine_args: {b: 2}
    limits:
      memory: 512m
quantizations:
  none: {}
  int8:
    model: {cpu: other}
    requires: {cpu: amx_int8}
    expect: {moe_method: Int8}
rules:
  - {exclude: {platform: cuda, tp: 2}, reason: one GPU}
include:
  - cell: {platform: cuda, quantization: none, tp: 4}
    env: {A: include}
    reason: asked for
overrides:
  - when: platform=cpu and tp=2
    engine_args:
      b: true
    model: base
"""


def explained(tmp_path: Path, cell: str) -> Explained:
    path = tmp_path / "matrix.yaml"
    path.write_text(TEXT)
    return runner.matrix.explain(path, cell)


def rows(found: Explained) -> dict[str, list[tuple[str, str, str]]]:
    return {
        row.setting: [
            (each.value, each.source.rpartition(":")[2], each.layer) for each in (row.given, *row.replaced)
        ]
        for row in (*found.axes, *found.settings)
    }


def test_each_layer_and_line_is_named(tmp_path: Path) -> None:
    found = rows(explained(tmp_path, "platform=cpu,tp=2,quantization=int8"))
    assert found["engine_args.b"] == [
        ("true", "30", "override when platform=cpu and tp=2"),
        ("2", "12", "platform cpu"),
        ("1", "4", "top level"),
    ]
    assert found["model"] == [
        ("base", "31", "override when platform=cpu and tp=2"),
        ("other", "18", "quantization int8"),
        ("base", "7", "top level"),
    ]
    assert found["limits.memory"] == [("512m", "14", "platform cpu"), ("1g", "6", "top level")]
    assert found["limits.idle"] == [("90s", "6", "top level")]
    assert found["limits.pids"] == [("4096", "", "default")]
    assert found["expect.moe_method"] == [("Int8", "20", "quantization int8")]
    assert found["requires.19"] == [("amx_int8", "19", "quantization int8")]
    assert found["image"] == [("images/mine", "11", "platform cpu")]
    assert found["suite.path"] == [("mine", "2", "suite")]
    assert found["tp"] == [("2", "3", "axes")]


def test_an_included_cell_and_an_excluded_one(tmp_path: Path) -> None:
    added = explained(tmp_path, "platform=cuda,tp=4,quantization=none")
    assert rows(added)["env.A"] == [("include", "25", "include"), ("file", "5", "top level")]
    assert rows(added)["tp"] == [("4", "24", "include")]
    assert "included by matrix.yaml:24: asked for" in added.lines()
    out = explained(tmp_path, "platform=cuda,tp=2,quantization=none")
    assert "excluded: one GPU [matrix.yaml:22]" in out.lines()


def test_a_slug_names_a_cell_too_and_a_mistyped_one_gets_the_nearest(tmp_path: Path) -> None:
    cell = explained(tmp_path, "platform=cpu,tp=1,quantization=none").item.cell
    assert explained(tmp_path, cell.slug).item.cell == cell
    with pytest.raises(UsageError, match="did you mean platform=cpu,tp=1,quantization=none"):
        explained(tmp_path, "platform=cpu,tp=1,quantization=non")


def text(value: Scalar) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def test_what_is_explained_is_what_holds_in_every_cell_of_the_shipped_file() -> None:
    for item in runner.matrix.load(SHIPPED).cells:
        found = rows(runner.matrix.explain(SHIPPED, item.cell.id))
        held = {name: values[0][0] for name, values in found.items()}
        settings = item.settings
        for name, value in settings.engine_args.items():
            assert held.pop(f"engine_args.{name}") == text(value)
        for name, value in settings.env.items():
            assert held.pop(f"env.{name}") == value
        assert not [name for name in held if name.startswith(("engine_args.", "env."))]
        assert settings.model is not None
        assert held["model"] == settings.model.name
        assert held["image"] == settings.image
        assert held["devices"] == str(settings.devices)
        assert held.get("expect.moe_method") == settings.expect.moe_method
        assert sum(name.startswith("requires.") for name in held) == len(settings.requires)
        assert {name: held[name] for name in dict(item.cell.axes)} == dict(item.cell.axes)
