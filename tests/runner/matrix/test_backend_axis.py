"""The axis moe_backend: what a value passes to the engine, expects of it, and where it can never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import runner.matrix
from runner import plan
from runner.machine import CpuFacts, Device, Inventory
from runner.model import CellSettings, Matrix, Requirement, Status

Load = Callable[..., Matrix]

TEXT = """\
version: 1
suite: {proof: tests}
axes:
  platform: [cuda, rocm, cpu]
  moe_backend: [auto, triton, aiter, marlin, cutlass, flashinfer, cpu, humming]
engine_args: {moe_backend: general, other: 1}
expect: {moe_backend: general}
"""
HERE = Inventory(
    hostname="h",
    boot_id="b",
    cpu=CpuFacts(cores=(0, 1)),
    devices=(
        Device(platform="cuda", index=0, id="GPU-0", capability="9.0"),
        Device(platform="rocm", index=0, id="GPU-1"),
    ),
)


def of(matrix: Matrix, platform: str, value: str) -> CellSettings:
    axes = {"platform": platform, "moe_backend": value}
    return next(each.settings for each in matrix.cells if dict(each.cell.axes) == axes)


@pytest.mark.parametrize(
    ("platform", "value", "argument", "env"),
    [
        ("cuda", "triton", "triton", {}),
        ("rocm", "triton", "triton", {}),
        ("rocm", "aiter", "aiter", {"VLLM_ROCM_USE_AITER": "1"}),
        ("cuda", "marlin", "marlin", {}),
        ("cuda", "cutlass", "cutlass", {}),
        ("cuda", "flashinfer", "flashinfer_cutlass", {}),
        ("cpu", "humming", "humming", {}),
    ],
)
def test_a_value_is_passed_to_the_engine_and_expected_of_it(
    load: Load, platform: str, value: str, argument: str, env: dict[str, str]
) -> None:
    settings = of(load(TEXT), platform, value)
    assert settings.engine_args == {"moe_backend": argument, "other": 1}
    assert settings.expect.moe_backend == value
    assert settings.env == env


def test_an_engine_has_no_word_for_its_cpu_kernels_so_nothing_is_passed(load: Load) -> None:
    settings = of(load(TEXT), "cpu", "cpu")
    assert settings.engine_args == {"other": 1}
    assert settings.expect.moe_backend == "cpu"


def test_auto_leaves_the_rest_of_the_file_alone(load: Load) -> None:
    settings = of(load(TEXT), "cuda", "auto")
    assert settings.engine_args == {"moe_backend": "general", "other": 1}
    assert settings.expect.moe_backend == "general"


def test_an_override_has_the_last_word(load: Load) -> None:
    more = """\
overrides:
  - when: moe_backend=flashinfer
    engine_args: {moe_backend: flashinfer_trtllm}
    expect: {moe_backend: flashinfer_trtllm}
  - {when: moe_backend=aiter, env: {VLLM_ROCM_USE_AITER: "0"}}
"""
    matrix = load(TEXT + more)
    settings = of(matrix, "cuda", "flashinfer")
    assert settings.engine_args["moe_backend"] == "flashinfer_trtllm"
    assert settings.expect.moe_backend == "flashinfer_trtllm"
    assert of(matrix, "rocm", "aiter").env == {"VLLM_ROCM_USE_AITER": "0"}


def test_a_value_that_a_platform_can_never_use_is_not_runnable_there(load: Load) -> None:
    made = plan.make(load(TEXT), HERE, lambda _: {}, {"cuda": 1, "rocm": 1, "cpu": 0})
    reasons = {
        (entry.cell.get("platform"), entry.cell.get("moe_backend")): entry.reasons[0].text
        for entry in made.entries
        if entry.status is Status.NOT_RUNNABLE
    }
    gpu = "moe_backend triton: Triton's kernels need a GPU"
    amd = "moe_backend aiter: AITER is AMD's library for its GPUs"
    marlin = "moe_backend marlin: Marlin's kernels are written for NVIDIA's GPUs"
    cutlass = "moe_backend cutlass: CUTLASS is NVIDIA's library for its GPUs"
    flashinfer = "moe_backend flashinfer: FlashInfer's kernels are written for NVIDIA's GPUs"
    cpu = "moe_backend cpu: the engine's CPU kernels run on a CPU alone"
    assert reasons == {
        ("cuda", "aiter"): amd,
        ("cuda", "cpu"): cpu,
        ("rocm", "marlin"): marlin,
        ("rocm", "cutlass"): cutlass,
        ("rocm", "flashinfer"): flashinfer,
        ("rocm", "cpu"): cpu,
        ("cpu", "triton"): gpu,
        ("cpu", "aiter"): amd,
        ("cpu", "marlin"): marlin,
        ("cpu", "cutlass"): cutlass,
        ("cpu", "flashinfer"): flashinfer,
    }


def test_the_reason_names_the_line_of_the_value(load: Load) -> None:
    (need,) = of(load(TEXT), "cpu", "triton").requires
    assert need == Requirement(
        expression=None,
        reason="moe_backend triton: Triton's kernels need a GPU",
        source="matrix.yaml:5",
    )


def test_an_included_value_counts_too(load: Load) -> None:
    text = """\
version: 1
suite: {proof: tests}
axes: {platform: [cuda, cpu], moe_backend: [auto]}
include:
  - cell: {platform: cpu, moe_backend: marlin}
"""
    (need,) = of(load(text), "cpu", "marlin").requires
    assert need.source == "matrix.yaml:5"


def test_explain_names_the_axis(load: Load, tmp_path: Path) -> None:
    load(TEXT)
    path = next(tmp_path.rglob("matrix.yaml"))
    found = {
        row.setting: row for row in runner.matrix.explain(path, "platform=cpu,moe_backend=triton").settings
    }
    argument = found["engine_args.moe_backend"]
    assert (argument.given.value, argument.given.layer) == ("triton", "axis moe_backend")
    assert [each.layer for each in argument.replaced] == ["top level"]
    assert found["expect.moe_backend"].given.layer == "axis moe_backend"
    assert found["requires.moe_backend"].given.value == "Triton's kernels need a GPU"
    cpu = {row.setting for row in runner.matrix.explain(path, "platform=cpu,moe_backend=cpu").settings}
    assert "engine_args.moe_backend" not in cpu
