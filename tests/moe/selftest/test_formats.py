"""Every format's tensors, decoded anew by code that shares nothing with the recipes', and by compressed-tensors' own reader.

What each was checked against: `ct_*` with the package compressed-tensors, wherever it is installed (it is in every vLLM
image). The others with the formats' written facts: AWQ's and GPTQ's packing as vLLM 0.32.0 unpacks it (auto_awq.py,
auto_gptq.py), E2M1, E8M0 and E4M3 as in the OCP Microscaling specification 1.0, ModelOpt's and Quark's names and shapes as
the classes in vllm/model_executor/layers/quantization create them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from recipes import FORMATS, MODELS, RECIPES, formats
from recipes.make import checkpoint, save
from recipes.models import Checkpoint

EXPERT = "model.layers.1.mlp.experts.2.down_proj"
LINEAR = "model.layers.0.self_attn.k_proj"

Tensors = dict[str, torch.Tensor]


def bits(words: torch.Tensor, shifts: range) -> torch.Tensor:
    """4-bit fields of integers, low ones first, on a new last dimension."""
    wide = words.to(torch.int64) & 0xFFFFFFFF
    return torch.stack([(wide >> s) & 15 for s in shifts], dim=-1)


def fp4(code: torch.Tensor) -> torch.Tensor:
    """E2M1 from its fields: sign, two bits of exponent with bias 1, one of mantissa."""
    exponent, mantissa = (code >> 1) & 3, code & 1
    size = torch.where(exponent == 0, mantissa * 0.5, (1 + mantissa * 0.5) * 2.0 ** (exponent - 1))
    return torch.where(code >> 3 == 1, -size, size).to(torch.float32)


def codes(packed: torch.Tensor) -> torch.Tensor:
    """Two codes a byte, the first in the low half."""
    return bits(packed, range(0, 8, 4)).flatten(-2)


def spread(scale: torch.Tensor, size: int) -> torch.Tensor:
    """A scale per group of `size` inputs, repeated for every input."""
    return scale.to(torch.float32).repeat_interleave(size, dim=1)


def _int8(t: Tensors) -> torch.Tensor:
    return t["weight"].to(torch.float32) * t["weight_scale"].to(torch.float32).reshape(-1, 1)


def _ct_w4a16(t: Tensors) -> torch.Tensor:
    return (bits(t["weight_packed"], range(0, 32, 4)).flatten(1) - 8) * spread(t["weight_scale"], 32)


def _fp8(t: Tensors) -> torch.Tensor:
    return t["weight"].to(torch.float32) * t["weight_scale"]


def _fp8_block(t: Tensors) -> torch.Tensor:
    scale = t["weight_scale_inv"].repeat_interleave(128, dim=0).repeat_interleave(128, dim=1)
    return t["weight"].to(torch.float32) * scale


def _mxfp4(t: Tensors) -> torch.Tensor:
    return fp4(codes(t["weight"])) * spread(2.0 ** (t["weight_scale"].to(torch.float32) - 127), 32)


def _nvfp4(t: Tensors) -> torch.Tensor:
    return fp4(codes(t["weight"])) * spread(t["weight_scale"], 16) * t["weight_scale_2"]


def _awq(t: Tensors) -> torch.Tensor:
    order = [0, 4, 1, 5, 2, 6, 3, 7]  # vLLM's _REVERSE_AWQ_PACK_ORDER
    q = bits(t["qweight"], range(0, 32, 4))[..., order].flatten(1)
    zero = bits(t["qzeros"], range(0, 32, 4))[..., order].flatten(1)
    spread_in = lambda x: x.to(torch.float32).repeat_interleave(32, dim=0)  # noqa: E731
    return ((q - spread_in(zero)) * spread_in(t["scales"])).T


def _gptq(t: Tensors) -> torch.Tensor:
    inputs = t["g_idx"].long()
    q = bits(t["qweight"], range(0, 32, 4)).transpose(1, 2).flatten(0, 1)
    zero = bits(t["qzeros"], range(0, 32, 4)).flatten(1) + 1
    return ((q - zero[inputs]) * t["scales"].to(torch.float32)[inputs]).T


DECODERS: dict[str, Callable[[Tensors], torch.Tensor]] = {
    "awq": _awq,
    "ct_w4a16": _ct_w4a16,
    "ct_w8a8_fp8": _fp8,
    "ct_w8a8_int8": _int8,
    "fbgemm_fp8": _fp8,
    "fp8_block": _fp8_block,
    "fp8_tensor": _fp8,
    "gptq": _gptq,
    "modelopt_fp8": _fp8,
    "modelopt_nvfp4": _nvfp4,
    "mxfp4": _mxfp4,
    "quark_fp8": _fp8,
    "quark_int8": _int8,
    "quark_mxfp4": _mxfp4,
}

ERRORS = {"int8": 0.009, "fp8": 0.04, "awq": 0.1, "gptq": 0.12, "w4a16": 0.12, "fp4": 0.16}
"""Largest root-mean-square error of a format, relative to that of the weights: normal weights rounded in 8 or 4 bits."""


def parts(stored: Checkpoint, layer: str) -> Tensors:
    """A layer's tensors by suffix."""
    return {n[len(layer) + 1 :]: t for n, t in stored.tensors.items() if n.startswith(layer + ".")}


