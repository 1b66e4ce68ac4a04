"""Mutations of a finished, green run: each must turn the gate red, for the right reason (issue 6, shown by 3)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.codec import sha256
from runner.errors import BadRunFolder, ExitCode
from runner.release import Because
from tests.runner.release.factory import Gated

Change = Callable[[Gated], object]


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    whole = json.loads(file.read_text())
    change(whole["data"])
    file.write_text(json.dumps(whole))


def forge(gated: Gated, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a record in cell.json and run.json alike, and hash anew: nothing on disk disagrees any more."""
    cell = gated.cell(2, "experts_int8") / "cell.json"
    edit(cell, change)

    def in_run(data: dict[str, Any]) -> None:
        change(next(r for r in data["records"] if ["tp", "2"] in r["cell"]["axes"] and _int8(r["cell"])))
        data["hashes"][f"cells/{cell.parent.name}/cell.json"] = sha256(cell)

    edit(gated.folder / "run.json", in_run)


def _int8(cell: dict[str, Any]) -> bool:
    return ["quantization", "experts_int8"] in cell["axes"]


def drop_record(data: dict[str, Any]) -> None:
    gone = next(record for record in data["records"] if _int8(record["cell"]))
    data["records"].remove(gone)


def drop_from_plan(data: dict[str, Any]) -> None:
    drop_record(data)
    entries = data["plan"]["entries"]
    entries.remove(next(e for e in entries if _int8(e["cell"]) and e["status"] == "planned"))


def drop_everywhere(gated: Gated) -> None:
    """Record, plan entry and folder of one cell go, and the hashes of them."""
    folder = gated.cell(1, "experts_int8")

    def drop(data: dict[str, Any]) -> None:
        drop_from_plan(data)
        del data["hashes"][f"cells/{folder.name}/cell.json"]

    edit(gated.folder / "run.json", drop)
    shutil.rmtree(folder)


