"""What the evidence must say: one missing or wrong fact is enough not to pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.model import Culprit, Fault, Outcome, Stop
from runner.verdict import judge
from tests.runner.verdict.factory import AXES, EVIDENCE, EXPECT, RANKS, facts, failing

SPOILERS: dict[str, Any] = {
    "no report": lambda f: replace(f, report=None, report_missing=True),
    "a problem with the report": lambda f: replace(f, report_problem="truncated"),
    "exit 1": lambda f: replace(f, exit=replace(f.exit, exit_code=1)),
    "exit 137": lambda f: replace(f, exit=replace(f.exit, exit_code=137)),
    "no exit code": lambda f: replace(f, exit=replace(f.exit, exit_code=None)),
    "a fault": lambda f: replace(f, exit=replace(f.exit, fault=Fault.DISK)),
    "stopped": lambda f: replace(f, exit=replace(f.exit, stopped=Stop.TIMED_OUT)),
    "a failed test": lambda f: replace(f, report=failing("x")),
    "no evidence": lambda f: replace(f, evidence=None),
    "no engine": lambda f: replace(f, evidence=replace(f.evidence, engine="")),
    "no platform": lambda f: replace(f, evidence=replace(f.evidence, platform="")),
    "no device type": lambda f: replace(f, evidence=replace(f.evidence, device_type="")),
    "no dtype": lambda f: replace(f, evidence=replace(f.evidence, dtype="")),
    "another tp": lambda f: replace(f, axes=AXES | {"tp": "1"}),
    "no ranks": lambda f: replace(f, evidence=replace(f.evidence, ranks=())),
    "a rank twice": lambda f: replace(f, evidence=replace(f.evidence, ranks=(RANKS[0], RANKS[0]))),
    "a rank without method": lambda f: replace(
        f, evidence=replace(f.evidence, ranks=(RANKS[0], replace(RANKS[1], moe_methods=())))
    ),
    "a rank without weight dtype": lambda f: replace(
        f, evidence=replace(f.evidence, ranks=(RANKS[0], replace(RANKS[1], expert_weight_dtypes=())))
    ),
    "an unknown linear scheme": lambda f: replace(f, expect=replace(EXPECT, linear_scheme="QuarkW8A8Int8")),
    "no version": lambda f: replace(
        f, expect_engine="0.32.0", evidence=replace(f.evidence, engine_version="")
    ),
    "numbers out of bound": lambda f: replace(
        f, evidence=replace(f.evidence, max_abs_logprob_diff=0.5, logprob_bound=0.01)
    ),
    "two engines": lambda f: replace(f, evidence=replace(f.evidence, conflicts=("2 engines: tp 1 and 2",))),
    "other tokens, and no number": lambda f: replace(f, evidence=replace(f.evidence, tokens_equal=False)),
    "no answer compared with the reference": lambda f: replace(f, compared=True),
    "numbers that are none": lambda f: replace(
        f, evidence=replace(f.evidence, max_abs_logprob_diff=float("nan"), logprob_bound=0.01)
    ),
}


@pytest.mark.parametrize("spoiler", SPOILERS.values(), ids=SPOILERS)
def test_one_missing_condition_is_enough_not_to_pass(spoiler: Any) -> None:
    assert judge(facts()).green
    assert not judge(spoiler(facts())).green


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("0.32.0", "0.32.0"),
        ("v0.32.0", "0.32.0"),
        ("0.32.0", "0.32.0+cpu"),
        ("0.32.0+cpu", "0.32.0+cpu"),
        ("5df63a720", "0.32.1.dev4+g5df63a720.cpu"),
        ("5df63a72051b6f8e0d1c2a3b4c5d6e7f8a9b0c1d", "0.32.1.dev4+g5df63a720"),
        ("v0.32.0", "v0.32.0"),
        ("5df63a720", "0.32.0+cpu.g5df63a720"),
        ("0.32.0+cpu", "0.32.0+cpu.g5df63a720"),
        ("0.32.0", "0.32.0+cpu.g5df63a720"),
    ],
)
def test_the_candidate_is_named_by_version_or_commit(wanted: str, version: str) -> None:
    assert judge(facts(expect_engine=wanted, evidence=replace(EVIDENCE, engine_version=version))).green


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("0.32", "0.32.0"),
        ("0.32.0+cuda", "0.32.0+cpu"),
        ("5df63a720", "0.32.0+g1111111"),
        ("0.32.0", "0.32.0rc1"),
        ("0.32.0+cuda", "0.32.0+cpu.g5df63a720"),
        ("5df63a7", "0.32.0+cpu"),
        ("5df63a7", "5df63a7"[:6]),
    ],
)
def test_another_version_is_not_the_candidate(wanted: str, version: str) -> None:
    found = judge(facts(expect_engine=wanted, evidence=replace(EVIDENCE, engine_version=version)))
    assert found.outcome is Outcome.UNPROVEN


COMPARED = replace(EVIDENCE, tokens_equal=True, max_abs_logprob_diff=0.1, logprob_bound=0.5)


@pytest.mark.parametrize("equal", [True, False, None], ids=["equal tokens", "a near tie turned", "not said"])
def test_a_model_with_a_reference_passes_by_its_numbers(equal: bool | None) -> None:
    assert judge(facts(compared=True, evidence=replace(COMPARED, tokens_equal=equal))).green


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            {"tokens_equal": None, "max_abs_logprob_diff": None, "logprob_bound": None},
            "no test compared the engine's answers with the model's reference",
        ),
        (
            {"max_abs_logprob_diff": None},
            "the evidence compares answers without a difference and its bound",
        ),
        ({"logprob_bound": None}, "the evidence compares answers without a difference and its bound"),
        (
            {"tokens_equal": False, "max_abs_logprob_diff": None},
            "the tokens are not the reference's, and the evidence does not say by how much",
        ),
        ({"ended": False}, "the evidence is cut off: it has no last event"),
    ],
)
def test_a_model_with_a_reference_is_unproven_without_a_whole_comparison(
    change: dict[str, Any], cause: str
) -> None:
    found = judge(facts(compared=True, evidence=replace(COMPARED, **change)))
    assert (found.outcome, found.culprit, found.cause) == (Outcome.UNPROVEN, Culprit.TEST, cause)


def test_a_model_without_a_reference_needs_no_comparison() -> None:
    assert judge(facts(evidence=EVIDENCE)).green
