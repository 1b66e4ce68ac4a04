"""experts_int8: what upstream's test of the same name starts, and what it does not assert.

Upstream (vLLM 0.32.0, tests/quantization/test_experts_int8.py) starts the engine eagerly with
`quantization="experts_int8"` and chunked prefill on, generates 4 tokens for each example prompt, and asserts nothing.
"""

from __future__ import annotations

import pytest
from cell import Cell
from expectations import rank_problems
from session import Session

pytestmark = [pytest.mark.engine, pytest.mark.quantization("experts_int8")]

EXAMPLE_PROMPTS = (
    "vLLM is a high-throughput and memory-efficient inference and serving engine for LLMs.",
    "Briefly describe the major milestones in the development of artificial intelligence from 1950 to 2020.",
    "Compare and contrast artificial intelligence with human intelligence in terms of processing information.",
    "Describe the basic components of a neural network and how it can be trained.",
)
"""Half of upstream's example prompts (tests/prompts/example.txt, vLLM 0.32.0)."""


def test_model_experts_int8_startup(session: Session, cell: Cell) -> None:
    """Starts and generates as upstream's does; then every rank holds int8 experts and the answers are right."""
    from vllm import SamplingParams

    outputs = session.llm.generate(
        list(EXAMPLE_PROMPTS), SamplingParams(temperature=0.0, max_tokens=4), use_tqdm=False
    )
    assert [len(o.outputs[0].token_ids) for o in outputs] == [4] * len(EXAMPLE_PROMPTS)
    assert session.facts["quantization"] == "experts_int8"
    for rank in session.ranks:
        assert rank["layers"], f"rank {rank['rank']} has no expert layer"
        for layer in rank["layers"]:
            assert layer["moe_method"] == "Int8OnlineMoEMethod", f"rank {rank['rank']}, {layer['name']}"
            assert (layer["expert_weight_dtype"], layer["w2_dtype"]) == ("int8", "int8")
    problems = rank_problems(cell, session.ranks)
    assert not problems, "; ".join(problems)
    found = session.agreement()
    assert found.agrees, found.summary()
