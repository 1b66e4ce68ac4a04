"""Expected against probed support, in both directions, and what a run makes of it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.errors import ExitCode
from runner.machine import CpuFacts, Inventory
from runner.model import Cell, CellSettings, Culprit, Limits, Outcome, Plan, PlanEntry, Status, Suite, Verdict
from runner.records import CellRecord, Notice, Prepared, Run
from runner.support import Difference, Expected, News, compare, expected, news, notices
from runner.verdict import exit_code

MOE = Path(__file__).resolve().parents[3] / "tests" / "moe"
INT8 = Expected("my_int8", ("my_int8",), {"rocm": "not on the platform's list"}, "my_int8")
PLAIN = Expected("none", (), {})
OP = Expected("my_fp8", ("my_fp8",), {"cpu": "an operator is missing"})


def shipped() -> dict[str, Any]:
    """What the shipped probe prints under `support`."""
    spec = importlib.util.spec_from_file_location("moe_methods", MOE / "methods.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    made: dict[str, Any] = module.support()
    return made


def test_what_is_as_expected_is_no_news() -> None:
    assert compare([PLAIN, INT8, OP], "cuda", registered=["my_int8", "my_fp8"], allowed=[]) == ()
    assert compare([INT8], "rocm", registered=["my_int8"], allowed=["quark"]) == ()


def test_a_method_that_left_the_engine_is_lost() -> None:
    found = compare([INT8], "cuda", registered=["other"], allowed=[])
    assert found[0] == Difference("my_int8", "cuda", News.LOST, "this engine registers none of my_int8")
    assert found[1].news is News.UNKNOWN


def test_a_method_that_left_the_platforms_list_is_lost() -> None:
    found = compare([INT8], "cuda", registered=["my_int8"], allowed=["quark"])
    assert [(d.method, d.news) for d in found] == [("my_int8", News.LOST)]
    assert "platform's list" in found[0].text


def test_a_method_that_came_onto_the_list_is_gained() -> None:
    found = compare([INT8], "rocm", registered=["my_int8"], allowed=["my_int8"])
    assert [(d.method, d.news) for d in found] == [("my_int8", News.GAINED)]


def test_a_cell_that_passes_against_the_table_is_gained() -> None:
    found = compare([OP], "cpu", registered=["my_fp8"], allowed=[], passed=["my_fp8"])
    assert [(d.method, d.news) for d in found] == [("my_fp8", News.GAINED)]
    assert "an operator is missing" in found[0].text
    assert compare([OP], "cpu", registered=["my_fp8"], allowed=[]) == ()


def test_a_name_that_is_no_news_is_not_told() -> None:
    found = compare([INT8], "cuda", registered=["my_int8", "old", "new"], allowed=[], no_news=["old"])
    assert [(d.method, d.news) for d in found] == [("new", News.UNKNOWN)]


def test_the_shipped_table_has_every_method_that_was_asked_for() -> None:
    methods, known = expected({"support": shipped()})
    made = {e.name: e for e in methods}
    assert set(made) == {
        "none", "experts_int8", "int8_per_channel_weight_only", "fp8_per_tensor", "fp8_per_channel",
        "fp8_per_block", "fp8_tensor", "fp8_block", "quark_int8", "quark_fp8", "quark_mxfp4", "ct_w8a8_int8",
        "ct_w8a8_fp8", "ct_w4a16", "awq", "gptq", "moe_wna16", "mxfp4", "modelopt_fp8", "modelopt_nvfp4",
        "torchao", "fbgemm_fp8",
    }  # fmt: skip
    assert made["none"].words == ()
    assert made["experts_int8"].never == {"rocm": "not on the platform's list (vLLM PR 35595 is open)"}
    assert made["experts_int8"].argument == "experts_int8"
    assert made["awq"].words == ("auto_awq", "awq_marlin", "awq")
    assert {"online", "humming", "gptq_marlin"} <= known


ENGINE = [
    "auto_awq",
    "auto_gptq",
    "awq",
    "awq_marlin",
    "compressed-tensors",
    "deepseek_v4_fp8",
    "experts_int8",
    "fbgemm_fp8",
    "fp8",
    "fp8_per_block",
    "fp8_per_channel",
    "fp8_per_tensor",
    "fp_quant",
    "gpt_oss_mxfp4",
    "gptq",
    "gptq_marlin",
    "humming",
    "inc",
    "int8_per_channel_weight_only",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mixed",
    "modelopt_mxfp8",
    "moe_wna16",
    "mxfp4",
    "mxfp8",
    "nvfp4_per_token",
    "online",
    "quark",
    "torchao",
]
"""What vLLM 0.32.0 registers, as its probe prints it on a CPU."""

ROCM = [
    "awq",
    "auto_awq",
    "awq_marlin",
    "gptq",
    "auto_gptq",
    "fp8",
    "deepseek_v4_fp8",
    "compressed-tensors",
    "fbgemm_fp8",
    "inc",
    "quark",
    "mxfp4",
    "mxfp8",
    "torchao",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mxfp8",
    "modelopt_mixed",
    "fp8_per_tensor",
    "fp8_per_block",
    "fp8_per_channel",
    "online",
    "gpt_oss_mxfp4",
]
"""The ROCm platform's own list (vLLM 0.33.0)."""


