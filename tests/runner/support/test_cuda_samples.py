"""The recorded runs of docs/cuda.md load, and say what the page says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import runs
from runner.model import Outcome
from runner.records import Attempt, Run

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "cuda.md").read_text(encoding="utf-8")
BAD = {
    "mxfp4": Outcome.FAILED,
    "fp8_per_tensor": Outcome.FAILED,
    "fp8_tensor": Outcome.FAILED,
    "fp8_per_channel": Outcome.CRASHED,
    "moe_wna16": Outcome.CRASHED,
    "quark_mxfp4": Outcome.CRASHED,
}


def recorded(name: str) -> Run:
    run = runs.load(DOCS / "cuda" / name)
    assert run.finished
    assert not run.missing()
    return run


def ready_s(attempt: Attempt) -> float:
    """From the start of the container to an engine that takes prompts."""
    return sum(attempt.phases[name] for name in ("start", "import", "load"))


def test_the_matrix_passed_and_every_cell_saw_what_it_was_given() -> None:
    for record in recorded("matrix").records:
        (attempt,) = record.attempts
        assert record.verdict.outcome is Outcome.PASSED
        assert attempt.given is not None
        assert attempt.evidence is not None
        assert attempt.evidence.sight is not None
        assert attempt.evidence.sight.drivers == {"cuda": attempt.given.devices}
        assert attempt.evidence.sight.files == attempt.given.files == ("/dev/nvidia0",)
        assert attempt.evidence.tokens_equal


@pytest.mark.parametrize("part", ["1", "2", "3"])
def test_each_method_ended_as_the_page_says(part: str) -> None:
    for record in recorded(f"methods/{part}").records:
        name = record.cell.get("quantization")
        assert record.verdict.outcome is BAD.get(name, Outcome.PASSED), name


def test_the_parts_together_are_every_method_of_the_matrix_once() -> None:
    names = [r.cell.get("quantization") for part in "123" for r in recorded(f"methods/{part}").records]
    assert len(names) == len(set(names)) == 17
    assert set(BAD) < set(names)


def test_the_second_start_took_less_than_half_of_the_first() -> None:
    (record,) = recorded("timings").records
    first, second, third = record.attempts
    uses = [attempt.cache for attempt in record.attempts]
    assert all(use is not None for use in uses)
    given = [(use.layer != "", use.files_in, use.kept) for use in uses if use]
    assert given == [(False, 0, True), (True, 182, False), (True, 182, True)]
    assert [round(ready_s(each), 1) for each in (first, second, third)] == [43.4, 20.7, 22.2]
    for number in ("43.4", "20.7", "22.2"):
        assert f"**{number}**" in PAGE
    assert ready_s(second) < ready_s(first) / 2
