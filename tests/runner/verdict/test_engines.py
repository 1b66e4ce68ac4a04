"""Several engines in one cell: each must be as asked, so evidence of two that differ proves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from runner.model import Culprit, Outcome
from runner.verdict import judge, read_evidence
from tests.runner.verdict.factory import facts
from tests.runner.verdict.test_events import ENGINE, lines, rank

START, END = {"event": "start", "schema": 1}, {"event": "end"}
ASKED = (ENGINE, rank(0), rank(1))


def conflicts(*events: dict[str, Any]) -> tuple[str, ...]:
    return read_evidence(lines(START, *events, END)).conflicts


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "0.26.0"}, "2 engines: version 0.26.0 and 0.32.0"),
        ({"version": ""}, "2 engines: version nothing and 0.32.0"),
        ({"commit": "5df63a720"}, "2 engines: version 0.32.0+g5df63a720 and 0.32.0"),
        ({"dtype": "float32"}, "2 engines: dtype float32 and bfloat16"),
        ({"tp": 1}, "2 engines: tp 1 and 2"),
        ({"platform": "CudaPlatform"}, "2 engines: platform CudaPlatform and ZenCpuPlatform"),
        ({"quantization": None}, "2 engines: quantization nothing and experts_int8"),
        ({"name": "sglang"}, "2 engines: engine sglang and vllm"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_another_engine_before_the_asked_one_is_not_forgotten(change: dict[str, Any], said: str) -> None:
    first = {**ENGINE, **change}
    seen = read_evidence(lines(START, first, rank(0), rank(1), *ASKED, END))
    assert seen.conflicts == (said,)
    verdict = judge(facts(expect_engine="0.32.0", evidence=seen))
    assert (verdict.outcome, verdict.culprit, verdict.cause) == (Outcome.UNPROVEN, Culprit.TEST, said)
    after = read_evidence(lines(START, *ASKED, first, rank(0), rank(1), END))
    assert after.conflicts
    assert not judge(facts(expect_engine="0.32.0", evidence=after)).green


def test_equal_engines_are_as_good_as_one() -> None:
    seen = read_evidence(lines(START, *ASKED, *ASKED, *ASKED, END))
    assert seen.conflicts == ()
    assert judge(facts(expect_engine="0.32.0", evidence=seen)).green


def test_an_event_without_a_name_says_more_of_the_same_engine() -> None:
    parts = {**ENGINE, "dtype": None}, {"event": "engine", "dtype": "bfloat16"}
    assert conflicts(*parts, rank(0), rank(1)) == ()
    assert conflicts(*parts, rank(0), rank(1), *ASKED) == ()


def test_many_engines_are_told_in_few_words() -> None:
    many = [{**ENGINE, "version": f"0.{n}.0"} for n in range(50)]
    ranks = [rank(n) for n in (0, 1) for _ in many]
    assert conflicts(*many, *ranks) == ("50 engines: version 0.0.0 and 0.1.0 and 0.2.0",)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            (*ASKED, ENGINE, rank(0)),
            "2 engines, but rank 1 reports itself 1 times",
        ),
        (
            (*ASKED, ENGINE, rank(0), rank(1, layers=[])),
            "2 engines, but rank 1 tells the layers of 1",
        ),
        (
            (ENGINE, rank(0), rank(1, world_size=1), rank(1)),
            "rank 1 reports world sizes 1 and 2",
        ),
        (
            (ENGINE, rank(0), rank(1, visible_devices=8), rank(1)),
            "rank 1 reports numbers of visible devices 0 and 8",
        ),
    ],
)
def test_a_rank_must_prove_itself_for_each_engine(events: tuple[dict[str, Any], ...], said: str) -> None:
    seen = read_evidence(lines(START, *events, END))
    assert seen.conflicts == (said,)
    assert judge(facts(evidence=seen)).outcome is Outcome.UNPROVEN


@pytest.mark.parametrize(
    ("version", "commit", "told"),
    [
        ("0.32.0", "5df63a720", "0.32.0+g5df63a720"),
        ("0.32.0", "g5df63a720", "0.32.0+g5df63a720"),
        ("0.32.0+cpu", "5df63a720", "0.32.0+cpu.g5df63a720"),
        ("0.32.1.dev4+g5df63a720.cpu", "5df63a72051b6f8e", "0.32.1.dev4+g5df63a720.cpu"),
        ("0.32.0+cpu", None, "0.32.0+cpu"),
        ("", "5df63a720", ""),
    ],
)
def test_the_commit_is_kept_beside_a_local_part(version: str, commit: str | None, told: str) -> None:
    seen = read_evidence(lines(START, {**ENGINE, "version": version, "commit": commit}))
    assert seen.engine_version == told


def test_a_commit_proves_the_engine_of_a_build_with_a_local_part() -> None:
    engine = {**ENGINE, "version": "0.32.0+cpu", "commit": "5df63a72051b6f8e"}
    seen = read_evidence(lines(START, engine, rank(0), rank(1), END))
    assert judge(facts(expect_engine="5df63a7", evidence=seen)).green
    assert judge(facts(expect_engine="1111111", evidence=seen)).outcome is Outcome.UNPROVEN
