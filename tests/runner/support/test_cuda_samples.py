"""The recorded runs of docs/cuda.md load, and say what the page says of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner import pipeline, runs
from runner.model import Culprit, Outcome
from runner.records import Attempt, CellRecord, Run

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "cuda.md").read_text(encoding="utf-8")
BAD = {"fbgemm_fp8": Outcome.FELL_BACK, "quark_mxfp4": Outcome.CRASHED}
SEEN = ("matrix", "starts", "timings", "methods/1", "methods/2", "methods/3")


def recorded(name: str) -> Run:
    run = runs.load(DOCS / "cuda" / name)
    assert run.finished
    assert not run.missing()
    return run


def ready_s(attempt: Attempt) -> float:
    """From the start of the container to an engine that takes prompts."""
    return sum(attempt.phases[name] for name in ("start", "import", "load"))


@pytest.mark.parametrize("name", SEEN)
def test_every_cell_saw_the_device_that_it_was_given_and_no_other(name: str) -> None:
    for record in recorded(name).records:
        for attempt in record.attempts:
            assert attempt.given is not None
            assert attempt.evidence is not None
            assert attempt.evidence.sight is not None
            assert attempt.evidence.sight.drivers == {"cuda": attempt.given.devices}
            assert attempt.evidence.sight.files == attempt.given.files == ("/dev/nvidia0",)


@pytest.mark.parametrize("name", ["matrix", "starts"])
def test_every_cell_passed_with_the_tokens_of_the_reference(name: str) -> None:
    for record in recorded(name).records:
        (attempt,) = record.attempts
        assert record.verdict.outcome is Outcome.PASSED
        assert attempt.evidence is not None
        assert attempt.evidence.tokens_equal


@pytest.mark.parametrize("part", ["1", "2", "3"])
def test_each_method_ended_as_the_page_says(part: str) -> None:
    for record in recorded(f"methods/{part}").records:
        name = record.cell.get("quantization")
        assert record.verdict.outcome is BAD.get(name, Outcome.PASSED), name


def test_the_parts_together_are_every_method_of_the_matrix_once() -> None:
    names = [r.cell.get("quantization") for part in "123" for r in recorded(f"methods/{part}").records]
    assert len(names) == len(set(names)) == 18
    assert set(BAD) < set(names)


def test_the_mamba_crash_goes_with_the_time_step_rank_alone() -> None:
    def where(record: CellRecord) -> tuple[str, ...]:
        return tuple(record.cell.get(axis) for axis in ("chunked", "requests", "rank"))

    ended = {where(record): record.verdict for record in recorded("mamba").records}
    assert ended.pop(("without", "joined", "8")).outcome is Outcome.PASSED
    assert set(ended) == {("without", "joined", "4"), ("with", "joined", "4"), ("with", "alone", "4")}
    for verdict in ended.values():
        assert (verdict.outcome, verdict.culprit) == (Outcome.CRASHED, Culprit.PRODUCT)
        assert verdict.cause == "rank 0: RuntimeError: Triton Error [CUDA]: misaligned address"


def test_the_page_marks_the_line_of_the_cause_though_progress_bars_stand_before_it() -> None:
    page = (DOCS / "cuda" / "mamba" / "index.html").read_text(encoding="utf-8")
    marked = [line for line in page.splitlines() if "<mark>" in line]
    assert len(marked) == 3
    assert all("RuntimeError: Triton Error [CUDA]: misaligned address" in line for line in marked)


@pytest.mark.parametrize("name", ["matrix", "starts", "mamba"])
def test_the_recorded_page_is_what_this_code_makes_of_its_folder(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "cuda" / name
    shutil.copytree(DOCS / "cuda" / name, copy)
    (copy / "index.html").unlink()
    pipeline.load_report(copy)
    assert (copy / "index.html").read_bytes() == (DOCS / "cuda" / name / "index.html").read_bytes()


def test_the_second_start_took_less_than_half_of_the_first() -> None:
    (record,) = recorded("timings").records
    first, second, third = record.attempts
    uses = [attempt.cache for attempt in record.attempts]
    assert all(use is not None for use in uses)
    given = [(use.layer != "", use.files_in, use.kept) for use in uses if use]
    assert given == [(False, 0, True), (True, 182, True), (True, 214, True)]
    assert [round(ready_s(each), 1) for each in (first, second, third)] == [41.9, 19.3, 19.5]
    for number in ("41.9", "19.3", "19.5"):
        assert f"**{number}**" in PAGE
    assert ready_s(second) < ready_s(first) / 2
