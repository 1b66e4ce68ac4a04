"""Quark W8A8 int8 experts: what upstream's test of the same name asserts, on every rank, and its output's content.

Upstream (vLLM 0.32.0, tests/quantization/test_quark.py::test_quark_int8_w8a8_moe) checks layer 0's method and qkv scheme
at tp 1, and `assert output` for 4 tokens after "Hello".
"""

from __future__ import annotations

import pytest
from cell import Cell
from expectations import rank_problems
from session import Session

pytestmark = [pytest.mark.engine, pytest.mark.quantization("quark_int8")]


def test_quark_int8_w8a8_moe(session: Session, cell: Cell) -> None:
    """Method and scheme on every rank, int8 shards of the right shape, and the right tokens and log-probabilities."""
    from vllm import SamplingParams

    assert session.facts["quantization"] == "quark"
    for rank in session.ranks:
        assert rank["linear_schemes"].get("QuarkW8A8Int8", 0) > 0, (
            f"rank {rank['rank']}: {rank['linear_schemes']}"
        )
        assert rank["layers"], f"rank {rank['rank']} has no expert layer"
        for layer in rank["layers"]:
            assert layer["moe_method"] == "QuarkW8A8Int8MoEMethod", f"rank {rank['rank']}, {layer['name']}"
            assert (layer["expert_weight_dtype"], layer["w2_dtype"]) == ("int8", "int8")
    problems = rank_problems(cell, session.ranks)
    assert not problems, "; ".join(problems)
    output = session.llm.generate(["Hello"], SamplingParams(temperature=0.0, max_tokens=4), use_tqdm=False)
    assert len(output[0].outputs[0].token_ids) == 4
    assert output[0].outputs[0].text
    found = session.agreement()
    assert found.agrees, found.summary()