def probe(registered: list[str] = ENGINE, allowed: list[str] | None = None) -> dict[str, Any]:
    """A probe of the shipped suite."""
    return {
        "engine": "vllm",
        "version": "0.32.0",
        "quantization_methods": registered,
        "supported_quantization": allowed or [],
        "support": shipped(),
    }


@pytest.mark.parametrize(("platform", "allowed"), [("cpu", []), ("cuda", []), ("rocm", ROCM)])
def test_the_shipped_table_and_the_engine_it_was_written_for_have_no_news(
    platform: str, allowed: list[str]
) -> None:
    assert news(probe(allowed=allowed), platform) == ()


def test_the_shipped_table_tells_both_directions() -> None:
    without = [name for name in ENGINE if name != "experts_int8"]
    assert [d.line for d in news(probe(without), "cpu")] == [
        "experts_int8 on cpu is newly unsupported: this engine registers none of experts_int8"
    ]
    listed = news(probe(allowed=[*ROCM, "experts_int8"]), "rocm")
    assert [(d.method, d.news) for d in listed] == [("experts_int8", News.GAINED)]
    unlisted = news(probe(allowed=[name for name in ROCM if name != "quark"]), "rocm")
    assert [(d.method, d.news) for d in unlisted] == [
        ("quark_int8", News.LOST), ("quark_fp8", News.LOST), ("quark_mxfp4", News.LOST)
    ]  # fmt: skip
    assert [d.method for d in news(probe([*ENGINE, "int2"]), "cpu")] == ["int2"]


def test_a_suite_without_a_table_has_no_news() -> None:
    assert news({"quantization_methods": ["a"]}, "cpu") == ()
    assert news({"support": {"methods": "none"}, "quantization_methods": ["a"]}, "cpu") == ()


def test_a_probe_that_could_not_ask_the_engine_has_no_news() -> None:
    """Its problems are told as such; every method would be lost otherwise."""
    assert news(probe([]), "cpu") == ()


def run_of(
    found: dict[str, Any], *, status: Status = Status.PLANNED, outcome: Outcome = Outcome.PASSED
) -> Run:
    """One cell of experts_int8 on a CPU, asked for by an axis value of another name."""
    cell = Cell.of({"platform": "cpu", "dtype": "bfloat16", "tp": "1", "quantization": "mine"})
    settings = CellSettings(
        image="images/cpu",
        suite=Suite(),
        limits=Limits(),
        devices=0,
        engine_args={"quantization": "experts_int8"},
    )
    entry = PlanEntry(cell=cell, status=status, settings=settings)
    record = CellRecord(cell=cell, verdict=Verdict(outcome=outcome))
    return Run(
        run_id="r",
        plan=Plan(matrix="m", matrix_hash="h", axes={}, entries=(entry,)),
        runtime="docker",
        runtime_detail="",
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts()),
        prepared=Prepared(probes={"images/cpu": found}),
        records=(record,) if status is Status.PLANNED else (),
        finished=True,
    )


def lost(run: Run) -> Notice:
    """The one notice of a run."""
    (made,) = notices(run)
    return made


def test_a_method_that_a_cell_asks_for_and_the_image_lost_is_red() -> None:
    without = probe([name for name in ENGINE if name != "experts_int8"])
    for status in (Status.PLANNED, Status.NOT_RUNNABLE):
        made = lost(run_of(without, status=status))
        assert made.red
        assert made.culprit is Culprit.PRODUCT
        assert len(made.cells) == 1
        assert made.text == (
            "experts_int8 on cpu is newly unsupported: this engine registers none of experts_int8 (images/cpu, vllm 0.32.0)"
        )


def test_a_method_that_no_cell_asks_for_is_news_and_not_red() -> None:
    made = lost(run_of(probe([name for name in ENGINE if name != "mxfp4"])))
    assert not made.red
    assert made.cells == ()
    assert notices(run_of(probe(), status=Status.EXCLUDED)) == ()


def test_a_cell_that_passes_against_the_table_is_news() -> None:
    found = probe()
    found["support"]["methods"]["experts_int8"]["never"] = {"cpu": "the weight prepack fails"}
    made = lost(run_of(found))
    assert not made.red
    assert "newly working: its cell passed, though the table says: the weight prepack fails" in made.text
    assert notices(run_of(found, outcome=Outcome.FAILED)) == ()


def test_a_red_notice_makes_a_run_red_whose_cells_pass() -> None:
    run = run_of(probe([name for name in ENGINE if name != "experts_int8"]))
    assert exit_code(run, interrupted=0) is ExitCode.OK
    assert exit_code(replace(run, notices=notices(run)), interrupted=0) is ExitCode.RED