def rename(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def to_link(file: Path) -> None:
    copy = file.with_name("elsewhere")
    file.rename(copy)
    file.symlink_to(copy.name)


def all_skipped(record: dict[str, Any]) -> None:
    attempt = record["attempts"][0]
    attempt["tally"] |= {"passed": 0, "skipped": attempt["tally"]["total"]}


def no_evidence(record: dict[str, Any]) -> None:
    record["attempts"][0]["evidence"] = None


def a_failure(record: dict[str, Any]) -> None:
    record["attempts"][0]["tally"]["failed"] = 1


def other_exit(record: dict[str, Any]) -> None:
    record["attempts"][0]["exit"]["exit_code"] = 1


def one_rank(record: dict[str, Any]) -> None:
    record["attempts"][0]["evidence"]["ranks"].pop()


def no_attempt(record: dict[str, Any]) -> None:
    record["attempts"] = []


def other_engine(record: dict[str, Any]) -> None:
    record["attempts"][0]["evidence"]["engine_version"] = "0.31.0"


JUNIT = "attempt-1/junit.xml"
MUTATIONS: dict[str, tuple[Change, Because, str]] = {
    "delete a report": (lambda g: (g.attempt() / "junit.xml").unlink(), Because.FOLDER, f"{JUNIT}: missing"),
    "truncate a report": (lambda g: cut(g.attempt() / "junit.xml"), Because.FOLDER, f"{JUNIT}: truncated"),
    "empty a report": (
        lambda g: (g.attempt() / "junit.xml").write_text(""),
        Because.FOLDER,
        f"{JUNIT}: empty now",
    ),
    "rename a report": (
        lambda g: rename(g.attempt() / "junit.xml", "junit-old.xml"),
        Because.FOLDER,
        f"{JUNIT}: renamed to attempt-1/junit-old.xml",
    ),
    "skip all in a report": (
        lambda g: (g.attempt() / "junit.xml").write_text(
            '<testsuites><testsuite><testcase name="a"><skipped/></testcase></testsuite></testsuites>'
        ),
        Because.FOLDER,
        f"{JUNIT}: changed after it was recorded",
    ),
    "another cell's report": (
        lambda g: shutil.copy(g.attempt(1, "none") / "evidence.jsonl", g.attempt() / "evidence.jsonl"),
        Because.FOLDER,
        "evidence.jsonl: changed after",
    ),
    "truncate evidence": (
        lambda g: cut(g.attempt() / "evidence.jsonl"),
        Because.FOLDER,
        "evidence.jsonl: truncated",
    ),
    "delete a log": (lambda g: (g.attempt() / "log.txt").unlink(), Because.FOLDER, "log.txt: missing"),
    "a link for a report": (lambda g: to_link(g.attempt() / "junit.xml"), Because.FOLDER, "no plain file"),
    "add a report": (
        lambda g: (g.attempt() / "junit-2.xml").write_text("<testsuites/>"),
        Because.FOLDER,
        "junit-2.xml: not in the record",
    ),
    "delete an attempt": (lambda g: shutil.rmtree(g.attempt()), Because.FOLDER, f"{JUNIT}: missing"),
    "rename an attempt": (lambda g: rename(g.attempt(), "attempt-9"), Because.FOLDER, f"{JUNIT}: missing"),
    "delete a cell's folder": (
        lambda g: shutil.rmtree(g.cell(1, "none")),
        Because.FOLDER,
        "changed or removed",
    ),
    "rename a cell's folder": (
        lambda g: rename(g.cell(1, "none"), "x"),
        Because.FOLDER,
        "changed or removed",
    ),
    "change a cell.json": (
        lambda g: edit(g.cell(1, "none") / "cell.json", lambda data: data.update(duration_s=1.5)),
        Because.FOLDER,
        "changed or removed after the run ended",
    ),
    "delete plan.json": (
        lambda g: (g.folder / "plan.json").unlink(),
        Because.FOLDER,
        "plan.json: changed or removed",
    ),
    "delete run.json": (lambda g: (g.folder / "run.json").unlink(), Because.UNFINISHED, "no run.json"),
    "truncate run.json": (lambda g: cut(g.folder / "run.json"), Because.FOLDER, "run.json: damaged"),
    "drop a record": (lambda g: edit(g.folder / "run.json", drop_record), Because.MISSING, "1 blocking cell"),
    "drop a cell from the plan in run.json": (
        lambda g: edit(g.folder / "run.json", drop_from_plan),
        Because.FOLDER,
        "no planned cell has this folder",
    ),
    "drop a cell everywhere but in plan.json": (
        drop_everywhere,
        Because.FOLDER,
        "plan.json: run.json has another plan",
    ),
    "drop a hash": (
        lambda g: edit(g.folder / "run.json", lambda data: data["hashes"].pop("prepared.json")),
        Because.FOLDER,
        "prepared.json: run.json has no hash of it",
    ),
    "change a record in run.json alone": (
        lambda g: edit(g.folder / "run.json", lambda data: data["records"][0].update(duration_s=9.5)),
        Because.FOLDER,
        "cell.json: run.json has another record",
    ),
    "a record twice": (
        lambda g: edit(g.folder / "run.json", lambda data: data["records"].append(data["records"][0])),
        Because.FOLDER,
        "2 records of platform=cpu",
    ),
    "another device's name in a path": (
        lambda g: forge(g, lambda r: r["attempts"][0]["files"].update({"../../../x": "sha256:0"})),
        Because.FOLDER,
        "outside the run folder",
    ),
    "forge: all skipped": (lambda g: forge(g, all_skipped), Because.UNPROVEN, "no test passed"),
    "forge: a failed test": (lambda g: forge(g, a_failure), Because.UNPROVEN, "1 tests did not"),
    "forge: another exit code": (lambda g: forge(g, other_exit), Because.UNPROVEN, "exit code was not 0"),
    "forge: no evidence": (lambda g: forge(g, no_evidence), Because.UNPROVEN, "no evidence of the engine"),
    "forge: a rank is gone": (lambda g: forge(g, one_rank), Because.UNPROVEN, "1 ranks of 2"),
    "forge: no attempt": (lambda g: forge(g, no_attempt), Because.UNPROVEN, "no attempt of it passed"),
    "forge: another engine": (lambda g: forge(g, other_engine), Because.ENGINE, "another engine than 0.32.0"),
    "unfinished": (
        lambda g: edit(g.folder / "run.json", lambda data: data.update(finished=False)),
        Because.UNFINISHED,
        "unfinished",
    ),
    "interrupted": (
        lambda g: edit(g.folder / "run.json", lambda data: data.update(interrupted="SIGTERM")),
        Because.UNFINISHED,
        "stopped by SIGTERM",
    ),
    "another runtime": (
        lambda g: edit(g.folder / "run.json", lambda data: data.update(runtime="process")),
        Because.RUNTIME,
        "ran in the runtime process, the policy asks for docker",
    ),
    "no image digest": (
        lambda g: edit(
            g.folder / "run.json", lambda d: d["prepared"]["images"]["images/cpu"].update(digest="latest")
        ),
        Because.IMAGE,
        "never resolved to a digest (latest)",
    ),
}


def said(gated: Gated, kind: Because) -> str:
    result = gated.gate()
    assert result.exit_code is ExitCode.GATE
    kinds = {reason.kind for reason in result.decision.reasons}
    assert kind in kinds, kinds
    return "\n".join(
        "\n".join((reason.text, *reason.details, *(f"{seen.cell.id}: {seen.text}" for seen in reason.cells)))
        for reason in result.decision.reasons
        if reason.kind is kind
    )


def test_the_run_without_a_mutation_is_green(green: Gated) -> None:
    result = green.gate()
    assert (result.decision.reasons, result.exit_code) == ((), ExitCode.OK)
    assert result.decision.ledger["passed"] == result.decision.ledger["blocking"] == 4


@pytest.mark.parametrize(("change", "kind", "text"), MUTATIONS.values(), ids=MUTATIONS)
def test_each_mutation_is_refused_for_the_right_reason(
    green: Gated, change: Change, kind: Because, text: str
) -> None:
    change(green)
    assert text in said(green, kind)


def test_a_path_that_is_no_run_folder_is_a_wrong_call(green: Gated, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(BadRunFolder):
            Gated(path, green.policy).gate()


def test_a_folder_with_very_many_problems_is_still_one_page(green: Gated) -> None:
    for number in range(500):
        (green.attempt() / f"extra-{number}").write_text("x" * number)
    result = green.gate()
    assert len(result.decision.reasons[0].details) == 101
    assert "and 89 more" in result.page()
    assert len(result.page().splitlines()) < 60
