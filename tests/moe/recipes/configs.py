"""`quantization_config` of each format, from the modules it leaves alone. Read by vLLM 0.32.0's config classes."""

from __future__ import annotations

import re
from typing import Any

Config = dict[str, Any]

AWQ_GROUP = 32


def _ct(form: str, weights: Config, inputs: Config | None, ignore: list[str]) -> Config:
    group = {
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": inputs,
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ignore,
        "kv_cache_scheme": None,
    }


def _ct_args(
    bits: int, kind: str, strategy: str, *, dynamic: bool = False, group: int | None = None
) -> Config:
    return {
        "num_bits": bits,
        "type": kind,
        "strategy": strategy,
        "symmetric": True,
        "dynamic": dynamic,
        "group_size": group,
    }


def ct_w8a8_int8(ignore: list[str]) -> Config:
    """compressed-tensors, int8 weights per channel, int8 activations per token."""
    inputs = _ct_args(8, "int", "token", dynamic=True)
    return _ct("int-quantized", _ct_args(8, "int", "channel"), inputs, ignore)


def ct_w4a16(ignore: list[str]) -> Config:
    """compressed-tensors, packed int4 weights per group of 32, activations as they are."""
    return _ct("pack-quantized", _ct_args(4, "int", "group", group=AWQ_GROUP), None, ignore)


def ct_w8a8_fp8(ignore: list[str]) -> Config:
    """compressed-tensors, E4M3 weights per channel, E4M3 activations per token."""
    inputs = _ct_args(8, "float", "token", dynamic=True)
    return _ct("float-quantized", _ct_args(8, "float", "channel"), inputs, ignore)


def fp8_tensor(ignore: list[str]) -> Config:
    """fp8, one scale a matrix, activations scaled as they come."""
    return {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "ignored_layers": ignore,
        "modules_to_not_convert": ignore,
    }


def fp8_block(ignore: list[str]) -> Config:
    """fp8 in blocks of 128 x 128."""
    return {**fp8_tensor(ignore), "weight_block_size": [128, 128]}


def quark(weight: Config, inputs: Config | None, exclude: list[str]) -> Config:
    """Quark's configuration around one scheme for weights and inputs."""
    return {
        "quant_method": "quark",
        "quant_mode": "eager_mode",
        "export": {
            "kv_cache_group": [],
            "min_kv_scale": 0.0,
            "pack_method": "reorder",
            "weight_format": "real_quantized",
            "weight_merge_groups": None,
        },
        "global_quant_config": {
            "weight": weight,
            "input_tensors": inputs,
            "output_tensors": None,
            "bias": None,
        },
        "exclude": exclude,
        "layer_quant_config": {},
        "layer_type_quant_config": {},
        "algo_config": None,
    }


def quark_int8(exclude: list[str]) -> Config:
    """Quark W8A8 int8: `per_channel` of inputs means per token."""
    common = {
        "dtype": "int8",
        "qscheme": "per_channel",
        "group_size": None,
        "symmetric": True,
        "observer_cls": "PerChannelMinMaxObserver",
        "round_method": "half_even",
        "scale_type": "float",
    }
    weight = {**common, "ch_axis": 0, "is_dynamic": False}
    return quark(weight, {**common, "ch_axis": 1, "is_dynamic": True}, exclude)


def quark_fp8(exclude: list[str]) -> Config:
    """Quark W8A8 fp8, per tensor, static activation scales."""
    common = {
        "dtype": "fp8_e4m3",
        "qscheme": "per_tensor",
        "ch_axis": None,
        "group_size": None,
        "symmetric": None,
        "is_dynamic": False,
        "observer_cls": "PerTensorMinMaxObserver",
        "round_method": "half_even",
        "scale_type": "float",
    }
    return quark(common, dict(common), exclude)


def quark_mxfp4(exclude: list[str]) -> Config:
    """Quark OCP MX: MXFP4 weights, activations as they are.

    Checkpoints with MXFP4 activations as well exist; in a model this small their noise (0.84 nats on average, simulated)
    would hide every fault.
    """
    common = {
        "dtype": "fp4",
        "qscheme": "per_group",
        "ch_axis": -1,
        "group_size": 32,
        "symmetric": None,
        "observer_cls": "PerBlockMXObserver",
        "round_method": "half_even",
        "scale_type": "float",
        "scale_format": "e8m0",
        "scale_calculation_mode": "even",
    }
    return quark({**common, "is_dynamic": False}, None, exclude)


def awq(ignore: list[str]) -> Config:
    """AWQ, 4 bits, groups of 32, zero points, gemm layout. Names are matched as parts, so a router's needs its parent's."""
    return {
        "quant_method": "awq",
        "bits": 4,
        "group_size": AWQ_GROUP,
        "zero_point": True,
        "version": "gemm",
        "modules_to_not_convert": ignore,
    }


def gptq(ignore: list[str]) -> Config:
    """GPTQ, 4 bits, groups of 32, symmetric, inputs in order; `dynamic` names what is not quantized (GPTQModel's form)."""
    return {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": AWQ_GROUP,
        "desc_act": False,
        "sym": True,
        "lm_head": False,
        "checkpoint_format": "gptq",
        "dynamic": {f"-:^{re.escape(name)}$": {} for name in ignore},
    }


def fbgemm_fp8(ignore: list[str]) -> Config:
    """FBGEMM fp8: linear layers only, E4M3 per channel; the engine leaves experts unquantized."""
    return {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ignore}


def mxfp4(_ignore: list[str]) -> Config:
    """MXFP4 experts; every other layer stays unquantized, which the engine takes for granted."""
    return {"quant_method": "mxfp4"}


def _modelopt(algorithm: str, ignore: list[str], **more: Any) -> Config:
    return {
        "quant_method": "modelopt",
        "quant_algo": algorithm,
        "producer": {"name": "modelopt", "version": "0.40.0"},
        "ignore": ignore,
        "kv_cache_scheme": None,
        **more,
    }


def modelopt_fp8(ignore: list[str]) -> Config:
    """ModelOpt FP8: per tensor, static activation scales."""
    return _modelopt("FP8", ignore)


def modelopt_nvfp4(ignore: list[str]) -> Config:
    """ModelOpt NVFP4: groups of 16."""
    return _modelopt("NVFP4", ignore, group_size=16)
