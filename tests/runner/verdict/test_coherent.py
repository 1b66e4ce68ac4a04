"""Evidence that contradicts itself, or that is not one cell's from its start to its end, proves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner import junit
from runner.facts import Evidence
from runner.model import Expectation, Outcome, Verdict
from runner.verdict import explain, judge, read_evidence
from tests.runner.verdict.factory import facts

REAL = (Path(__file__).parent / "data" / "evidence-experts_int8-tp2.jsonl").read_text().splitlines()
AXES = {"platform": "cpu", "dtype": "bfloat16", "tp": "1"}
EXPECT = Expectation(moe_method="QuarkW8A8Int8MoEMethod", expert_weight_dtype="int8")
GOOD = b'<testsuites><testsuite name="s"><testcase classname="c" name="t"/></testsuite></testsuites>'
LAYER = {"moe_method": "QuarkW8A8Int8MoEMethod", "expert_weight_dtype": "int8", "backend": "CPU"}
START: dict[str, Any] = {"event": "start", "cell": {"id": "a"}, "sees": {"cores": [0], "files": []}}
ENGINE: dict[str, Any] = {
    "event": "engine", "name": "vllm", "version": "0.32.0", "platform": "CpuPlatform", "device_type": "cpu",
    "dtype": "bfloat16", "tp": 1, "quantization": "quark",
}  # fmt: skip
RANK: dict[str, Any] = {"event": "rank", "rank": 0, "world_size": 1, "device": "cpu", "layers": [LAYER]}
AGREES: dict[str, Any] = {
    "event": "agreement", "tokens_equal": True, "max_abs_diff": 0.1, "bound": 0.5, "mean_abs_diff": 0.1,
    "mean_bound": 0.5, "agrees": True,
}  # fmt: skip
END = {"event": "end"}


def seen(*events: dict[str, Any] | str) -> Evidence:
    return read_evidence(one if isinstance(one, str) else json.dumps({"t": 1, **one}) for one in events)


def judged(*events: dict[str, Any] | str) -> Verdict:
    return judge(facts(axes=AXES, expect=EXPECT, evidence=seen(*events)))


def compared(**change: Any) -> Verdict:
    return judged(START, ENGINE, RANK, AGREES | change, END)


def ranks(*events: dict[str, Any]) -> Verdict:
    return judged(START, ENGINE, *events, AGREES, END)


def test_coherent_evidence_passes() -> None:
    assert compared().green
    assert compared(tokens_equal=False).green  # a near tie turns a token, and the numbers say that it is one
    assert judged(START, ENGINE, RANK, AGREES, END, START, ENGINE, RANK, AGREES, END).green


@pytest.mark.parametrize(
    ("change", "outcome", "cause"),
    [
        ({"max_abs_diff": -99}, "unproven", "gives max_abs_diff as '-99', which cannot be"),
        ({"max_abs_diff": "9.9"}, "unproven", "gives max_abs_diff as '9.9', which cannot be"),
        ({"mean_abs_diff": True}, "unproven", "gives mean_abs_diff as 'True'"),
        ({"bound": "big"}, "unproven", "gives bound as 'big'"),
        ({"bound": float("inf")}, "unproven", "gives bound as inf: that is no bound"),
        ({"max_abs_diff": float("inf"), "bound": float("inf")}, "unproven", "gives bound as inf"),
        ({"mean_bound": float("nan")}, "unproven", "gives mean_bound as nan"),
        ({"tokens_equal": "yes"}, "unproven", "neither yes nor no"),
        ({"agrees": False}, "unproven", "do not agree, although its numbers fit"),
        ({"mean_abs_diff": 9, "mean_bound": 0.1}, "failed", "differ from the reference by 9, the bound is 0.1"),
        ({"mean_abs_diff": 9, "mean_bound": 0.1, "agrees": False}, "failed", "the bound is 0.1"),
        ({"max_abs_diff": 9, "agrees": False}, "failed", "differ from the reference by 9, the bound is 0.5"),
    ],
)  # fmt: skip
def test_a_comparison_that_cannot_be_or_does_not_fit(
    change: dict[str, Any], outcome: str, cause: str
) -> None:
    found = compared(**change)
    assert found.outcome.value == outcome
    assert cause in found.cause


@pytest.mark.parametrize("size", ["1", [1], 1.5, True])
def test_a_size_that_is_no_whole_number_is_a_line_that_cannot_be_read(size: object) -> None:
    found = judged(START, ENGINE | {"tp": size}, RANK, AGREES, END)
    assert (found.outcome, "could not be read" in found.cause) == (Outcome.UNPROVEN, True)


def test_a_good_comparison_hides_no_bad_mean_of_another_one() -> None:
    bad = AGREES | {"mean_abs_diff": 0.6}
    assert judged(START, ENGINE, RANK, bad, AGREES, END).outcome is Outcome.FAILED
    assert judged(START, ENGINE, RANK, AGREES, bad, END).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        ({"layers": [LAYER, {"moe_method": "", "expert_weight_dtype": "int8"}]}, "MoE method of every layer"),
        ({"layers": [LAYER, LAYER | {"expert_weight_dtype": None}]}, "expert weight dtype of every layer"),
        ({"layers": [LAYER, {}]}, "does not report the MoE method of every layer"),
        ({"layers": [LAYER, "other"]}, "does not report the MoE method of every layer"),
        ({"device": "cuda:0"}, "rank 0 ran on cuda:0, but the engine says device type cpu"),
    ],
)
def test_a_rank_that_leaves_out_a_layer_or_ran_elsewhere(event: dict[str, Any], cause: str) -> None:
    found = ranks(RANK | event)
    assert found.outcome is Outcome.UNPROVEN
    assert cause in found.cause


def test_a_rank_on_a_device_stays_so_when_it_reports_again() -> None:
    found = ranks(RANK | {"device": "cuda:0"}, RANK)
    assert (found.outcome, "ran on cuda:0 and cpu" in found.cause) == (Outcome.UNPROVEN, True)


def test_layers_of_which_nothing_was_asked_may_say_nothing() -> None:
    evidence = seen(START, ENGINE, RANK | {"layers": [LAYER, {}]}, AGREES, END)
    assert judge(facts(axes=AXES, expect=Expectation(), evidence=evidence)).green


@pytest.mark.parametrize(
    "line",
    [
        RANK | {"rank": "0", "layers": [LAYER | {"moe_method": "UnquantizedFusedMoEMethod"}]},
        RANK | {"layers": {"moe_method": "UnquantizedFusedMoEMethod"}},
        RANK | {"world_size": None},
        "{garbage",
        '{"event": "agreement", "max_abs_diff": 99, "bo',
    ],
    ids=["rank", "layers", "world", "garbage", "cut"],
)
def test_a_line_that_cannot_be_read_may_have_said_anything(line: dict[str, Any] | str) -> None:
    found = judged(START, ENGINE, RANK, line, AGREES, END)
    assert (found.outcome, found.cause) == (Outcome.UNPROVEN, "1 line of the evidence could not be read")


@pytest.mark.parametrize(
    ("said", "method", "outcome"),
    [
        ("fp8", "QuarkW8A8Int8MoEMethod", "unproven"),
        ("quark", "QuarkW8A8Int8MoEMethod", "passed"),
        ("compressed-tensors", "CompressedTensorsWNA16MoEMethod", "passed"),
        ("modelopt_fp4", "ModelOptNvFp4FusedMoE", "passed"),
        ("quark", "CompressedTensorsW8A8Int8MoEMethod", "unproven"),
        ("int8_per_channel_weight_only", "Int8OnlineMoEMethod", "passed"),
        ("experts_int8", "Int8OnlineMoEMethod", "passed"),
        ("quark", "UnquantizedFusedMoEMethod", "passed"),
    ],
)
def test_the_engine_names_the_quantization_whose_class_the_ranks_have(
    said: str, method: str, outcome: str
) -> None:
    rank = RANK | {"layers": [LAYER | {"moe_method": method}]}
    evidence = seen(START, ENGINE | {"quantization": said}, rank, AGREES, END)
    found = judge(facts(axes=AXES, expect=Expectation(moe_method=method), evidence=evidence))
    assert found.outcome.value == outcome


OTHER = START | {"cell": {"id": "b"}}
ELSEWHERE = START | {"sees": {"cores": [0, 1], "files": ["/dev/nvidia0"]}}
BODY = (ENGINE, RANK, AGREES)


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ((*BODY, END), "no 'start'"),
        ((END, *reversed(BODY), START), "begins with 'end'"),
        ((START, *BODY, END, OTHER, *BODY, END), "several cells: a and b"),
        ((ELSEWHERE, START, *BODY, END), "does not see the same devices and cores"),
        ((START, *BODY, END, *BODY), "goes on after its end"),
        ((START, *BODY), "has no last event"),
    ],
    ids=["no start", "reversed", "two cells", "two sights", "after the end", "no end"],
)
def test_evidence_is_one_cells_from_start_to_end(events: tuple[dict[str, Any], ...], cause: str) -> None:
    found = judged(*events)
    assert found.outcome is Outcome.UNPROVEN
    assert cause in found.cause


def test_a_heartbeat_that_waited_in_its_thread_is_no_other_evidence() -> None:
    assert judged(START, *BODY, END, {"event": "heartbeat", "phase": "none"}).green


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (REAL, "passed"),
        (REAL[1:], "unproven"),
        (REAL[::-1], "unproven"),
        ([*REAL, *(line.replace("tp=2", "tp=4") for line in REAL)], "unproven"),
        ("\n".join(REAL)[:5500].split("\n"), "unproven"),
        (REAL[: len(REAL) * 2 // 3], "unproven"),
    ],
    ids=["whole", "no start", "reversed", "another cell's behind it", "cut in a line", "cut behind a line"],
)
def test_explain_of_a_real_cells_evidence(lines: list[str], outcome: str) -> None:
    assert explain(junit.read_bytes(GOOD), "", None, 0, lines)["outcome"] == outcome
