"""What a sound rank looks like, from the cell and the checkpoint; shared by the tests."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import methods
from cell import Cell, Expect

PLATFORM_CLASSES: dict[str, tuple[str, ...]] = {
    "cpu": ("CpuPlatform", "ZenCpuPlatform"),
    "cuda": ("CudaPlatform", "NvmlCudaPlatform", "NonNvmlCudaPlatform"),
    "rocm": ("RocmPlatform",),
}
"""vLLM's platform classes (vllm/platforms, 0.26.0 and 0.32.0); a platform not in this table is not checked by class."""

UNQUANTIZED = "UnquantizedFusedMoEMethod"

REPACKED = frozenset({"CPUExpertsInt8", "X86CPUUnquantizedExperts", "CPUUnquantizedExperts"})
"""Experts classes that may store weights in their own layout (cpu_prepack_moe_weight, convert_weight_packed): the number
of elements is checked, with room for the int8 AMX layout's four compensation bytes a row, and the shape is not. Of weights
packed below a byte every kernel has its own layout, and the bytes are checked."""


def shard_shapes(model: Path, tp: int, by_expert: bool = False) -> tuple[list[int], list[int]]:
    """(w13, w2) shapes of one rank: [experts, 2 * width / tp, hidden] and [experts, hidden, width / tp].

    With expert parallelism (`by_expert`) a rank holds experts / tp whole experts instead.
    """
    config: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    experts = int(config.get("num_experts") or config["num_local_experts"])
    width = int(config.get("moe_intermediate_size") or config["intermediate_size"])
    hidden = int(config["hidden_size"])
    if by_expert:
        return [experts // tp, 2 * width, hidden], [experts // tp, hidden, width]
    return [experts, 2 * width // tp, hidden], [experts, hidden, width // tp]


def mixture_layers(model: Path) -> int:
    """How many layers of the checkpoint have routed experts (Qwen3-MoE: all; Jamba: by its period)."""
    config: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    layers = int(config["num_hidden_layers"])
    period, offset = int(config.get("expert_layer_period", 1)), int(config.get("expert_layer_offset", 0))
    return sum(1 for i in range(layers) if i % period == offset)


def rank_problems(cell: Cell, ranks: list[dict[str, Any]]) -> list[str]:
    """Everything that is wrong with the ranks' own words; empty for a sound engine."""
    found: list[str] = []
    if [r["rank"] for r in ranks] != list(range(cell.tp)) or any(r["world_size"] != cell.tp for r in ranks):
        found.append(f"ranks {[(r['rank'], r['world_size']) for r in ranks]} for tp {cell.tp}")
    if len({r["pid"] for r in ranks}) != len(ranks):
        found.append("two ranks are one process")
    for rank in ranks:
        found.extend(f"rank {rank['rank']}: {text}" for text in _one_rank(cell, rank))
    return found


def _one_rank(cell: Cell, rank: dict[str, Any]) -> list[str]:
    assert cell.model is not None
    found: list[str] = []
    wanted = mixture_layers(cell.model.path)
    if len(rank["layers"]) != wanted:
        found.append(f"{len(rank['layers'])} expert layers, {wanted} wanted")
    if cell.dtype != "auto" and rank["dtype"] != cell.dtype:
        found.append(f"dtype {rank['dtype']}, {cell.dtype} wanted")
    scheme = cell.expect.linear_scheme
    if scheme is not None and not rank["linear_schemes"].get(scheme):
        found.append(f"no linear layer uses {scheme}: {rank['linear_schemes']}")
    for layer in rank["layers"]:
        found.extend(f"{layer['name']}: {text}" for text in _one_layer(cell, layer))
    return found


def _one_layer(cell: Cell, layer: dict[str, Any]) -> list[str]:
    assert cell.model is not None
    found: list[str] = []
    expect = cell.expect
    if expect.moe_method is not None and layer["moe_method"] != expect.moe_method:
        fell = " (fell back)" if layer["moe_method"] == UNQUANTIZED else ""
        found.append(f"method {layer['moe_method']}, {expect.moe_method} wanted{fell}")
    if expect.expert_weight_dtype is not None:
        found.extend(
            f"{key} {layer[key]}, {expect.expert_weight_dtype} wanted"
            for key in ("expert_weight_dtype", "w2_dtype")
            if layer[key] != expect.expert_weight_dtype
        )
    if expect.moe_backend is not None and not _is_backend(expect, layer):
        found.append(f"backend {layer['backend']} ({layer['experts_class']}), {expect.moe_backend} wanted")
    shapes = shard_shapes(cell.model.path, cell.tp, bool(cell.engine_args.get("enable_expert_parallel")))
    for key, shape in zip(("w13_shape", "w2_shape"), shapes, strict=True):
        if not _fits(cell, layer, key, shape):
            found.append(f"{key} {layer[key]}, {shape} wanted")
    return found


def _is_backend(expect: Expect, layer: dict[str, Any]) -> bool:
    if expect.moe_backend in (layer["backend"], layer["experts_class"]):
        return True
    wanted = expect.moe_backend_pattern
    return wanted is not None and re.fullmatch(wanted, str(layer["backend"]).casefold()) is not None


def _fits(cell: Cell, layer: dict[str, Any], key: str, wanted: list[int]) -> bool:
    got: list[int] = layer[key]
    method = methods.get(cell.quantization)
    if method is not None and method.weight_bits < 8:
        return bool(layer[key.replace("shape", "bytes")] * 8 == math.prod(wanted) * method.weight_bits)
    if got == wanted:
        return True
    if layer["experts_class"] not in REPACKED:
        return False
    rows = math.prod(wanted[:-1])
    return math.prod(wanted) <= math.prod(got) <= math.prod(wanted) + 4 * rows
