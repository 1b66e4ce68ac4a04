"""Number formats by our own arithmetic: how weights are rounded and packed, and how engines round activations.

Every weight function takes a float32 matrix [N, K] and gives what is stored together with what it means in float32, so that
a reference needs no decoder. The formats as written down: OCP Microscaling Formats (MX) specification 1.0 for E2M1, E8M0
and E4M3; the packing of each checkpoint format is said where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

Tensor = torch.Tensor

FP8_MAX = 448.0
"""Largest E4M3 value (OCP 8-bit floating point, the `fn` form without infinities)."""
FP4_MAX = 6.0
FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""E2M1 by its three low bits; bit 3 is the sign."""
STATIC_INPUT_SCALE = 0.125
"""Scale of static fp8 inputs: reaches 56, four times what the recipes' activations reach, with normal numbers to 0.002."""


class Rounded(NamedTuple):
    """`stored` with `scale`, and the float32 matrix `dense` that they mean."""

    stored: Tensor
    scale: Tensor
    dense: Tensor


def up_to_bfloat16(wanted: Tensor) -> Tensor:
    """The least bfloat16 values at or above positive float32 `wanted`, in float32: engines that keep scales so lose nothing."""
    near = wanted.to(torch.bfloat16).to(torch.float32)
    above = (wanted * (1 + 2**-8)).to(torch.bfloat16).to(torch.float32)
    return torch.where(near < wanted, above, near)


def int8_channel(weight: Tensor) -> Rounded:
    """Symmetric int8 per output channel; scale float32 [N], exact in bfloat16."""
    scale = up_to_bfloat16(weight.abs().amax(dim=1) / 127.0)
    q = (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
    return Rounded(q, scale, q.to(torch.float32) * scale[:, None])


def int4_group(weight: Tensor, group: int) -> Rounded:
    """Symmetric int4 (-8 to 7, as int8) per group of inputs; scale float32 [N, K / group], exact in bfloat16."""
    parts = weight.unflatten(1, (-1, group))
    scale = up_to_bfloat16(parts.abs().amax(dim=2) / 7.0)
    q = (parts / scale[..., None]).round().clamp(-8, 7)
    return Rounded(q.flatten(1).to(torch.int8), scale, (q * scale[..., None]).flatten(1))


def uint4_group(weight: Tensor, group: int) -> tuple[Rounded, Tensor]:
    """Asymmetric uint4 (0 to 15, as int8) per group of inputs, and the zero points [N, K / group] as int8."""
    parts = weight.unflatten(1, (-1, group))
    low, high = parts.amin(dim=2).clamp_max(0), parts.amax(dim=2).clamp_min(0)
    scale = up_to_bfloat16((high - low) / 15.0)
    zero = (-low / scale).round().clamp(0, 15)
    q = ((parts / scale[..., None]).round() + zero[..., None]).clamp(0, 15)
    dense = ((q - zero[..., None]) * scale[..., None]).flatten(1)
    return Rounded(q.flatten(1).to(torch.int8), scale, dense), zero.to(torch.int8)


def e4m3(values: Tensor) -> Tensor:
    """Values rounded to E4M3, saturating; torch alone would give NaN above 448."""
    return values.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)


def fp8_tensor(weight: Tensor, largest: float) -> Rounded:
    """E4M3 with one scale (float32 scalar) for a matrix whose siblings' largest magnitude is `largest`."""
    scale = torch.tensor(largest / FP8_MAX, dtype=torch.float32)
    q = e4m3(weight / scale)
    return Rounded(q, scale, q.to(torch.float32) * scale)


def fp8_channel(weight: Tensor) -> Rounded:
    """E4M3 with one scale (float32 [N, 1]) per output channel."""
    scale = weight.abs().amax(dim=1, keepdim=True) / FP8_MAX
    q = e4m3(weight / scale)
    return Rounded(q, scale, q.to(torch.float32) * scale)


