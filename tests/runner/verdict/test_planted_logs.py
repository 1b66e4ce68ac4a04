"""Logs of faults that were planted in a real engine: the label, written first, is what the tables say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.facts import CellExit, CellFacts
from runner.model import Proof, Stop, Verdict
from runner.verdict import find_cause, judge
from tests.runner.verdict.logs import renamed

NAMES = st.from_regex(r"[a-z][a-z0-9_]{2,12}", fullmatch=True)

PLANTED = Path(__file__).parent / "data" / "planted"
LABELS: dict[str, dict[str, Any]] = json.loads((PLANTED / "labels.json").read_text())
ENDS = {end["fault"]: end for end in map(json.loads, (PLANTED / "ends.jsonl").read_text().splitlines())}
LOGS = sorted(path.stem for path in PLANTED.glob("*.log"))


def test_every_log_has_a_label_and_an_end() -> None:
    assert set(LOGS) <= set(LABELS)
    assert set(LOGS) == set(ENDS)
    assert len(LOGS) >= 22


def verdict_of(name: str, text: str) -> Verdict:
    label, end = LABELS[name], ENDS[name]
    stop = Stop(label["stopped"]) if "stopped" in label else None
    ended = CellExit(
        exit_code=end["exit"], duration_s=1.0, oom_killed=end["oom_killed"], stopped=stop,
        message="no progress for 60 s" if stop else "",
    )  # fmt: skip
    found = find_cause(text.split("\n"))
    return judge(
        CellFacts(
            exit=ended, proof=Proof.TESTS, memory_limit_bytes=1 << 30, report_missing=True, finding=found
        )
    )


def text_of(name: str) -> str:
    return (PLANTED / f"{name}.log").read_text(errors="replace")


@pytest.mark.parametrize("name", LOGS)
def test_planted_fault(name: str) -> None:
    verdict = verdict_of(name, text_of(name))
    assert (verdict.outcome.value, verdict.culprit.value) == (
        LABELS[name]["outcome"],
        LABELS[name]["culprit"],
    )
    assert LABELS[name]["cause"] in verdict.cause


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32), folder=NAMES, model=NAMES)
def test_renaming_models_paths_pids_and_ranks_changes_no_verdict(
    name: str, seed: int, folder: str, model: str
) -> None:
    text = text_of(name)
    other = renamed(text, random.Random(seed), folder, model)
    assert other != text
    before, after = verdict_of(name, text), verdict_of(name, other)
    assert (after.outcome, after.culprit) == (before.outcome, before.culprit)
