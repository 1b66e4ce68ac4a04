"""Every rocm cell says that its path has never run on hardware: in the plan, the grid, the summary and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import runner.matrix
from runner import plan
from runner.machine import CpuFacts, Inventory
from runner.model import Plan, Status
from runner.report import html, markdown, plan_text, terminal
from tests.runner.report import factory as make

WORDS = "rocm: the ROCm path has never run on hardware"
HERE = Inventory(
    hostname="h",
    boot_id="b",
    cpu=CpuFacts(cores=(0, 1), memory_bytes=1 << 34),
    absent={"rocm": "no /dev/kfd"},
)


def made(tmp_path: Path, platforms: str, more: str = "") -> Plan:
    path = tmp_path / "matrix.yaml"
    path.write_text(
        f"version: 1\nsuite: {{proof: tests}}\naxes: {{platform: [{platforms}], tp: [1, 2]}}\n{more}"
    )
    matrix = runner.matrix.load(path, apply_rules=True, max_cells=100)
    return plan.make(matrix, HERE, lambda _: {}, {"cuda": 0, "rocm": 0, "cpu": 0})


def test_every_form_says_so_also_where_no_rocm_cell_can_run(tmp_path: Path) -> None:
    found = made(tmp_path, "rocm, cpu")
    assert all(e.status is Status.NOT_RUNNABLE for e in found.entries if e.cell.get("platform") == "rocm")
    run = make.run(found, ())
    assert f"note: {WORDS}" in plan_text(found, "docker")
    grid = terminal(run, color=False, width=100)
    assert WORDS in grid[: grid.index("Left out")]
    assert WORDS in markdown(run)
    assert WORDS in html(run, lambda _: "")


def test_each_rocm_cell_of_the_json_has_the_note_and_no_other(tmp_path: Path) -> None:
    cells = plan.as_json(made(tmp_path, "rocm, cpu"))["cells"]
    assert isinstance(cells, list)
    assert [(each["axes"]["platform"], each["note"]) for each in cells] == [
        ("rocm", "the ROCm path has never run on hardware"),
        ("rocm", "the ROCm path has never run on hardware"),
        ("cpu", ""),
        ("cpu", ""),
    ]


@pytest.mark.parametrize(
    ("platforms", "more"),
    [("cuda, cpu", ""), ("rocm, cpu", "rules: [{exclude: {platform: rocm}, reason: not now}]\n")],
    ids=["no rocm", "every rocm cell excluded"],
)
def test_a_plan_without_rocm_cells_has_no_such_note(tmp_path: Path, platforms: str, more: str) -> None:
    assert WORDS not in made(tmp_path, platforms, more).remarks
