"""The checkpoints: the same bytes every time, readable by all, divisible up to tp 8, loadable as they are."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from recipes import names, shape
from recipes.make import checkpoint, write

from selftest.conftest import Make

SOME = (
    "jamba", "qwen2moe", "qwen3moe", "qwen3moe16", "qwen3moe_ct_w4a16", "qwen3moe_quark_int8", "qwen2moe_fp8_block",
)  # fmt: skip
"""Recipes whose references are made here: every model, and formats with and without rounded inputs. `test_formats.py` reads
the tensors of all."""


def test_some_are_recipes() -> None:
    """The list above is not stale."""
    assert set(SOME) <= set(names())


@pytest.mark.parametrize("name", SOME)
def test_repeats_byte_for_byte(name: str, made: Make, tmp_path: Path) -> None:
    """A second making gives the same files."""
    again = tmp_path / name
    write(name, again)
    first = {p.name: p.read_bytes() for p in made(name).iterdir()}
    assert first == {p.name: p.read_bytes() for p in again.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "reference.json"} <= set(first)


@pytest.mark.parametrize("name", SOME)
def test_readable_by_every_user(name: str, made: Make) -> None:
    """Folder 0755, files 0644."""
    assert stat.S_IMODE(made(name).stat().st_mode) == 0o755
    assert {stat.S_IMODE(p.stat().st_mode) for p in made(name).iterdir()} == {0o644}


def test_refuses_a_folder_with_content(tmp_path: Path) -> None:
    """Nothing is mixed into what is there."""
    (tmp_path / "something").write_text("x")
    with pytest.raises(FileExistsError):
        write("qwen3moe", tmp_path)


def test_sizes_divide_up_to_eight_ranks() -> None:
    """Heads, key-value heads and 32-wide expert shards for 8 ranks; positions for upstream's runner."""
    assert shape.HEADS % 8 == 0
    assert shape.KV_HEADS % 8 == 0
    assert (shape.EXPERT_WIDTH // 8) % 32 == 0
    assert shape.HIDDEN % 32 == 0
    assert shape.HEAD_DIM >= 32
    assert shape.HIDDEN == shape.HEADS * shape.HEAD_DIM
    assert shape.POSITIONS >= 1024
    jamba = checkpoint("jamba").config
    assert (jamba["mamba_expand"] * jamba["hidden_size"]) % 8 == 0


@pytest.mark.parametrize("name", ["qwen3moe", "qwen3moe16", "qwen2moe", "jamba"])
def test_transformers_loads_the_files_and_agrees(name: str, made: Make) -> None:
    """`from_pretrained` on the folder gives the reference's tokens: the hand-made fusing of experts is right."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    reference = json.loads((made(name) / "reference.json").read_text())
    model: Any = AutoModelForCausalLM.from_pretrained(
        made(name), dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(made(name))
    for prompt, answer in zip(reference["prompts"], reference["variants"]["none"]["answers"], strict=True):
        ids = tokenizer(prompt["text"])["input_ids"]
        assert ids == prompt["token_ids"]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids + answer["tokens"][:-1]]), use_cache=False).logits[0]
        scores = torch.log_softmax(logits[len(ids) - 1 :], dim=-1)
        assert scores.argmax(dim=-1).tolist() == answer["tokens"]
        chosen = scores.gather(1, torch.tensor(answer["tokens"])[:, None])[:, 0]
        assert torch.allclose(chosen, torch.tensor(answer["logprobs"]), atol=2e-3)


@pytest.mark.parametrize("name", SOME)
def test_the_prompts_use_every_expert(name: str, made: Make) -> None:
    """Routing is seen anew here, from the stored reference's own tokens."""
    from recipes import forward, generate

    reference = json.loads((made(name) / "reference.json").read_text())
    stored = checkpoint(name)
    prompts = [p["token_ids"] for p in reference["prompts"]]
    with forward.one_thread():
        model = forward.build(stored, stored.values())
        answers = generate.generate(model, stored, prompts, reference["new_tokens"], reference["top_k"])
    seen = set().union(*(a.routed for a in answers))
    assert seen == {
        (router, expert) for router in stored.routers for expert in range(stored.config["num_experts"])
    }


def test_sixteen_experts_have_more_and_shorter_answers(made: Make) -> None:
    """The model for engines that quantize the router: its width is 16, and every variant answers all prompts."""
    reference = json.loads((made("qwen3moe16") / "reference.json").read_text())
    stored = checkpoint("qwen3moe16")
    assert {stored.tensors[f"{router}.weight"].shape[0] for router in stored.routers} == {16}
    assert "fp8_per_block.a" in reference["variants"]
    for variant in reference["variants"].values():
        assert [len(answer["tokens"]) for answer in variant["answers"]] == [5] * 40


def test_quark_form_is_int8_with_scales() -> None:
    """Every projection is int8 with a scale that bfloat16 holds exactly; the rest is untouched."""
    import torch

    plain, quark = checkpoint("qwen3moe"), checkpoint("qwen3moe_quark_int8")
    for name, tensor in plain.tensors.items():
        if not name.endswith("proj.weight"):
            assert torch.equal(quark.tensors[name], tensor)
            continue
        q, scale = quark.tensors[name], quark.tensors[name + "_scale"]
        assert q.dtype == torch.int8
        assert scale.dtype == torch.float32
        assert scale.shape == (tensor.shape[0],)
        assert torch.equal(scale, scale.to(torch.bfloat16).to(torch.float32))
        assert bool(((q.float() * scale[:, None] - tensor.float()).abs() <= 0.51 * scale[:, None]).all())
        assert quark.tensors[name + "_zero_point"].dtype == torch.int8
