"""Planted faults on real vLLM cells in Docker, through the whole program. Minutes: one engine a cell."""

from __future__ import annotations

import shutil

import pytest

from runner import hosts
from runner.model import Culprit, Outcome, Verdict
from tests.runner.e2e.conftest import PROJECT, Ended, Program

pytestmark = [pytest.mark.docker, pytest.mark.engine, pytest.mark.timeout(1500)]

COMMON = """\
version: 1
suite: {path: "{project}/tests/moe"TESTS}
platforms:
  cpu:
    image: "{project}/images/cpu"
    env: {VLLM_CPU_KVCACHE_SPACE: "1", TORCH_COMPILE_DISABLE: "1"}
engine_args: {max_model_len: 256, enforce_eager: true}
limits: {memory: 8g, shm: 2g, start: 10m, idle: 5m, total: 15m}
models:
  sound: {recipe: qwen3moe}
  corrupt: {recipe: qwen3moe, fault: corrupt_expert}
  quark: {recipe: qwen3moe_quark_int8}
  jamba: {recipe: jamba, traits: [mamba]}
"""

PLANTS = (
    COMMON.replace("TESTS", "")
    + """
model: sound
expect: {moe_method: UnquantizedFusedMoEMethod, expert_weight_dtype: bfloat16}
axes:
  platform: [cpu]
  dtype: [bfloat16]
  tp: [1]
  quantization: [none]
  plant: [wrong_class, wrong_dtype, corrupt_expert, mamba_rule]
overrides:
  - {when: plant=wrong_class, expect: {moe_method: Fp8MoEMethod}}
  - {when: plant=wrong_dtype, expect: {expert_weight_dtype: float16}}
  - {when: plant=corrupt_expert, model: corrupt}
  - {when: plant=mamba_rule, model: jamba, engine_args: {enable_chunked_prefill: false, enable_prefix_caching: true}}
rules:
  - require: {enable_chunked_prefill: true}
    when: {model.traits: mamba, enable_prefix_caching: true}
    reason: mamba cache mode 'align' needs chunked prefill
"""
)


@pytest.fixture(scope="module")
def planted(program: Program) -> Ended:
    """All plants under --no-rules, two cells at a time, each on a core of its own."""
    return program.run(PLANTS, "--no-rules", "--jobs", "2")


def outcome(verdict: Verdict) -> tuple[Outcome, Culprit]:
    return verdict.outcome, verdict.culprit


def test_weights_of_another_dtype_are_failed_by_the_product(planted: Ended) -> None:
    verdict = planted.record(plant="wrong_dtype").verdict
    assert outcome(verdict) == (Outcome.FAILED, Culprit.PRODUCT)
    assert "bfloat16" in verdict.cause


def test_experts_that_stayed_unquantized_have_their_own_word(planted: Ended) -> None:
    verdict = planted.record(plant="wrong_class").verdict
    assert outcome(verdict) == (Outcome.FELL_BACK, Culprit.PRODUCT)
    assert "UnquantizedFusedMoEMethod" in verdict.cause


def test_one_corrupted_expert_is_failed_by_the_product(planted: Ended) -> None:
    record = planted.record(plant="corrupt_expert")
    assert outcome(record.verdict) == (Outcome.FAILED, Culprit.PRODUCT)
    evidence = record.attempts[0].evidence
    assert evidence is not None
    assert evidence.tokens_equal is False or (evidence.max_abs_logprob_diff or 0) > (
        evidence.logprob_bound or 9
    )


def test_without_rules_the_engine_refuses_mamba_without_chunked_prefill(planted: Ended) -> None:
    verdict = planted.record(plant="mamba_rule").verdict
    assert outcome(verdict) == (Outcome.REFUSED, Culprit.CONFIG)
    assert "Chunked prefill is required" in verdict.cause


def test_two_cells_at_once_ran_on_disjoint_cores(planted: Ended) -> None:
    if len(planted.run.inventory.cpu.cores) < 2:
        pytest.skip("this host has one core")
    inputs = [planted.folder / "cells" / r.cell.slug / "attempt-1" for r in planted.run.records]
    assert all((folder / "cell-input.json").is_file() for folder in inputs)
    cores = {id_ for r in planted.run.records for id_ in r.attempts[0].device_ids}
    assert len(cores) == 2


