from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.errors import BadRunFolder
from runner.facts import PreparedImage
from runner.machine import CpuFacts, Inventory
from runner.model import Cell, CellSettings, Limits, Outcome, Plan, PlanEntry, Status, Suite, Verdict
from runner.records import CellRecord, Prepared, Run
from runner.runs import Folder, load, new_run_id

A, B = Cell.of({"platform": "cpu", "tp": "1"}), Cell.of({"platform": "cpu", "tp": "2"})
SETTINGS = CellSettings(
    image="i", suite=Suite(), limits=Limits(), devices=0, engine_args={"x": True, "y": "no"}
)


def begun() -> Run:
    entries = tuple(PlanEntry(cell=c, status=Status.PLANNED, settings=SETTINGS) for c in (A, B))
    return Run(
        run_id="r1",
        plan=Plan(matrix="m", matrix_hash="h", axes={"tp": ("1", "2")}, entries=entries),
        runtime="fake",
        runtime_detail="",
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts()),
    )


def record(cell: Cell, outcome: Outcome = Outcome.PASSED) -> CellRecord:
    return CellRecord(cell=cell, verdict=Verdict(outcome=outcome))


def test_a_run_killed_right_after_planning_reads_as_unfinished_with_every_cell_missing(
    tmp_path: Path,
) -> None:
    Folder.create(tmp_path, begun())
    run = load(tmp_path / "r1")
    assert (run.finished, run.missing()) == (False, (A, B))


def test_a_run_killed_between_cells_keeps_what_was_known(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path, begun())
    prepared = Prepared(images={"i": PreparedImage(ref="i", digest="sha256:1", how="built")})
    folder.write_prepared(prepared)
    folder.write_record(record(A))
    run = load(folder.path)
    assert (run.finished, run.records, run.missing()) == (False, (record(A),), (B,))
    assert run.prepared == prepared


def test_a_half_written_record_is_not_there(tmp_path: Path) -> None:
    folder = Folder.create(tmp_path, begun())
    folder.cell(A).mkdir()
    (folder.cell(A) / ".cell.json.1.tmp").write_text('{"format": 1, "da')
    assert load(folder.path).missing() == (A, B)


def finished(tmp_path: Path) -> tuple[Folder, Run]:
    folder = Folder.create(tmp_path, begun())
    folder.write_prepared(Prepared())
    records = (record(A), record(B, Outcome.FAILED))
    for r in records:
        folder.write_record(r)
    return folder, folder.write_run(replace(begun(), records=records, finished=True))


def test_a_finished_run_reads_back_equal(tmp_path: Path) -> None:
    folder, run = finished(tmp_path)
    assert load(folder.path) == run
    assert set(run.hashes) == {
        "plan.json",
        "prepared.json",
        f"cells/{A.slug}/cell.json",
        f"cells/{B.slug}/cell.json",
    }


def test_a_record_changed_after_the_run_is_refused(tmp_path: Path) -> None:
    folder, _ = finished(tmp_path)
    file = folder.cell(B) / "cell.json"
    file.write_text(file.read_text().replace("failed", "passed"))
    with pytest.raises(BadRunFolder, match="changed or removed after the run ended"):
        load(folder.path)


def test_another_format_version_is_refused_by_number(tmp_path: Path) -> None:
    folder, _ = finished(tmp_path)
    file = folder.path / "run.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(BadRunFolder, match="format 2; this version reads format 1"):
        load(folder.path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "null"])
def test_a_damaged_file_is_one_plain_error(tmp_path: Path, text: str) -> None:
    folder, _ = finished(tmp_path)
    (folder.path / "run.json").write_text(text)
    with pytest.raises(BadRunFolder, match="damaged or not written by this tool"):
        load(folder.path)


def test_no_folder_and_a_foreign_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(BadRunFolder, match="no such run folder"):
        load(tmp_path / "nothing")
    with pytest.raises(BadRunFolder, match="not a run folder"):
        load(tmp_path)


def test_run_ids_sort_by_time_and_differ_within_a_second() -> None:
    early, late = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
    assert new_run_id(early) < new_run_id(late)
    assert new_run_id(early) != new_run_id(early)