def test_every_format_has_a_decoder() -> None:
    """None is left out of this file."""
    assert set(DECODERS) == set(FORMATS) == set(formats.FORMATS)
    assert len(RECIPES) == len(MODELS) * (1 + len(FORMATS))


@pytest.mark.parametrize("layer", [EXPERT, LINEAR])
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_what_is_stored_means_what_the_reference_uses(form: str, layer: str) -> None:
    """The decoder's matrix is the recipe's, near the weights it was made from."""
    plain, stored = checkpoint("qwen3moe"), checkpoint(f"qwen3moe_{form}")
    weight = plain.tensors[f"{layer}.weight"].to(torch.float32)
    if (form, layer) in (("mxfp4", LINEAR), ("fbgemm_fp8", EXPERT)):
        assert torch.equal(stored.tensors[f"{layer}.weight"], plain.tensors[f"{layer}.weight"])
        return
    decoded = DECODERS[form](parts(stored, layer))
    meant = stored.meant[f"{layer}.weight"]
    assert decoded.shape == weight.shape
    assert torch.allclose(decoded, meant, rtol=1e-6, atol=1e-9)
    error = float((decoded - weight).square().mean().sqrt() / weight.square().mean().sqrt())
    limit = next(v for k, v in ERRORS.items() if k in form)
    assert limit / 6 < error < limit, f"{form}: relative error {error:.4f}"


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_stores_a_whole_model(name: str) -> None:
    """Every weight of the bfloat16 model has a meaning, and what is not quantized is untouched; mamba mixers never are."""
    model = name.partition("_")[0]
    plain, stored = checkpoint(model), checkpoint(name)
    assert set(stored.values()) == set(plain.tensors)
    for key, tensor in plain.tensors.items():
        if key not in stored.meant:
            assert torch.equal(stored.tensors[key], tensor)
    assert not [key for key in stored.meant if "mamba" in key or "gate.weight" in key]
    routed = [k for k in plain.tensors if formats.is_routed(plain, k)]
    experts_too = stored.quantized and stored.format != "fbgemm_fp8"
    assert set(routed) & set(stored.meant) == (set(routed) if experts_too else set())


@pytest.mark.parametrize("form", ["fp8_tensor", "modelopt_fp8", "modelopt_nvfp4", "quark_fp8"])
def test_layers_that_engines_fuse_share_a_scale(form: str) -> None:
    """Gate and up, and q, k and v: an engine that keeps one scale for both loses nothing."""
    tensors = checkpoint(f"qwen3moe_{form}").tensors
    suffix = "weight_scale_2" if "nvfp4" in form else "weight_scale"
    base = "model.layers.0."
    gate, up, down = (tensors[f"{base}mlp.experts.1.{p}_proj.{suffix}"] for p in ("gate", "up", "down"))
    assert gate == up != down
    q, k, v = (tensors[f"{base}self_attn.{p}_proj.{suffix}"] for p in "qkv")
    assert q == k == v


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_same_seed_same_bytes(form: str) -> None:
    """Twice made, equal to the last bit, as safetensors writes it."""
    from safetensors.torch import save as as_bytes

    first, second = checkpoint(f"qwen2moe_{form}"), checkpoint(f"qwen2moe_{form}")
    assert json.dumps(first.config) == json.dumps(second.config)
    one, other = ({k: t.contiguous() for k, t in c.tensors.items()} for c in (first, second))
    assert as_bytes(one) == as_bytes(other)


@pytest.mark.parametrize("form", ["ct_w8a8_int8", "ct_w4a16", "ct_w8a8_fp8"])
def test_compressed_tensors_reads_its_formats(form: str, tmp_path: object) -> None:
    """The package's configuration class accepts ours, and its own decompression gives the matrix the reference uses."""
    package = pytest.importorskip("compressed_tensors", reason="in every vLLM image")
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme

    stored = checkpoint(f"qwen3moe_{form}")
    read = QuantizationConfig(**stored.config["quantization_config"])
    scheme: QuantizationScheme = next(iter(read.config_groups.values()))
    reader = BaseCompressor.get_value_from_registry(read.format)
    for layer in (EXPERT, LINEAR):
        made = _decompress(reader, parts(stored, layer), scheme)
        wanted = stored.meant[f"{layer}.weight"]
        assert made.shape == wanted.shape
        assert torch.allclose(made.to(torch.float32), wanted, rtol=2**-7, atol=1e-6), package.__version__


def _decompress(reader: type, stored: Tensors, scheme: object) -> torch.Tensor:
    out: Tensors = reader.decompress(dict(stored), scheme)  # type: ignore[attr-defined]
    return out["weight"]


def test_save_writes_every_dtype(tmp_path: object) -> None:
    """safetensors keeps float8 and int32 as they are."""
    from pathlib import Path

    from safetensors.torch import load_file

    assert isinstance(tmp_path, Path)
    for form in ("fp8_block", "awq", "mxfp4"):
        stored = checkpoint(f"qwen3moe_{form}")
        folder = tmp_path / form
        folder.mkdir()
        save(stored, folder)
        read = load_file(folder / "model.safetensors")
        assert {k: (t.dtype, t.shape) for k, t in read.items()} == {
            k: (t.dtype, t.shape) for k, t in stored.tensors.items()
        }
