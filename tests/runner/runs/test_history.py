"""The index over run folders: made from them, kept in step with them, and never in the way."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from runner import runs
from runner.errors import UsageError
from runner.model import Culprit, Outcome
from runner.pipeline.history import against, history, result, settle, since
from runner.records import CellRecord, Prepared, PreparedModel, Run
from runner.runs.history import NAME
from runner.triage import Change, Class
from tests.runner.report import factory as make

CELL = make.short(2, "quark_int8")


def keep(
    parent: Path,
    day: int,
    record: CellRecord | None = None,
    tests: str = "sha256:aa",
    *,
    finished: bool = True,
) -> Run:
    """A finished run folder of six cells; ``record`` replaces the one of the watched cell."""
    records = [record if record and r.cell == CELL else r for r in make.run().records]
    prepared = Prepared(
        images=make.run().prepared.images,
        suites={"tests/moe": tests},
        models={
            "images/cpu|qwen3moe-tiny": PreparedModel(name="q", path="/m", digest="sha256:m", source="recipe")
        },
    )
    run = make.run(
        records=records,
        prepared=prepared,
        run_id=f"202603{day:02}T100000Z-aaaaaa",
        started_at=f"2026-03-{day:02}T10:00:00+00:00",
        finished=finished,
    )
    folder = runs.Folder.create(parent, replace(run, records=()))
    folder.write_prepared(run.prepared)
    for one in run.records:
        folder.write_record(one)
    return folder.write_run(run) if run.finished else run


def failed(cause: str = "wrong tokens") -> CellRecord:
    return make.record(CELL, Outcome.FAILED, culprit=Culprit.PRODUCT, cause=cause)


def infra() -> CellRecord:
    return make.record(CELL, Outcome.INFRA, culprit=Culprit.HOST, cause="disk full")


def letters(parent: Path) -> str:
    return "".join(one.result for one in history(CELL.id, parent).seen)


def test_results_over_runs_in_time_order_with_what_they_ran(tmp_path: Path) -> None:
    keep(tmp_path, 2, failed())
    keep(tmp_path, 1)
    keep(tmp_path, 3, infra())
    found = history(CELL.id, tmp_path)
    assert "".join(one.result for one in found.seen) == "PFI"
    first = found.seen[0]
    assert (first.run_id, first.definition, first.model) == (
        "20260301T100000Z-aaaaaa",
        "sha256:aa",
        "sha256:m",
    )
    assert (first.candidate, first.engine, first.host, first.seconds) == (
        make.DIGEST,
        "0.32.0",
        "builder-1",
        41.0,
    )
    assert found.judgement.kind is Class.UNSURE
    assert (tmp_path / NAME).is_file()
    assert history(CELL.slug, tmp_path) == found


def test_a_rewritten_test_starts_anew(tmp_path: Path) -> None:
    for day in range(1, 10):
        keep(tmp_path, day)
    for day in range(10, 13):
        keep(tmp_path, day, failed(), tests="sha256:bb")
    found = history(CELL.id, tmp_path)
    assert "".join(one.result for one in found.seen) == "FFF"
    assert found.earlier == 9
    assert found.judgement.kind is Class.UNSURE


def test_a_regression_is_found_with_its_first_bad_run(tmp_path: Path) -> None:
    for day in range(1, 9):
        keep(tmp_path, day)
    for day in range(9, 12):
        keep(tmp_path, day, failed())
    last = keep(tmp_path, 12, failed())
    found = history(CELL.id, tmp_path).judgement
    assert (found.kind, found.since) == (Class.REGRESSION, "20260309T100000Z-aaaaaa")
    assert since(last, tmp_path) == {CELL.id: "20260309T100000Z-aaaaaa"}


def test_since_is_said_only_where_something_is_known_of_before(tmp_path: Path) -> None:
    alone = keep(tmp_path, 1, failed())
    assert since(alone, tmp_path) == {}
    later = keep(tmp_path, 2, failed())
    assert since(later, tmp_path) == {CELL.id: "20260301T100000Z-aaaaaa or earlier"}
    keep(tmp_path, 3)
    new = keep(tmp_path, 4, failed())
    assert since(new, tmp_path) == {CELL.id: new.run_id}
    assert since(later, tmp_path) == {CELL.id: "20260301T100000Z-aaaaaa or earlier"}


def test_the_index_follows_the_folders(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    keep(tmp_path, 2, failed(), finished=False)
    assert letters(tmp_path) == "PF"
    unfinished = tmp_path / "20260302T100000Z-aaaaaa"
    shutil.rmtree(unfinished / "cells" / CELL.slug)
    assert letters(tmp_path) == "P-"
    shutil.rmtree(unfinished)
    keep(tmp_path, 3, failed())
    assert letters(tmp_path) == "PF"


@pytest.mark.parametrize("damage", ["text", "version", "other"])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: str) -> None:
    keep(tmp_path, 1)
    assert letters(tmp_path) == "P"
    if damage == "text":
        (tmp_path / NAME).write_text("no database " * 400)
    elif damage == "version":
        with sqlite3.connect(tmp_path / NAME) as base:
            base.execute("pragma user_version = 99")
        base.close()
    else:
        (tmp_path / NAME).unlink()
        (tmp_path / NAME).write_bytes(b"")
    assert letters(tmp_path) == "P"


def test_a_folder_that_cannot_be_read_is_said_and_left_out(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    keep(tmp_path, 2, failed())
    (tmp_path / "20260302T100000Z-aaaaaa" / "cells" / CELL.slug / "cell.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    found = history(CELL.id, tmp_path)
    assert "".join(one.result for one in found.seen) == "P"
    assert len(found.unread) == 1
    assert "changed or removed after the run ended" in found.unread[0]


def test_an_unknown_cell_names_the_nearest(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    with pytest.raises(UsageError, match=r"planned 'platform=cpu.*did you mean platform=cpu,"):
        history(CELL.id.replace("quark", "qark"), tmp_path)
    with pytest.raises(UsageError, match="no such folder of runs"):
        history(CELL.id, tmp_path / "nowhere")


def test_against_a_baseline_with_noise_from_history(tmp_path: Path) -> None:
    for day, took in enumerate((40.0, 80.0, 45.0, 75.0, 60.0), 1):
        keep(tmp_path, day, make.record(CELL, duration_s=took))
    keep(tmp_path, 6, make.record(CELL, duration_s=40.0))
    now = keep(tmp_path, 7, make.record(CELL, duration_s=80.0))
    base = tmp_path / "20260306T100000Z-aaaaaa"
    assert against(now, base).counts() == {Change.SLOWER: 1, Change.SAME: 5}
    assert against(now, base, tmp_path).counts() == {Change.SAME: 6}


def test_settle_of_a_green_run_is_a_usage_error(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    with pytest.raises(UsageError, match="no cell that could run"):
        settle(tmp_path / "20260301T100000Z-aaaaaa")


@pytest.mark.parametrize(
    ("outcome", "culprit", "letter"),
    [
        (Outcome.PASSED, Culprit.NONE, "P"),
        (Outcome.CRASHED, Culprit.PRODUCT, "F"),
        (Outcome.REFUSED, Culprit.CONFIG, "F"),
        (Outcome.FLAKY, Culprit.PRODUCT, "f"),
        (Outcome.INFRA, Culprit.HOST, "I"),
        (Outcome.CANCELLED, Culprit.NONE, "I"),
        (Outcome.OUT_OF_MEMORY, Culprit.HOST, "I"),
        (Outcome.OUT_OF_MEMORY, Culprit.PRODUCT, "F"),
    ],
)
def test_letters(outcome: Outcome, culprit: Culprit, letter: str) -> None:
    assert result(make.record(CELL, outcome, culprit=culprit)) == letter
    assert result(None) == "-"
