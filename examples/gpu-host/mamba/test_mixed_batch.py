"""A tiny Jamba that decodes alone, or while a second prompt comes in: where "misaligned address" comes from (vLLM 0.26.0).

By hand, two prompts to one engine ended so when the second was prefilled beside the decoding first, chunked prefill off.
Which requests share a step is left to chance in the shipped suite; here it is not. RANK is the model's time-step rank,
REQUESTS is `joined` or `alone`. What is asked of the engine, and why: docs/cuda.md
"""
# ruff: noqa: S101

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FIRST, SECOND = list(range(5, 10)), list(range(20, 39))
TOKENS = {"first": 64, "second": 4}
"""So many answers that the first is still decoding when the second prompt comes in."""


MODEL = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "use_mamba_kernels": False,
    "max_position_embeddings": 512,
}
MAKER = """
import json, sys, torch
from transformers import JambaConfig, JambaForCausalLM
torch.manual_seed(0)
JambaForCausalLM(JambaConfig(**json.loads(sys.argv[2]))).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""


def make(folder: Path, rank: int) -> Path:
    """Random weights: what is asked is whether it runs.

    In a process of its own: an engine forked from one whose torch has started its threads waits for them for ever.
    """
    subprocess.run(
        [sys.executable, "-c", MAKER, str(folder), json.dumps({**MODEL, "mamba_dt_rank": rank})], check=True
    )
    return folder


def test_every_prompt_gets_its_tokens(tmp_path: Path) -> None:
    """The first request decodes by itself at least once; a second one, if any, comes in beside it."""
    cell = json.loads(Path(os.environ["MATRIX_CELL"]).read_text())
    model = make(tmp_path / "model", int(os.environ["RANK"]))
    from vllm import LLM, SamplingParams

    llm = LLM(model=str(model), skip_tokenizer_init=True, dtype="bfloat16", **cell["engine_args"])
    config = llm.llm_engine.vllm_config
    assert config.scheduler_config.enable_chunked_prefill is cell["engine_args"]["enable_chunked_prefill"]
    wanted = TOKENS if os.environ["REQUESTS"] == "joined" else {"first": TOKENS["first"]}
    params = {
        name: SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False)
        for name, count in wanted.items()
    }
    engine: Any = llm.llm_engine
    engine.add_request("first", {"prompt_token_ids": FIRST}, params["first"])
    answers: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            if "second" in params and "second" not in answers:
                engine.add_request("second", {"prompt_token_ids": SECOND}, params["second"])
                answers["second"] = []
            answers[output.request_id.partition("-")[0]] = list(output.outputs[0].token_ids)
    assert {name: len(tokens) for name, tokens in answers.items()} == wanted
