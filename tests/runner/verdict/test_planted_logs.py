"""Logs of faults that were planted in a real engine: the label, written first, is what the tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.facts import CellExit, CellFacts
from runner.model import Proof, Stop
from runner.verdict import find_cause, judge

PLANTED = Path(__file__).parent / "data" / "planted"
LABELS: dict[str, dict[str, Any]] = json.loads((PLANTED / "labels.json").read_text())
ENDS = {end["fault"]: end for end in map(json.loads, (PLANTED / "ends.jsonl").read_text().splitlines())}
LOGS = sorted(path.stem for path in PLANTED.glob("*.log"))


def test_every_log_has_a_label_and_an_end() -> None:
    assert set(LOGS) <= set(LABELS)
    assert set(LOGS) == set(ENDS)
    assert len(LOGS) >= 6


@pytest.mark.parametrize("name", LOGS)
def test_planted_fault(name: str) -> None:
    label, end = LABELS[name], ENDS[name]
    lines = (PLANTED / f"{name}.log").read_text(errors="replace").split("\n")
    stop = Stop(label["stopped"]) if "stopped" in label else None
    ended = CellExit(
        exit_code=end["exit"], duration_s=1.0, oom_killed=end["oom_killed"], stopped=stop,
        message="no progress for 60 s" if stop else "",
    )  # fmt: skip
    verdict = judge(CellFacts(exit=ended, proof=Proof.TESTS, memory_limit_bytes=1 << 30, report_missing=True, finding=find_cause(lines)))  # fmt: skip
    assert (verdict.outcome.value, verdict.culprit.value) == (label["outcome"], label["culprit"])
    assert label["cause"] in verdict.cause