def test_with_rules_the_same_cell_is_refused_without_a_container(program: Program) -> None:
    ended = program.run(PLANTS, "-k", "plant=mamba_rule")
    (record,) = ended.run.records
    assert outcome(record.verdict) == (Outcome.REFUSED, Culprit.CONFIG)
    assert (record.attempts, record.refused, ended.exit_code) == ((), True, 10)
    assert "mamba cache mode 'align' needs chunked prefill [matrix.yaml:" in record.verdict.cause


WRONG_CLASS = (
    COMMON.replace("TESTS", "")
    + """
model: quark
engine_args: {max_model_len: 256, enforce_eager: true}
expect: {moe_method: Int8OnlineMoEMethod, expert_weight_dtype: int8}
axes: {platform: [cpu], dtype: [bfloat16], tp: [1], quantization: [quark_int8]}
"""
).replace("engine_args: {max_model_len: 256, enforce_eager: true}\nlimits", "limits")

LIVE = (
    COMMON.replace("TESTS", ', proof: tests, tests: ["selftest/test_live_faults.py"]')
    + """
model: quark
expect: {moe_method: QuarkW8A8Int8MoEMethod, linear_scheme: QuarkW8A8Int8, expert_weight_dtype: int8}
axes: {platform: [cpu], dtype: [bfloat16], tp: [2], quantization: [quark_int8]}
"""
)

LIVE_PLAIN = (
    COMMON.replace(
        "TESTS",
        ', proof: tests, tests: ["selftest/test_live_faults.py::test_sound_weights_agree",'
        ' "selftest/test_live_faults.py::test_planted_fault_is_seen"]',
    )
    + """
model: sound
expect: {moe_method: UnquantizedFusedMoEMethod, expert_weight_dtype: bfloat16}
axes: {platform: [cpu], dtype: [bfloat16], tp: [2], quantization: [none]}
"""
)

SELFTESTS = [
    f"selftest/test_{name}.py"
    for name in ("recipes", "faults", "mutation_table", "agreement", "formats", "without_engine")
]

OFFLINE = COMMON.replace("TESTS", f", proof: tests, tests: {SELFTESTS}") + "\naxes: {platform: [cpu]}\n"

VALIDATED = """\
version: 1
suite: {path: validated, proof: tests, tests: [tests/moe/selftest/test_starts.py]}
axes: {platform: [cpu]}
platforms: {cpu: {image: "{project}/images/cpu"}}
limits: {memory: 8g, shm: 2g, idle: 5m, total: 15m}
"""


def has_int8() -> bool:
    """Whether this CPU has an int8 backend. Where it has none the grid says so by not_runnable cells."""
    return bool({"zen", "amx_int8"} & set(hosts.inventory(environ={}).cpu.facts))


def test_a_wrong_method_class_is_failed_by_the_product(program: Program) -> None:
    if not has_int8():
        pytest.skip("this CPU has no int8 experts: neither AMX nor AVX-512 on AMD")
    (record,) = program.run(WRONG_CLASS).run.records
    assert outcome(record.verdict) == (Outcome.FAILED, Culprit.PRODUCT), record.verdict.cause
    assert "QuarkW8A8Int8MoEMethod" in record.verdict.cause


def test_mutations_within_one_live_engine_are_all_seen(program: Program) -> None:
    """Of quantized weights where this CPU can run them, else of plain ones: no CPU leaves the live faults out."""
    text, tests = (LIVE, 24) if has_int8() else (LIVE_PLAIN, 23)
    (record,) = program.run(text).run.records
    assert record.verdict.outcome is Outcome.PASSED, record.verdict.cause
    tally = record.attempts[0].tally
    assert tally is not None
    assert (tally.passed, tally.failed, tally.skipped) == (tally.total, 0, 0)
    assert (
        tally.total == tests
    )  # docs/mutations.md: eleven in each of two layers, sound weights, a dtype of int8


def test_reference_and_bound_see_every_fault_of_every_recipe(program: Program) -> None:
    (record,) = program.run(OFFLINE).run.records
    assert record.verdict.outcome is Outcome.PASSED, record.verdict.cause


def test_the_rules_of_matrix_files_agree_with_the_engines_validator(program: Program) -> None:
    """On every platform, its driver's answers stated: tests/moe/selftest/test_starts.py, beside the files that it reads."""
    suite = program.folder / "validated"
    for name in ("runner", "tests/moe", "docs/examples", "examples/gpu-host"):
        shutil.copytree(PROJECT / name, suite / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "matrix.yaml", suite)
    (record,) = program.run(VALIDATED).run.records
    assert record.verdict.outcome is Outcome.PASSED, record.verdict.cause
    tally = record.attempts[0].tally
    assert tally is not None
    assert tally.passed == tally.total > 300
