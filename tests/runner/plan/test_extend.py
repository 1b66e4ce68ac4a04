"""docs/extend.md, executed: every file loads, every command says what the page shows, on a copy with the page's rows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
        for words, shown in commands(text) if language == "console" else ():
            assert words[:3] == ["python", "-m", "runner"]
            done = subprocess.run(
                [sys.executable, *words[1:]],
                cwd=tmp_path,
                env={
                    **os.environ,
                    **NO_DEVICES,
                    "COLUMNS": "140",
                    "PYTHONPATH": str(tmp_path),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert missing(shown, done.stdout) == []
            ran += 1
    assert ran


def test_the_page_shows_an_axis_a_method_a_platform_and_a_mounted_engine() -> None:
    assert list(SECTIONS) == ["An axis", "A method", "A platform", "An engine that lies on the host"]


def test_a_line_that_does_not_come_out_is_missed() -> None:
    assert missing(["a  b", "...", "c"], "x\nsay a b c\nc d\n") == []
    assert missing(["c", "a"], "a\nc\n") == ["a"]
