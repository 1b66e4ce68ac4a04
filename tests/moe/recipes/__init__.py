"""Recipes: small mixture-of-experts checkpoints with a reference, made locally, offline and byte for byte the same.

Run inside the image with this folder's parent as the working directory or on PYTHONPATH:

    python -m recipes NAME --out DIR [--fault FAULT]

A name is a model, or a model and a format: `qwen3moe`, `jamba_fp8_block`. `names()` lists them and `FAULTS` the planted
faults without importing torch.
"""

from __future__ import annotations

MODELS: dict[str, str] = {
    "jamba": "tiny Jamba (mamba and attention)",
    "qwen2moe": "tiny Qwen2-MoE (a shared expert beside the routed ones)",
    "qwen3moe": "tiny Qwen3-MoE",
    "qwen3moe16": "tiny Qwen3-MoE of 16 experts",
}

FORMATS: dict[str, str] = {
    "awq": "AWQ: uint4 with zero points, groups of 32",
    "ct_w4a16": "compressed-tensors: packed int4, groups of 32",
    "ct_w8a8_fp8": "compressed-tensors: E4M3 per channel, E4M3 inputs per token",
    "ct_w8a8_int8": "compressed-tensors: int8 per channel, int8 inputs per token",
    "fbgemm_fp8": "FBGEMM: E4M3 per channel in all but the experts, which stay bfloat16",
    "fp8_block": "fp8: E4M3 per block of 128 x 128",
    "fp8_tensor": "fp8: E4M3 per tensor, dynamic inputs",
    "gptq": "GPTQ: symmetric int4, groups of 32",
    "modelopt_fp8": "ModelOpt: E4M3 per tensor, static inputs",
    "modelopt_nvfp4": "ModelOpt: NVFP4, groups of 16",
    "mxfp4": "MXFP4 experts, the rest bfloat16",
    "quark_fp8": "Quark: E4M3 per tensor, static inputs",
    "quark_int8": "Quark: int8 per channel, int8 inputs per token",
    "quark_mxfp4": "Quark: MXFP4 weights",
}

RECIPES: dict[str, str] = {
    **{model: f"{text}, bfloat16" for model, text in MODELS.items()},
    **{f"{m}_{f}": f"{text}, {form}" for m, text in MODELS.items() for f, form in FORMATS.items()},
}

FAULTS: dict[str, str] = {
    "corrupt_expert": "one expert of one layer replaced by other random weights",
    "drop_scale": "one expert's w2 scale set to 1 (Quark int8), or its w2 halved (every other format)",
    "swap_w2_shards": "the halves of w2's input columns swapped in every expert, as tp 2 sees swapped shards",
    "same_shard": "the second half of every expert's w13 and w2 is its first half, as if both ranks loaded one shard",
    "wrong_expert_dtype": "Quark int8 only: experts stored and declared unquantized, so that the engine loads bfloat16",
}


def names() -> tuple[str, ...]:
    """The recipe names, sorted."""
    return tuple(sorted(RECIPES))
