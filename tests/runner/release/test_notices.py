"""Cells that pass and disagree: red in the run that made them, and for the gate, whatever the folder says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner import pipeline, runs
from runner.errors import ExitCode
from runner.model import Cell
from runner.pipeline.gate import gate
from runner.pipeline.noticing import notices
from runner.pipeline.reading import exit_code, load_report
from runner.release import Because, check_folder
from runner.runtimes import FakeCell
from tests.runner.release import factory


def control(shift: float) -> str:
    event = {
        "event": "control",
        "of": "m/1",
        "bound": 0.5,
        "mean_bound": 0.1,
        "control_bound": 0.7,
        "control_mean_bound": 0.2,
        "top": [[[7, -0.2 - shift], [8, -2.0 - shift]]],
    }
    return json.dumps(event) + "\n"


def says(tp: int, quantization: str, shift: float) -> FakeCell:
    lines = factory.evidence(tp, quantization).splitlines(keepends=True)
    out = {
        "junit.xml": factory.junit(factory.PASS),
        "evidence.jsonl": "".join([*lines[:-2], control(shift), *lines[-2:]]),
    }
    return FakeCell(out=out, log="engine log\n")


def run_with(place: Path, wide: float) -> Path:
    """Four cells that pass; the one of tp 2 with experts_int8 answers ``wide`` nats off."""
    cells = {
        f"*{factory.slug(tp, q)}-*": says(tp, q, wide if (tp, q) == (2, "experts_int8") else 0.0)
        for tp in (1, 2)
        for q in factory.WEIGHTS
    }
    return factory.go(place, cells)


def decide(folder: Path, policy: str = factory.POLICY) -> list[tuple[Because, str]]:
    file = folder.parent.parent / "policy.yaml"
    file.write_text(policy)
    result = gate(folder, file, None, factory.TODAY)
    return [(reason.kind, reason.text) for reason in result.decision.reasons]


def test_cells_that_agree_are_told_and_qualify(tmp_path: Path) -> None:
    folder = run_with(tmp_path, 0.05)
    run = runs.load(folder)
    assert [(n.red, n.text) for n in run.notices] == [
        (False, "cells compared with each other: 2 across tp, 2 with the unquantized model; all agree")
    ]
    assert exit_code(run) is ExitCode.OK
    assert decide(folder) == []
    assert "2 across tp" in (folder / "summary.md").read_text()


def test_a_width_that_disagrees_is_red_in_run_and_gate(tmp_path: Path) -> None:
    folder = run_with(tmp_path, 0.6)
    run = runs.load(folder)
    assert [n.red for n in run.notices] == [True, True, False]
    assert "tp=2,quantization=experts_int8 answers otherwise than tp=1" in run.notices[0].text
    assert "quantization=experts_int8 answers otherwise than quantization=none" in run.notices[1].text
    assert exit_code(run) is ExitCode.RED
    kinds = [kind for kind, _ in decide(folder)]
    assert kinds == [Because.NOTICE, Because.NOTICE]


def test_cells_that_are_not_blocking_do_not_refuse(tmp_path: Path) -> None:
    folder = run_with(tmp_path, 0.6)
    policy = 'version: 1\nblocking: "platform=cpu and quantization=none and tp=1"\nengine_version: 0.32.0\n'
    # Of the two red notices neither is about the one blocking cell.
    assert decide(folder, policy) == []


def test_the_gate_compares_the_cells_itself(tmp_path: Path) -> None:
    """A folder whose notices were taken out, with every hash made right again, is refused all the same."""
    folder = run_with(tmp_path, 0.6)
    run = runs.load(folder)
    assert run.notices
    runs.Folder(folder).write_run(replace(run, notices=()))
    assert runs.load(folder).notices == ()
    assert Because.NOTICE in [kind for kind, _ in decide(folder)]
    assert len(notices(runs.load(folder))) == 3


@pytest.mark.parametrize(("registered", "code"), [(["experts_int8"], ExitCode.OK), (["quark"], ExitCode.RED)])
def test_what_the_probe_says_against_the_table_is_news_of_the_run(
    tmp_path: Path, registered: list[str], code: ExitCode
) -> None:
    """Every cell passes; a method that the image lost is red, in the run's record, its summary and for the gate."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "probe.py").touch()
    found = {
        "engine": "vllm",
        "version": "0.32.0",
        "quantization_methods": registered,
        "support": {
            "methods": {"experts_int8": {"words": ["experts_int8"], "never": {}}},
            "known": ["quark"],
        },
    }
    folder = factory.go(tmp_path, {"probe-*": FakeCell(log=json.dumps(found) + "\n")})
    run = runs.load(folder)
    assert exit_code(run) is code
    lost = "experts_int8 on cpu is newly unsupported: this engine registers none of experts_int8"
    if code is ExitCode.OK:
        assert run.notices == ()
        assert decide(folder) == []
    else:
        assert [(n.red, len(n.cells), n.text.partition(" (")[0]) for n in run.notices] == [(True, 2, lost)]
        assert lost in (folder / "summary.md").read_text()
        assert [kind for kind, _ in decide(folder)] == [Because.NOTICE]


