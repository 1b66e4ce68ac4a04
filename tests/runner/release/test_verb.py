"""The verb `gate` from the outside: exit codes 0, 11 and 2, and what it prints and writes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.cli import main
from tests.runner.release.conftest import Make
from tests.runner.release.factory import Gated

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def green(make_run: Make) -> Gated:
    """A green run of now: the command line reads the real clock."""
    return make_run(began=datetime.now(UTC))


def test_green_is_0_red_is_11_and_a_bad_file_is_2(
    green: Gated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gate", str(green.folder), "--policy", str(green.policy)]
    assert main([*words, "--page", str(tmp_path / "p.md"), "--statement", str(tmp_path / "s.json")]) == 0
    assert capsys.readouterr().out.startswith("GREEN: ")
    assert (tmp_path / "p.md").read_text().startswith("# Release gate: green")
    assert json.loads((tmp_path / "s.json").read_text())["predicate"]["result"] == "PASSED"
    (green.attempt() / "junit.xml").unlink()
    assert main([*words, "--json"]) == 11
    said = json.loads(capsys.readouterr().out)
    assert (said["green"], said["exit_code"], said["reasons"][0]["kind"]) == (False, 11, "folder")
    green.policy.write_text("version: 1\nblokcing: x\n")
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{green.policy}:2:1: the key 'blokcing' is not known (did you mean blocking?)\n"
    assert main(["gate", str(tmp_path), "--policy", str(green.policy)]) == 2


def test_a_full_disk_behind_the_text_changes_no_answer(green: Gated) -> None:
    words = [sys.executable, "-m", "runner", "gate", str(green.folder), "--policy", str(green.policy)]
    for code in (0, 11):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=PROJECT
            )
        assert done.returncode == code
        assert done.stderr == "standard output cannot be written: No space left on device\n"
        (green.attempt() / "junit.xml").unlink(missing_ok=True)


def test_waivers_are_read_before_anything_else(
    green: Gated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("version: 1\nwaivers: none\n")
    words = ["gate", str(green.folder), "--policy", str(green.policy), "--waivers", str(file)]
    assert main(words) == 2
    assert capsys.readouterr().err == f"{file}:2:10: waivers must be a list (write [none])\n"
