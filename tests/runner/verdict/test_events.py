"""Evidence of a cell, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.facts import Evidence, RankFacts
from runner.verdict import read_evidence, read_progress


def lines(*events: dict[str, Any]) -> list[str]:
    return [json.dumps({"t": 100.0 + number, **event}) + "\n" for number, event in enumerate(events)]


def rank(number: int, method: str = "Int8OnlineMoEMethod", **more: Any) -> dict[str, Any]:
    layer = {
        "name": "model.layers.0.mlp.experts",
        "moe_method": method,
        "experts_class": "ZenCPUExpertsInt8",
        "backend": "CPU",
        "expert_weight_dtype": "torch.int8",
        "w13_shape": [4, 128, 64],
        "w2_shape": [4, 64, 64],
    }
    event = {
        "event": "rank",
        "rank": number,
        "world_size": 2,
        "device": "cpu",
        "layers": [layer, layer],
        "linear_schemes": {"UnquantizedLinearMethod": 6, "QuarkW8A8Int8": 2},
        "visible_devices": 0,
    }
    return event | more


ENGINE = {
    "event": "engine",
    "name": "vllm",
    "version": "0.32.0",
    "platform": "ZenCpuPlatform",
    "device_type": "cpu",
    "dtype": "torch.bfloat16",
    "tp": 2,
    "quantization": "experts_int8",
}
WHOLE = lines(
    {"event": "start", "schema": 1, "pid": 7, "cell": {}},
    {"event": "phase", "phase": "import", "state": "begin", "seconds": 0.0},
    {"event": "phase", "phase": "import", "state": "end", "seconds": 9.5},
    {"event": "phase", "phase": "load", "state": "begin", "seconds": 0.0},
    {"event": "phase", "phase": "load", "state": "end", "seconds": 12.0},
    ENGINE,
    rank(0),
    rank(1),
    {"event": "generation", "prompt": "a", "tokens": [1, 2], "logprobs": [-0.1, -0.2]},
    {
        "event": "agreement",
        "prompts": 2,
        "tokens_equal": True,
        "max_abs_diff": 0.001,
        "bound": 0.002,
        "reference": "f32",
    },
    {"event": "heartbeat", "cpu_seconds": 3.0, "phase": "none"},
    {"event": "shutdown", "seconds": 5.0, "children_left": 0, "left": ["shared memory a of 4 bytes", 7]},
    {"event": "end"},
)


def test_whole_evidence() -> None:
    facts = {
        "world_size": 2,
        "moe_methods": ("Int8OnlineMoEMethod",),
        "expert_weight_dtypes": ("int8",),
        "backends": ("CPU",),
        "linear_schemes": ("QuarkW8A8Int8", "UnquantizedLinearMethod"),
        "device": "cpu",
        "visible_devices": 0,
    }
    assert read_evidence(WHOLE) == Evidence(
        started=True,
        ended=True,
        engine="vllm",
        engine_version="0.32.0",
        platform="ZenCpuPlatform",
        device_type="cpu",
        dtype="bfloat16",
        tp=2,
        quantization="experts_int8",
        ranks=(RankFacts(rank=0, **facts), RankFacts(rank=1, **facts)),  # type: ignore[arg-type]
        phases={"import": 9.5, "load": 12.0},
        phase="load",
        tokens_equal=True,
        max_abs_logprob_diff=0.001,
        logprob_bound=0.002,
        children_left=0,
        memory_left=("shared memory a of 4 bytes",),
        first_event_at=100.0,
        last_event_at=112.0,
        bad_lines=0,
    )


def test_evidence_of_a_real_cell() -> None:
    path = Path(__file__).parent / "data" / "evidence-experts_int8-tp2.jsonl"
    seen = read_evidence(path.read_text().splitlines())
    assert (seen.engine, seen.engine_version, seen.platform, seen.dtype, seen.tp) == (
        "vllm",
        "0.32.0",
        "ZenCpuPlatform",
        "bfloat16",
        2,
    )
    assert [
        (rank.rank, rank.world_size, rank.moe_methods, rank.expert_weight_dtypes) for rank in seen.ranks
    ] == [(number, 2, ("Int8OnlineMoEMethod",), ("int8",)) for number in (0, 1)]
    assert (seen.ended, seen.bad_lines, seen.tokens_equal, list(seen.phases)) == (
        True,
        0,
        True,
        ["import", "load", "ready", "generate", "shutdown"],
    )


def test_a_cut_last_line_is_counted_and_the_rest_kept() -> None:
    seen = read_evidence([*WHOLE[:6], WHOLE[6][:40]])
    assert (seen.engine, seen.ranks, seen.ended, seen.bad_lines) == ("vllm", (), False, 1)


@pytest.mark.parametrize(
    "bad",
    [
        "not json",
        "[1, 2]",
        "3",
        '{"t": 1}',
        '{"event": 4}',
        "\x00\x00",
        '{"event": "rank", "rank": "0", "world_size": 2}',
        '{"event": "rank", "rank": true, "world_size": 2}',
        '{"event": "phase", "state": "begin"}',
        "[" * 100_000,
        '{"event": "end", "x": "' + "a" * (1 << 20) + '"}',
    ],
    ids=[
        "text",
        "list",
        "number",
        "no event",
        "event no text",
        "nul",
        "rank text",
        "rank bool",
        "no phase",
        "deep",
        "long",
    ],
)
def test_a_bad_line_is_counted_and_never_repaired(bad: str) -> None:
    assert read_evidence([WHOLE[0], bad, *WHOLE[1:]]) == Evidence(
        **{**_fields(read_evidence(WHOLE)), "bad_lines": 1}
    )


def _fields(evidence: Evidence) -> dict[str, Any]:
    return {name: getattr(evidence, name) for name in Evidence.__slots__}


def test_an_event_of_a_later_suite_is_left_out() -> None:
    assert read_evidence([*WHOLE, json.dumps({"event": "tokens_per_second", "value": 3})]) == read_evidence(
        WHOLE
    )


def test_no_line_is_no_evidence_of_anything() -> None:
    assert read_evidence([]) == Evidence()


def test_two_engines_of_one_cell_add_up_so_that_one_wrong_class_shows() -> None:
    seen = read_evidence(lines(rank(0), rank(0, "UnquantizedFusedMoEMethod")))
    assert seen.ranks[0].moe_methods == ("Int8OnlineMoEMethod", "UnquantizedFusedMoEMethod")


@pytest.mark.parametrize("worst", [0.5, float("nan")])
def test_of_several_comparisons_the_worst_counts(worst: float) -> None:
    good = {"event": "agreement", "tokens_equal": True, "max_abs_diff": 0.6, "bound": 1.0}
    bad = {"event": "agreement", "tokens_equal": False, "max_abs_diff": worst, "bound": 0.01}
    for order in ((good, bad), (bad, good)):
        seen = read_evidence(lines(*order))
        assert (seen.tokens_equal, seen.logprob_bound) == (False, 0.01)
        assert repr(seen.max_abs_logprob_diff) == repr(worst)


@pytest.mark.parametrize(
    ("given_value", "count"),
    [(2, 2), ("0,1", 2), ("", 0), (["GPU-1"], 1), (None, None), (True, None), ({}, None)],
)
def test_visible_devices_are_counted(given_value: object, count: int | None) -> None:
    seen = read_evidence(lines(rank(0, visible_devices=given_value)))
    assert seen.ranks[0].visible_devices == count


def test_a_commit_beside_a_plain_version_is_kept() -> None:
    assert read_evidence(lines(ENGINE | {"commit": "5df63a720"})).engine_version == "0.32.0+g5df63a720"


def test_the_phase_of_a_kill_is_the_last_one_that_began() -> None:
    seen = read_evidence(
        lines(
            {"event": "phase", "phase": "generate", "state": "begin", "seconds": 0.0},
            {"event": "heartbeat", "cpu_seconds": 1.0, "phase": "generate"},
        )
    )
    assert (seen.phase, seen.phases, seen.ended) == ("generate", {}, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=3,
)
FIELDS = [
    "t",
    "phase",
    "state",
    "seconds",
    "name",
    "version",
    "commit",
    "dtype",
    "tp",
    "rank",
    "world_size",
    "layers",
    "linear_schemes",
    "visible_devices",
    "tokens_equal",
    "max_abs_diff",
    "bound",
    "children_left",
    "left",
    "nodeid",
    "when",
    "outcome",
    "sees",
    "of",
    "top",
]
EVENTS = st.fixed_dictionaries(
    {
        "event": st.sampled_from(
            [
                "start",
                "phase",
                "engine",
                "rank",
                "agreement",
                "control",
                "heartbeat",
                "shutdown",
                "end",
                "begin",
                "result",
                "other",
            ]
        )
    },
    optional=dict.fromkeys(FIELDS, JSON),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS.map(json.dumps) | st.text(max_size=20), max_size=4))
def test_no_line_makes_a_reader_raise(given_lines: list[str]) -> None:
    assert read_evidence(given_lines).bad_lines >= 0
    assert read_progress(given_lines).finished >= 0
