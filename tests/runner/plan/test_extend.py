"""docs/extend.md, executed: every file loads, every command says what the page shows, on a copy with the page's rows."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import runner.matrix
from runner.errors import MatrixError

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "extend.md").read_text()


def sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Title and blocks (language, text) of each section that shows something."""
    for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
        if blocks:
            yield part.splitlines()[0], blocks


SECTIONS = dict(sections())
NO_DEVICES = {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""The page shows a host without accelerators, wherever the test runs."""


def commands(console: str) -> Iterator[tuple[list[str], list[str]]]:
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield shlex.split(command), lines


def promised(text: str) -> dict[str, int]:
    """Cells that a file's first line speaks of."""
    found = re.findall(r"(\d+) (cell|excluded)", text.splitlines()[0])
    return {"cell": 0, "excluded": 0} | {what: int(number) for number, what in found}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The program as it lies in a folder, on ``matrix.yaml`` there."""
    environ = {**os.environ, **NO_DEVICES, "COLUMNS": "140", "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def counts(folder: Path) -> dict[str, int]:
    done = run(folder, "-m", "runner", "plan", "matrix.yaml", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    cells = json.loads(done.stdout)["cells"]
    return {"cell": len(cells), "excluded": sum(each["status"] == "excluded" for each in cells)}


def missing(shown: list[str], said: str) -> list[str]:
    """Lines of the page that do not come out, in their order. A line may be a part of one that comes out."""
    out = iter([" ".join(line.split()) for line in said.splitlines()])
    wanted = [" ".join(line.split()) for line in shown if line != "..."]
    return [line for line in wanted if not any(line in each for each in out)]


@pytest.mark.parametrize("title", SECTIONS)
def test_the_section_does_what_it_shows(title: str, tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "runner", tmp_path / "runner", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "images", tmp_path / "images")
    ran = 0
    for language, text in SECTIONS[title]:
        if language == "python":
            table = tmp_path / "runner" / "vendors.py"
            before = table.read_text()
            table.write_text(before.replace('    "cpu": Vendor(', f'{text}    "cpu": Vendor('))
            assert table.read_text() != before
        elif language == "yaml":
            (tmp_path / "matrix.yaml").write_text(text)
            assert counts(tmp_path) == promised(text)
        for words, shown in commands(text) if language == "console" else ():
            assert words[:3] == ["python", "-m", "runner"]
            done = run(tmp_path, *words[1:])
            assert (done.returncode, done.stderr) == (0, "")
            assert missing(shown, done.stdout) == []
            ran += 1
    assert ran


def test_without_its_row_a_platform_is_refused_as_the_page_says(tmp_path: Path) -> None:
    (text,) = [text for language, text in SECTIONS["A platform"] if language == "yaml"]
    (tmp_path / "matrix.yaml").write_text(text)
    with pytest.raises(MatrixError) as caught:
        runner.matrix.load(tmp_path / "matrix.yaml")
    said = str(caught.value).splitlines()[0]
    assert f"{tmp_path}/matrix.yaml:3:19: axis platform: 'xpu' is not known" in said
    assert "axis platform: 'xpu' is not known" in " ".join(PAGE.split())


def test_the_page_shows_an_axis_a_method_a_platform_and_a_mounted_engine() -> None:
    assert list(SECTIONS) == ["An axis", "A method", "A platform", "An engine that lies on the host"]


def test_a_line_that_does_not_come_out_is_missed() -> None:
    assert missing(["a  b", "...", "c"], "x\nsay a b c\nc d\n") == []
    assert missing(["c", "a"], "a\nc\n") == ["a"]
