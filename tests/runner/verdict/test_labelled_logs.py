"""The labelled logs of real runs, and that renaming what is in them changes no verdict."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.verdict import find_cause
from tests.runner.verdict.logs import LABELS, LOGS, judged, lines_of, renamed


def test_every_log_has_a_label_and_every_label_a_log() -> None:
    assert {path.name for path in LOGS.glob("*.log")} == set(LABELS)


@pytest.mark.parametrize("name", LABELS)
def test_labelled_log(name: str) -> None:
    label, found = LABELS[name], find_cause(lines_of(name))
    if label["outcome"] == "passed":
        assert found is None
        return
    verdict = judged(found)
    assert (verdict.outcome.value, verdict.culprit.value) == (label["outcome"], label["culprit"])
    assert label["cause"] in verdict.cause
    assert "initialization failed" not in verdict.cause


@pytest.mark.parametrize("name", [name for name in LABELS if "int8-no-backend" in name or "conv1d" in name])
def test_a_worker_named_without_its_rank_is_known_by_its_process(name: str) -> None:
    found = find_cause(lines_of(name))
    assert found is not None
    assert (found.process, found.rank) == ("Worker", 0)


# ---- renaming changes no verdict -----------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z][a-z0-9_]{2,12}", fullmatch=True)


@pytest.mark.parametrize("name", LABELS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32), folder=NAMES, model=NAMES)
def test_renaming_models_paths_pids_and_ranks_changes_no_verdict(
    name: str, seed: int, folder: str, model: str
) -> None:
    text = "\n".join(lines_of(name))
    other = renamed(text, random.Random(seed), folder, model)
    assert other != text
    before, after = find_cause(text.split("\n")), find_cause(other.split("\n"))
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert after.kind == before.kind
        assert (judged(after).outcome, judged(after).culprit) == (
            judged(before).outcome,
            judged(before).culprit,
        )