@pytest.mark.parametrize(
    ("name", "other", "problem"),
    [
        ("prepared", {}, "prepared.json: run.json has other images, probes or models"),
        ("runtime", "docker ", "plan.json: run.json has another runtime"),
        ("expect_engine", "9.9", "plan.json: run.json has another expect_engine"),
    ],
)
def test_run_json_alone_cannot_be_changed(tmp_path: Path, name: str, other: object, problem: str) -> None:
    """The news of a probe, and so a red notice, is made anew from ``run.json``: it must say what was prepared."""
    folder = factory.go(tmp_path)
    whole = json.loads((folder / "run.json").read_text())
    whole["data"][name] = other
    (folder / "run.json").write_text(json.dumps(whole))
    assert problem in check_folder(folder, runs.load(folder))


def test_images_probe_says_what_is_news(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "probe.py").touch()
    (tmp_path / "matrix.yaml").write_text(factory.MATRIX)
    found = {
        "quantization_methods": ["int2"],
        "support": {"methods": {"experts_int8": {"words": ["experts_int8"], "never": {}}}},
    }
    wish = pipeline.Wish(
        matrix=tmp_path / "matrix.yaml", cache=tmp_path / "cache", select="platform=cpu", out=tmp_path / "out"
    )
    runtime = factory.Scripted({"probe": FakeCell(log=json.dumps(found) + "\n")})
    (line,) = pipeline.images(wish, "probe", runtime=runtime)
    assert line.text.splitlines()[-2:] == [
        "experts_int8 on cpu is newly unsupported: this engine registers none of experts_int8",
        "int2 on cpu is not in the table: the engine registers a method the table does not know",
    ]
    assert line.code is ExitCode.OK


@pytest.mark.parametrize("same", [True, False])
def test_a_policy_may_pin_the_matrix(tmp_path: Path, same: bool) -> None:
    folder = factory.go(tmp_path)
    found = runs.load(folder).plan.matrix_hash
    pinned = found if same else "0" * 64
    reasons = decide(folder, f"{factory.POLICY}matrix: {pinned}\n")
    text = f"the matrix of the run has the hash {found}, the policy qualifies {pinned}"
    assert reasons == ([] if same else [(Because.MATRIX, text)])


def elsewhere(folder: Path) -> None:
    """Make a run folder that of another platform."""
    run = runs.load(folder)

    def moved(cell: Cell) -> Cell:
        return Cell.of({**dict(cell.axes), "platform": "cuda"})

    runs.Folder(folder).write_run(
        replace(
            run,
            run_id="on-cuda",
            records=tuple(replace(record, cell=moved(record.cell)) for record in run.records),
            plan=replace(
                run.plan,
                entries=tuple(
                    replace(entry, cell=moved(entry.cell))
                    for entry in run.plan.entries
                    if entry.cell.get("platform") == "cpu"
                ),
            ),
        )
    )


def test_a_baseline_of_another_platform_is_compared(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here, there = run_with(tmp_path / "here", 0.0), run_with(tmp_path / "there", 0.6)
    elsewhere(there)
    run, _ = load_report(here, baseline=there)
    red = [notice.text for notice in run.notices if notice.red]
    assert len(red) == 1
    assert "tp=2,quantization=experts_int8 answers otherwise than platform=cuda of run on-cuda" in red[0]
    assert exit_code(run) is ExitCode.RED
    assert "4 across platforms" in (here / "summary.md").read_text()
    again, _ = load_report(here)
    assert exit_code(again) is ExitCode.OK


def test_a_red_word_about_another_run_stays_red_at_the_gate(tmp_path: Path) -> None:
    """The gate has no baseline: it cannot make the comparison again, and must not forget that it was red."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here, there = run_with(tmp_path / "here", 0.0), run_with(tmp_path / "there", 0.6)
    elsewhere(there)
    run, _ = load_report(here, baseline=there)
    runs.Folder(here).write_run(run)
    assert [text for kind, text in decide(here) if kind is Because.NOTICE] == [
        notice.text for notice in run.notices if notice.red
    ]