def fp8_block(weight: Tensor, block: int = 128) -> Rounded:
    """E4M3 with one scale (float32 [N / block, K / block]) per square block."""
    tiles = weight.unflatten(1, (-1, block)).unflatten(0, (-1, block))
    scale = tiles.abs().amax(dim=(1, 3)) / FP8_MAX
    q = e4m3(tiles / scale[:, None, :, None])
    dense = q.to(torch.float32) * scale[:, None, :, None]
    return Rounded(q.flatten(2).flatten(0, 1), scale, dense.flatten(2).flatten(0, 1))


def e2m1(values: Tensor) -> Tensor:
    """E2M1 codes (uint8, 0 to 15) of `values`, rounded to nearest, ties to the even code, saturating at 6."""
    size = values.abs()
    code = torch.zeros_like(size, dtype=torch.uint8)
    for limit, ties_up in ((0.25, 0), (0.75, 1), (1.25, 0), (1.75, 1), (2.5, 0), (3.5, 1), (5.0, 0)):
        code += (size >= limit) if ties_up else (size > limit)
    return code + torch.where(values < 0, 8, 0).to(torch.uint8)


def e2m1_values(code: Tensor) -> Tensor:
    """What E2M1 codes mean, in float32."""
    size = torch.tensor(FP4_VALUES)[(code & 7).long()]
    return torch.where((code & 8) != 0, -size, size)


def mxfp4(weight: Tensor, group: int = 32) -> Rounded:
    """E2M1 codes with a power of two per group; the scale is E8M0 (uint8, value 2 ** (byte - 127)) [N, K / group]."""
    parts = weight.unflatten(1, (-1, group))
    exponent = (parts.abs().amax(dim=2).clamp_min(2.0**-60) / FP4_MAX).log2().ceil()
    code = e2m1(parts / exponent.exp2()[..., None])
    dense = (e2m1_values(code) * exponent.exp2()[..., None]).flatten(1)
    return Rounded(code.flatten(1), (exponent + 127).to(torch.uint8), dense)


def nvfp4(weight: Tensor, largest: float, group: int = 16) -> tuple[Rounded, Tensor]:
    """E2M1 codes with an E4M3 scale per group, and the second scale (float32 scalar) for siblings up to `largest`."""
    second = torch.tensor(largest / (FP4_MAX * FP8_MAX), dtype=torch.float32)
    parts = weight.unflatten(1, (-1, group))
    scale = e4m3(parts.abs().amax(dim=2) / FP4_MAX / second)
    full = (scale.to(torch.float32) * second)[..., None]
    code = e2m1(parts / full.clamp_min(1e-30))
    return Rounded(code.flatten(1), scale, (e2m1_values(code) * full).flatten(1)), second


def pack_int32(values: Tensor, order: Iterable[int] = range(8)) -> Tensor:
    """Eight 4-bit values of the last dimension in one int32, the `i`-th of `order` in bits 4 i to 4 i + 3."""
    eight = values.to(torch.int64).unflatten(-1, (-1, 8))[..., list(order)] & 15
    packed = (eight << (4 * torch.arange(8))).sum(dim=-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def pack_nibbles(code: Tensor) -> Tensor:
    """Two 4-bit codes of the last dimension in one uint8, the first in the low half."""
    return code[..., 0::2] | (code[..., 1::2] << 4)


def _int8_token(x: Tensor) -> Tensor:
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-10) / 127.0
    return (x / scale).round().clamp(-127, 127) * scale


def _fp8_token(x: Tensor) -> Tensor:
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-10) / FP8_MAX
    return e4m3(x / scale).to(x.dtype) * scale


def _fp8_group(x: Tensor) -> Tensor:
    return _fp8_token(x.unflatten(-1, (-1, 128))).flatten(-2)


def _fp8_static(x: Tensor) -> Tensor:
    return e4m3(x / STATIC_INPUT_SCALE).to(x.dtype) * STATIC_INPUT_SCALE


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "int8_token": _int8_token,
    "fp8_token": _fp8_token,
    "fp8_group128": _fp8_group,
    "fp8_static": _fp8_static,
}
"""How an engine rounds the inputs of quantized layers, by name, and back. `fp8_token` also stands for one dynamic scale of a
whole batch: which scale a floating-point format is given hardly changes what it rounds to."""
