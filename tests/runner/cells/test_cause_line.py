"""The line of the first error is kept with the attempt, counted in log.txt and not in what was read before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cells.gather import facts_of
from runner.facts import CellExit
from tests.runner.report import factory as make

ERROR = "(VllmWorker-1 pid=77) ERROR 11-30 15:45:22 [worker.py:1] RuntimeError: expert weights are wrong\n"


@pytest.mark.parametrize(
    ("errors", "log", "line"),
    [
        ("", "loading\nloading\n" + ERROR + "end\n", 3),
        ("", "all well\n", None),
        ("nothing of note\n" * 5, "loading\n" + ERROR, 2),
        (ERROR, "loading\n", 0),
    ],
    ids=["in the log", "no error", "after another file", "only in the other file"],
)
def test_cause_line(tmp_path: Path, errors: str, log: str, line: int | None) -> None:
    (tmp_path / "log.txt").write_text(log)
    if errors:
        (tmp_path / "engine-errors.log").write_text(errors)
    entry = make.plan().planned()[0]
    found = facts_of(entry, tmp_path, CellExit(exit_code=1, duration_s=1.0), None, None).finding
    assert (found.line_number if found else None) == line
