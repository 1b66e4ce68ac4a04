"""The sample in reports/ is what this code makes of its run folder: rendered again, it is the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner import pipeline

SAMPLE = Path(__file__).parents[3] / "reports" / "sample"


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("reports") / "sample"
    shutil.copytree(SAMPLE, copy)
    for name in ("index.html", "summary.md", "junit.xml"):
        (copy / name).unlink()
    pipeline.load_report(copy)
    return copy


@pytest.mark.parametrize("name", ["index.html", "summary.md", "junit.xml"])
def test_the_sample_renders_to_the_same_bytes(again: Path, name: str) -> None:
    assert (again / name).read_bytes() == (SAMPLE / name).read_bytes()


def test_the_grid_in_the_readme_is_the_samples(again: Path) -> None:
    from runner.report import terminal
    from runner.runs import load

    text = terminal(load(again), color=False, width=100, folder="reports/sample")
    grid = text[: text.index("page  ")].rstrip()
    assert grid in (SAMPLE.parents[1] / "README.md").read_text()
