"""Expected against probed support, in both directions."""

from __future__ import annotations

from pathlib import Path

import yaml

from runner.support import Difference, Expected, News, compare, expected

TABLE = yaml.safe_load(
    (Path(__file__).resolve().parents[3] / "tests" / "moe" / "methods.yaml").read_text(encoding="utf-8")
)
INT8 = Expected("my_int8", ("my_int8",), {"rocm": "not on the platform's list"})
PLAIN = Expected("none", (), {})
OP = Expected("my_fp8", ("my_fp8", "online"), {"cpu": "an operator is missing"})


def test_what_is_as_expected_is_no_news() -> None:
    assert compare([PLAIN, INT8, OP], "cuda", registered=["my_int8", "my_fp8", "online"], allowed=[]) == ()
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
    found = compare([OP], "cpu", registered=["my_fp8", "online"], allowed=[], passed=["my_fp8"])
    assert [(d.method, d.news) for d in found] == [("my_fp8", News.GAINED)]
    assert "an operator is missing" in found[0].text
    assert compare([OP], "cpu", registered=["my_fp8", "online"], allowed=[]) == ()


def test_the_shipped_table_has_every_method_that_was_asked_for() -> None:
    made = {e.name: e for e in expected(TABLE)}
    assert set(made) == {
        "none", "experts_int8", "int8_per_channel_weight_only", "fp8_per_tensor", "fp8_per_channel",
        "fp8_per_block", "fp8_tensor", "fp8_block", "quark_int8", "quark_fp8", "quark_mxfp4", "ct_w8a8_int8",
        "ct_w8a8_fp8", "ct_w4a16", "awq", "gptq", "moe_wna16", "mxfp4", "modelopt_fp8", "modelopt_nvfp4",
        "torchao", "fbgemm_fp8",
    }  # fmt: skip
    assert made["none"].words == ()
    assert made["experts_int8"].never == {"rocm": "not on the platform's list (vLLM PR 35595 is open)"}
    assert "auto_awq" in made["awq"].words
