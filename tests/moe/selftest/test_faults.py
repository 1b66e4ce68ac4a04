"""The comparison sees every planted fault and passes the sound model, on transformers alone."""

from __future__ import annotations

import sys
from pathlib import Path

import agreement
import oracle
import pytest
from agreement import Agreement
from recipes import FAULTS, faults
from recipes.make import checkpoint
from recipes.models import Checkpoint

from selftest import simulated
from selftest.conftest import Make

METHODS = (
    ("qwen3moe", "none"),
    ("qwen3moe", "experts_int8"),
    ("qwen3moe_quark_int8", "quark_int8"),
    ("qwen3moe_fp8_tensor", "fp8_tensor"),
    ("qwen3moe_modelopt_nvfp4", "modelopt_nvfp4"),
    ("qwen2moe_awq", "awq"),
    ("jamba", "none"),
    ("jamba", "experts_int8"),
)
WEIGHT_FAULTS = ("corrupt_expert", "drop_scale", "swap_w2_shards", "same_shard")


def judged(stored: Checkpoint, folder: Path, quantization: str) -> Agreement:
    """What the suite would say of an engine that runs `stored` in bfloat16."""
    import torch

    reference = oracle.choose(oracle.load(folder), quantization, "ZenCPUExpertsInt8")
    return agreement.compare(reference, simulated.answers(stored, quantization, reference, torch.bfloat16))


@pytest.mark.parametrize(("name", "quantization"), METHODS)
def test_the_sound_model_passes(name: str, quantization: str, made: Make) -> None:
    """The bounds leave room for bfloat16 and int8 rounding."""
    found = judged(checkpoint(name), made(name), quantization)
    sys.stdout.write(f"\n{name} {quantization} sound: {found.summary()}\n")
    assert found.agrees, found.summary()
    assert found.tokens_equal or "fp8" in name


@pytest.mark.parametrize("fault", WEIGHT_FAULTS)
@pytest.mark.parametrize(("name", "quantization"), METHODS)
def test_a_planted_fault_is_seen(name: str, quantization: str, fault: str, made: Make) -> None:
    """The fault as `--fault` plants it."""
    found = judged(checkpoint(name, fault), made(name), quantization)
    sys.stdout.write(f"\n{name} {quantization} {fault}: {found.summary()}\n")
    assert not found.agrees, found.summary()


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("expert", range(4))
@pytest.mark.parametrize("fault", ["corrupt_expert", "drop_scale"])
@pytest.mark.parametrize("name", ["qwen3moe", "qwen3moe_quark_int8"])
def test_every_single_expert_matters(name: str, fault: str, layer: int, expert: int, made: Make) -> None:
    """No expert of no layer can be wrong unseen."""
    method = "quark_int8" if "quark" in name else "none"
    found = judged(faults.apply(checkpoint(name), fault, layer, expert), made(name), method)
    assert not found.agrees, found.summary()


def test_wrong_expert_dtype_declares_what_it_stores() -> None:
    """Experts in bfloat16, excluded by the configuration, everything else still int8."""
    import torch

    broken = faults.apply(checkpoint("qwen3moe_quark_int8"), "wrong_expert_dtype")
    for name, tensor in broken.tensors.items():
        if ".experts." in name:
            assert tensor.dtype == torch.bfloat16
            assert name.endswith(".weight")
        elif name.endswith("proj.weight"):
            assert tensor.dtype == torch.int8
    assert set(broken.expert_prefixes) <= set(broken.config["quantization_config"]["exclude"])
    with pytest.raises(ValueError, match="needs a checkpoint that stores quantized experts"):
        faults.apply(checkpoint("qwen3moe"), "wrong_expert_dtype")


def test_every_fault_is_tested() -> None:
    """A fault added to the list needs its test."""
    assert set(FAULTS) == {*WEIGHT_FAULTS, "wrong_expert_dtype"}
