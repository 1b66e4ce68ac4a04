"""The example matrices of the methods agree with the table of methods, and expand to what their pages say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from runner import plan
from runner.machine import CpuFacts, Device, Inventory
from runner.matrix import load
from runner.model import Matrix, Status

ROOT = Path(__file__).resolve().parents[3]
METHODS: dict[str, Any] = yaml.safe_load((ROOT / "tests/moe/methods.yaml").read_text(encoding="utf-8"))[
    "methods"
]


def matrix(name: str) -> Matrix:
    return load(ROOT / "docs" / "examples" / f"{name}.yaml")


@pytest.mark.parametrize(
    ("name", "product", "excluded", "refused"),
    [
        ("methods", 120, 0, 0),
        ("models", 54, 6, 0),
        ("starts", 192, 64, 16),
        ("known-broken", 6, 3, 0),
        ("fell-back", 12, 0, 0),
        ("gfx", 2, 0, 0),
        ("upstream", 1, 0, 0),
    ],
)
def test_examples_expand(name: str, product: int, excluded: int, refused: int, tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "examples"
    folder.mkdir(parents=True)
    (tmp_path / "reports" / "upstream").mkdir(parents=True)  # prepared by hand (docs/upstream.md)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "images").symlink_to(ROOT / "images")
    copied = folder / f"{name}.yaml"
    copied.write_text((ROOT / "docs" / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    cells = load(copied).cells
    found = (len(cells), sum(bool(c.excluded) for c in cells), sum(c.refused is not None for c in cells))
    assert found == (product, excluded, refused)


def test_the_methods_matrix_says_what_the_table_says() -> None:
    seen = set()
    for entry in matrix("methods").cells:
        name = dict(entry.cell.axes)["quantization"]
        record = METHODS[name]
        seen.add(name)
        assert entry.settings.expect.moe_method == record["moe_method"]
        wanted = {"model": "bfloat16", "any": None}.get(record["weight"]["dtype"], record["weight"]["dtype"])
        assert entry.settings.expect.expert_weight_dtype == wanted
        assert dict(entry.settings.engine_args).get("quantization") == record["ask"].get("engine")
        model = entry.settings.model
        assert model is not None
        assert model.recipe == "_".join(filter(None, (record.get("model", "qwen3moe"), record["recipe"])))
    assert seen == {name for name, record in METHODS.items() if not record.get("leaves_experts_unquantized")}


@pytest.mark.parametrize(
    ("gfx", "planned", "backend"), [("gfx950", "native", "aiter"), ("gfx942", "emulated", "EMULATION")]
)
def test_what_is_expected_may_differ_by_the_chip(gfx: str, planned: str, backend: str) -> None:
    device = Device(platform="rocm", index=0, id="GPU-0", gfx=gfx)
    here = Inventory(
        hostname="h", boot_id="b", cpu=CpuFacts(cores=(0,), facts=()), devices=(device,), absent={}
    )
    made = plan.make(matrix("gfx"), here, lambda _: {"gfx": gfx}, {"rocm": 1})
    chosen = [entry for entry in made.entries if entry.status is Status.PLANNED]
    assert [entry.cell.get("quantization") for entry in chosen] == [f"quark_mxfp4_{planned}"]
    assert chosen[0].settings.expect.moe_backend == backend
    (other,) = (entry for entry in made.entries if entry not in chosen)
    assert other.status is Status.NOT_RUNNABLE
    assert "gfx950" in other.reasons[0].text


def test_methods_that_leave_experts_unquantized_are_asked_for_something_else() -> None:
    """Else such a cell would pass, and nothing would say that its experts are not quantized."""
    cells = matrix("fell-back").cells
    assert {dict(e.cell.axes)["quantization"] for e in cells} == {
        name for name, record in METHODS.items() if record.get("leaves_experts_unquantized")
    }
    for entry in cells:
        record = METHODS[dict(entry.cell.axes)["quantization"]]
        assert record["moe_method"] == "UnquantizedFusedMoEMethod" != entry.settings.expect.moe_method
        assert entry.settings.expect.linear_scheme == record["linear"]


def test_the_diffs_of_the_page_stand_in_the_tree() -> None:
    """docs/methods.md shows how to add a method by the diff of a real one: every line of it is still there."""
    suite = ROOT / "tests" / "moe"
    files = (*suite.glob("recipes/*.py"), suite / "methods.yaml", suite / "selftest" / "test_formats.py")
    tree = "\n".join(
        f.read_text(encoding="utf-8") for f in (*files, *(ROOT / "docs" / "examples").glob("*.yaml"))
    )
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    added = [
        line[1:]
        for block in page.split("```diff")[1:]
        for line in block.split("```")[0].splitlines()
        if line[:1] == "+"
    ]
    assert len(added) > 30
    assert [line for line in added if line not in tree] == []


def test_the_matrix_of_the_gpu_host_says_what_the_table_says_of_its_engine() -> None:
    for entry in load(ROOT / "examples/gpu-host/matrix-methods.yaml").cells:
        record = METHODS[dict(entry.cell.axes)["quantization"]]
        said = {**record, **record.get("earlier", {}).get("0.26.0", {})}["moe_method"]
        wanted = entry.settings.expect.moe_method
        if record.get("leaves_experts_unquantized"):
            assert wanted != said, "expects the experts quantized, so that the cell says that they are not"
        else:
            assert wanted == said
        assert entry.settings.model is not None
        assert entry.settings.model.recipe == "_".join(
            filter(None, (record.get("model", "qwen3moe"), record["recipe"]))
        )


def test_every_recipe_of_the_table_is_described() -> None:
    text = (ROOT / "tests/moe/recipes/__init__.py").read_text(encoding="utf-8")
    for record in METHODS.values():
        assert record["recipe"] is None or f'"{record["recipe"]}":' in text
