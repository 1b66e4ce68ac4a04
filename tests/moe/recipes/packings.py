"""What each format stores for one layer: (tensors by suffix, the float32 matrix they mean).

Names, shapes and bit orders are those which vLLM 0.32.0 reads (vllm/model_executor/layers/quantization: compressed_tensors/,
fp8.py, quark/, auto_awq.py, auto_gptq.py, mxfp4.py, modelopt.py); `selftest/test_formats.py` decodes each independently, and
those of compressed-tensors with that package's own functions.
"""

from __future__ import annotations

import torch

from recipes import rounding as r

Tensor = torch.Tensor
Stored = tuple[dict[str, Tensor], Tensor]

GROUP = 32
"""Inputs per int4 scale: the width of an expert's shard at tp 8, so that every tp is legal."""
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""AWQ interleaves: bits 4 i to 4 i + 3 of a word hold output channel AWQ_ORDER[i] (vLLM's `_REVERSE_AWQ_PACK_ORDER`
0 4 1 5 2 6 3 7 is its inverse)."""


def int8_channel_ct(weight: Tensor, _largest: float) -> Stored:
    """compressed-tensors `int-quantized`: int8 [N, K], scale [N, 1]."""
    made = r.int8_channel(weight)
    return {"weight": made.stored, "weight_scale": made.scale[:, None].to(torch.bfloat16)}, made.dense


def int8_channel_quark(weight: Tensor, _largest: float) -> Stored:
    """Quark W8A8: int8 [N, K], scale float32 [N], zero point int8 [N]."""
    made = r.int8_channel(weight)
    zero = torch.zeros(weight.shape[0], dtype=torch.int8)
    return {"weight": made.stored, "weight_scale": made.scale, "weight_zero_point": zero}, made.dense


def int4_packed(weight: Tensor, _largest: float) -> Stored:
    """compressed-tensors `pack-quantized`: value + 8 in 4 bits, eight inputs a word from the low end; int32 [N, K / 8]."""
    made = r.int4_group(weight, GROUP)
    return {
        "weight_packed": r.pack_int32(made.stored.to(torch.int32) + 8),
        "weight_scale": made.scale.to(torch.bfloat16),
        "weight_shape": torch.tensor(weight.shape, dtype=torch.int64),
    }, made.dense


def fp8_channel_ct(weight: Tensor, _largest: float) -> Stored:
    """compressed-tensors `float-quantized`, per channel: E4M3 [N, K], scale float32 [N, 1]."""
    made = r.fp8_channel(weight)
    return {"weight": made.stored, "weight_scale": made.scale}, made.dense


def fp8_tensor(weight: Tensor, largest: float) -> Stored:
    """fp8 with dynamic activations: E4M3 [N, K], scale float32 scalar, shared by layers that engines fuse."""
    made = r.fp8_tensor(weight, largest)
    return {"weight": made.stored, "weight_scale": made.scale}, made.dense


def fp8_tensor_static(weight: Tensor, largest: float) -> Stored:
    """fp8 with a static activation scale beside it, as Quark and ModelOpt store it."""
    stored, dense = fp8_tensor(weight, largest)
    return {**stored, "input_scale": torch.tensor(r.STATIC_INPUT_SCALE)}, dense


def fp8_block(weight: Tensor, _largest: float) -> Stored:
    """fp8 per block of 128 x 128: E4M3 [N, K], `weight_scale_inv` float32 [N / 128, K / 128] (multiplied, despite its name)."""
    made = r.fp8_block(weight)
    return {"weight": made.stored, "weight_scale_inv": made.scale}, made.dense


def mxfp4(weight: Tensor, _largest: float) -> Stored:
    """MXFP4: two E2M1 codes a byte [N, K / 2], E8M0 scales uint8 [N, K / 32]."""
    made = r.mxfp4(weight)
    return {"weight": r.pack_nibbles(made.stored), "weight_scale": made.scale}, made.dense


def nvfp4(weight: Tensor, largest: float) -> Stored:
    """NVFP4: two E2M1 codes a byte [N, K / 2], E4M3 scales [N, K / 16], a second scale and an input scale (float32)."""
    made, second = r.nvfp4(weight, largest)
    return {
        "weight": r.pack_nibbles(made.stored),
        "weight_scale": made.scale,
        "weight_scale_2": second,
        "input_scale": torch.tensor(r.STATIC_INPUT_SCALE * r.FP8_MAX / (r.FP4_MAX * r.FP8_MAX)),
    }, made.dense


def awq(weight: Tensor, _largest: float) -> Stored:
    """AWQ (gemm): inputs first, outputs packed and interleaved; uint4 with zero points, float16 scales [K / 32, N]."""
    made, zero = r.uint4_group(weight, GROUP)
    return {
        "qweight": r.pack_int32(made.stored.T, AWQ_ORDER),
        "qzeros": r.pack_int32(zero.T, AWQ_ORDER),
        "scales": made.scale.T.to(torch.float16),
    }, made.dense


def gptq(weight: Tensor, _largest: float) -> Stored:
    """GPTQ: inputs packed, [K / 8, N]; symmetric, so every zero point is 8, stored as 7 (the format stores one less)."""
    made = r.int4_group(weight, GROUP)
    inputs = weight.shape[1]
    return {
        "qweight": r.pack_int32(made.stored.to(torch.int32) + 8).T,
        "qzeros": r.pack_int32(torch.full((inputs // GROUP, weight.shape[0]), 7)),
        "scales": made.scale.T.to(torch.float16),
        "g_idx": torch.arange(inputs, dtype=torch.int32) // GROUP,
    }, made.dense
