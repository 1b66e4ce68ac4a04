"""The decision: strict by default, every blocking cell accounted for, and red is told apart."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.facts import PreparedImage, Watch
from runner.model import Outcome, Status
from runner.release import Because, Policy, decide
from runner.runtimes import FakeCell, FakeRuntime
from tests.runner.release.conftest import Make
from tests.runner.release.factory import (
    DIGEST,
    MATRIX,
    PASS,
    POLICY,
    SKIP,
    Gated,
    evidence,
    good,
    junit,
    slug,
)
from tests.runner.report.factory import plan, record, run

WAYS = {
    "skip all": (FakeCell(out={"junit.xml": junit(SKIP)}), "skipped", "skipped every test"),
    "zero tests": (FakeCell(exit_code=5, out={"junit.xml": junit()}), "no_tests", "ran no test"),
    "no report": (FakeCell(), "no_report", "left no report"),
    "a cut report": (FakeCell(out={"junit.xml": "<testsuites><testsuite>"}), "bad_report", "cannot be read"),
    "no evidence": (FakeCell(out={"junit.xml": junit(PASS)}), "unproven", "passed tests without proof"),
    "another tp": (
        FakeCell(out={"junit.xml": junit(PASS), "evidence.jsonl": evidence(1, "experts_int8")}),
        "failed",
        "failed",
    ),
    "unquantized": (
        FakeCell(out={"junit.xml": junit(PASS), "evidence.jsonl": evidence(2, "none")}),
        "fell_back",
        "fell back",
    ),
    "killed": (FakeCell(exit_code=137), "killed", "killed"),
}


@pytest.mark.parametrize(("cell", "outcome", "said"), WAYS.values(), ids=WAYS)
def test_a_cell_that_proves_nothing_is_red_in_its_own_words(
    make_run: Make, cell: FakeCell, outcome: str, said: str
) -> None:
    gated = make_run({f"*{slug(2, 'experts_int8')}-*": cell})
    reasons = gated.gate().decision.reasons
    assert [reason.kind for reason in reasons] == [Because.NOT_PASSED, Because.COVERAGE]
    assert said in reasons[0].text
    assert reasons[0].cells[0].text.startswith(outcome)


def test_a_flaky_cell_is_red(make_run: Make) -> None:
    case = (
        '<testcase classname="t" name="a"><failure message="x">x</failure></testcase>'
        '<testcase classname="t" name="a"/>'
    )
    cell = FakeCell(out={"junit.xml": junit(case), "evidence.jsonl": evidence(1, "none")})
    gated = make_run({f"*{slug(1, 'none')}-*": cell})
    (reason, *_) = gated.gate().decision.reasons
    assert (reason.kind, reason.text) == (Because.NOT_PASSED, "1 blocking cell: failed and passed")


def test_a_suite_without_engine_proof_counts_only_where_the_policy_says_so(make_run: Make) -> None:
    gated = make_run(matrix=MATRIX.replace("proof: engine", "proof: tests"))
    reasons = gated.gate().decision.reasons
    assert [reason.kind for reason in reasons] == [Because.UNPROVEN, Because.COVERAGE]
    assert reasons[0].cells[0].text == "its suite gives no engine proof (proof: tests)"
    assert gated.gate(policy=POLICY + "proof: tests\n").green


def test_a_selection_leaves_blocking_cells_out(make_run: Make) -> None:
    gated = make_run(select="tp=1")
    reasons = gated.gate().decision.reasons
    assert [reason.kind for reason in reasons] == [Because.NOT_RUN, Because.COVERAGE]
    assert reasons[0].text == "2 blocking cells: left out by the selection of this run"
    assert gated.gate(policy="version: 1\nblocking: platform=cpu and tp=1\nengine_version: any\n").green


def test_without_a_blocking_expression_every_cell_blocks(green: Gated) -> None:
    decision = green.gate(policy="version: 1\nengine_version: 0.32.0\n").decision
    assert [reason.kind for reason in decision.reasons] == [Because.NOT_RUN]
    assert (decision.ledger["blocking"], decision.ledger["excluded"]) == (6, 2)


def test_a_red_cell_that_does_not_block_is_shown_and_not_decisive(make_run: Make) -> None:
    gated = make_run({f"*{slug(1, 'none')}-*": FakeCell(exit_code=137)})
    result = gated.gate(
        policy="version: 1\nblocking: quantization=experts_int8 and platform=cpu\nengine_version: any\n"
    )
    assert result.green
    assert [seen.cell.get("quantization") for seen in result.decision.also_red] == ["none"]
    assert "not blocking, but not passed" in result.text(100)


def test_a_policy_for_another_matrix_is_red_with_the_nearest_name(green: Gated) -> None:
    (reason, *_) = green.gate(
        policy="version: 1\nblocking: platfrom=cpu\nengine_version: any\n"
    ).decision.reasons
    assert reason.kind is Because.SCOPE
    assert "did you mean platform?" in reason.text
    assert reason.text.startswith("policy.yaml:2: blocking:")


def test_coverage_of_what_the_run_does_not_have_is_red(green: Gated) -> None:
    text = "version: 1\nblocking: platform=cpu\nengine_version: any\ncoverage: {quantization: {fp8: 1}, x: {y: 1}}\n"
    (reason,) = green.gate(policy=text).decision.reasons
    absent = "and the matrix of the run has no such cell [policy.yaml:4]"
    assert reason.details == (f"quantization=fp8: 0 of 1 passed, {absent}", f"x=y: 0 of 1 passed, {absent}")


def test_nothing_to_qualify_is_red(green: Gated) -> None:
    text = "version: 1\nblocking: platform=rocm and quantization=experts_int8\nengine_version: any\n"
    (reason,) = green.gate(policy=text).decision.reasons
    assert reason.kind is Because.NOTHING


def test_someone_must_have_said_which_engine(make_run: Make) -> None:
    unsaid = POLICY.replace("engine_version: 0.32.0\n", "")
    gated = make_run()
    (reason,) = gated.gate(policy=unsaid).decision.reasons
    assert (reason.kind, reason.text) == (Because.ENGINE, "nobody said which engine is qualified")
    assert make_run(expect_engine="0.32.0").gate(policy=unsaid).green


def test_a_local_part_of_the_version_may_be_left_out(make_run: Make) -> None:
    cells = {
        f"*{slug(tp, q)}-*": good(tp, q, "0.32.0+cpu") for tp in (1, 2) for q in ("none", "experts_int8")
    }
    gated = make_run(cells)
    assert gated.gate().green
    assert gated.gate(policy=POLICY.replace("0.32.0", "0.32")).decision.reasons[0].kind is Because.ENGINE


@pytest.mark.parametrize(
    ("wanted", "version", "green"),
    [
        ("v0.26.0", "v0.26.0", True),
        ("0.26.0", "v0.26.0+cpu", True),
        ("5df63a720", "0.32.0+cpu.g5df63a720", True),
        ("5df63a720", "0.32.0+cpu.g1111111", False),
        ("0.32", "0.32.0", False),
    ],
)
def test_the_gate_and_the_verdict_mean_the_same_engine(
    make_run: Make, wanted: str, version: str, green: bool
) -> None:
    cells = {f"*{slug(tp, q)}-*": good(tp, q, version) for tp in (1, 2) for q in ("none", "experts_int8")}
    made, line = make_run(cells), "engine_version: 0.32.0\n"
    assert made.gate(policy=POLICY.replace(line, f"engine_version: {wanted}\n")).green is green
    told = make_run(cells, expect_engine=wanted)
    assert told.gate(policy=POLICY.replace(line, "")).green is green


def test_two_engines_in_one_run_are_red_even_where_any_will_do(make_run: Make) -> None:
    gated = make_run({f"*{slug(1, 'none')}-*": good(1, "none", "0.31.0")})
    (reason,) = gated.gate(policy=POLICY.replace("0.32.0", "any")).decision.reasons
    assert "more than one engine: 0.31.0, 0.32.0" in reason.text


def test_the_image_is_the_one_that_the_policy_names(green: Gated) -> None:
    assert green.gate(policy=POLICY + f"images: {{cpu: {DIGEST}}}\n").green
    other = "sha256:" + "f" * 64
    (reason,) = green.gate(policy=POLICY + f"images: {{cpu: {other}}}\n").decision.reasons
    assert reason.kind is Because.IMAGE
    assert reason.text.endswith(f"is {DIGEST}, the policy qualifies {other}")


def test_the_suite_is_the_one_that_the_policy_names(green: Gated) -> None:
    had = green.gate().decision.suites["suite"]
    assert green.gate(policy=POLICY + f"suites: {{suite: {had}}}\n").green
    other = "sha256:" + "f" * 64
    (reason,) = green.gate(policy=POLICY + f"suites: {{suite: {other}}}\n").decision.reasons
    assert (reason.kind, reason.text) == (
        Because.SUITE,
        f"the suite suite is {had}, the policy qualifies {other}",
    )
    (reason,) = green.gate(policy=POLICY + f"suites: {{tests/moe: {had}}}\n").decision.reasons
    assert (reason.kind, reason.text) == (
        Because.SUITE,
        "no passed cell ran the suite tests/moe, which the policy qualifies",
    )


def test_a_quantized_cell_that_expects_no_method_is_not_qualified_by_its_pass(make_run: Make) -> None:
    """The run is as green without quantized experts: its evidence is never asked for the method."""
    matrix = MATRIX.replace("experts_int8: {expect: {moe_method: Int8OnlineMoEMethod, expert_weight_dtype: int8}}",
                            "experts_int8: {engine_args: {quantization: experts_int8}}")  # fmt: skip
    matrix = matrix.replace("none: {expect: {moe_method: UnquantizedFusedMoEMethod}}", "none: {}")
    unquantized = FakeCell(out={"junit.xml": junit(PASS), "evidence.jsonl": evidence(2, "none")})
    gated = make_run({f"*{slug(2, 'experts_int8')}-*": unquantized}, matrix=matrix)
    reasons = gated.gate().decision.reasons
    assert [reason.kind for reason in reasons] == [Because.UNPROVEN, Because.COVERAGE]
    assert {seen.cell.get("quantization") for seen in reasons[0].cells} == {"experts_int8"}
    assert reasons[0].cells[0].text == (
        "its settings expect no moe_method, so nothing shows that experts_int8 was in use; add it to expect"
    )


def test_an_engine_argument_asks_for_quantization_too(make_run: Make) -> None:
    matrix = MATRIX.replace("none: {expect: {moe_method: UnquantizedFusedMoEMethod}}",
                            "none: {engine_args: {quantization: fp8}}")  # fmt: skip
    (reason, _) = make_run(matrix=matrix).gate().decision.reasons
    assert {seen.cell.get("quantization") for seen in reason.cells} == {"none"}
    assert "nothing shows that fp8 was in use" in reason.cells[0].text


def test_an_image_known_by_its_tag_alone_is_red(make_run: Make) -> None:
    class Tagged(FakeRuntime):
        name = "docker"

        def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
            return PreparedImage(ref=ref, digest="vllm:nightly", how="pulled")

    (reason,) = make_run(runtime=Tagged).gate().decision.reasons
    assert (reason.kind, "never resolved" in reason.text) == (Because.IMAGE, True)


STATUSES = st.sampled_from(list(Status))
ENDS = st.sampled_from([*Outcome, None])


@given(st.lists(st.tuples(STATUSES, ENDS), min_size=12, max_size=12))
def test_every_blocking_cell_is_accounted_for_and_green_means_all_passed(
    ends: list[tuple[Status, Outcome | None]],
) -> None:
    at = iter(ends)
    made = plan({"platform": ("cpu",), "dtype": tuple("abcdef"), "tp": ("1", "2"), "quantization": ("none",)},
                decide=lambda _: (next(at)[0], ()))  # fmt: skip
    records = [
        record(entry.cell, outcome)
        for entry, (status, outcome) in zip(made.entries, ends, strict=True)
        if status is Status.PLANNED and outcome is not None
    ]
    decision = decide(run(made, records), Policy(source="p", engine_version="any"), (), date(2026, 3, 1))
    ledger = dict(decision.ledger)
    assert ledger.pop("blocking") == sum(ledger.values()) - ledger["excluded"]
    assert sum(ledger.values()) == 12
    assert ledger["missing"] == sum(status is Status.PLANNED and end is None for status, end in ends)
    assert ledger["passed"] == sum(status is Status.PLANNED and end is Outcome.PASSED for status, end in ends)
    rest = [(status, end) for status, end in ends if status is not Status.EXCLUDED]
    assert decision.green is (bool(rest) and all(each == (Status.PLANNED, Outcome.PASSED) for each in rest))
    red = {seen.cell for reason in decision.reasons for seen in reason.cells}
    assert len(red) + ledger["passed"] + ledger["excluded"] == 12
