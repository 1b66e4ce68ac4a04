"""What holds for the whole table of rules, and for any facts at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.facts import (
    CellExit,
    CellFacts,
    Evidence,
    Finding,
    JUnitReport,
    RankFacts,
    Tally,
    TestCase,
    TestProgress,
    TestResult,
)
from runner.model import Expectation, Fault, Outcome, Proof, Stop
from runner.verdict import RULES, judge
from runner.verdict.causes import MEANINGS
from tests.runner.verdict.factory import (
    AXES,
    ENGINE_DIED,
    EVIDENCE,
    EXPECT,
    GOOD,
    error,
    facts,
    failing,
)
from tests.runner.verdict.test_rules_endings import TABLE as ENDING_ROWS
from tests.runner.verdict.test_rules_reports import TABLE as REPORT_ROWS

TABLE = ENDING_ROWS + REPORT_ROWS


def test_every_outcome_is_reached_by_the_table() -> None:
    assert {row[2] for row in TABLE} == set(Outcome)


def test_every_rule_decides_a_row_and_has_a_reason() -> None:
    from runner.verdict.case import Case

    deciding = {next(rule.name for rule in RULES if rule.decide(Case(row[1])) is not None) for row in TABLE}
    assert deciding == {rule.name for rule in RULES}
    assert all(rule.reason for rule in RULES)


@pytest.mark.parametrize(("kind", "fault"), [(kind, meaning.fault) for kind, meaning in MEANINGS.items()])
def test_the_fault_of_a_finding_is_kept(kind: str, fault: Fault | None) -> None:
    assert judge(facts(1, None, finding=error(kind))).fault is fault


@pytest.mark.parametrize(
    ("given_facts", "remark"),
    [
        (facts(oom_killed=True), "the kernel's out-of-memory killer ended a process of this cell"),
        (facts(log_cut_bytes=7), "the log is cut: 7 bytes are left out"),
        (
            facts(0, replace(GOOD, lost=3)),
            "3 tests that the report's header promises are not in it (lost, or subtests)",
        ),
        (facts(0, failing("no")), "the exit code says success, the report does not"),
        (facts(evidence=replace(EVIDENCE, bad_lines=2)), "2 lines of the evidence could not be read"),
        (
            facts(evidence=replace(EVIDENCE, children_left=1)),
            "1 processes of the engine outlived its shutdown",
        ),
        (facts(remarks=("the container was not removed",)), "the container was not removed"),
        (facts(137, None, report_problem="truncated report"), "report: truncated report"),
    ],
)
def test_what_does_not_decide_is_a_remark(given_facts: CellFacts, remark: str) -> None:
    assert remark in judge(given_facts).remarks


# ---- for any facts -------------------------------------------------------------------------------------------

COUNTS = st.integers(-1, 3)
WORDS = st.one_of(
    st.sampled_from(("", "vllm", "0.32.0", "cpu", "ZenCpuPlatform", "bfloat16", "2")), st.text(max_size=8)
)
OPTIONAL = st.none() | WORDS
METHODS = st.lists(st.sampled_from(("Int8OnlineMoEMethod", "UnquantizedFusedMoEMethod", "")), max_size=2).map(
    tuple
)
TESTS = st.builds(
    TestCase,
    name=WORDS,
    result=st.sampled_from(TestResult),
    crashed=st.booleans(),
    messages=st.lists(st.text(max_size=30) | st.just(ENGINE_DIED), max_size=2).map(tuple),
)
REPORTS = st.builds(
    JUnitReport,
    tally=st.builds(
        Tally,
        total=COUNTS,
        passed=COUNTS,
        failed=COUNTS,
        errors=COUNTS,
        skipped=COUNTS,
        xfailed=COUNTS,
        flaky=COUNTS,
    ),
    cases=st.lists(TESTS, max_size=3).map(tuple),
    lost=COUNTS,
    crashed=st.booleans(),
)
RANK = st.builds(
    RankFacts,
    rank=st.integers(-1, 3),
    world_size=st.integers(0, 3),
    moe_methods=METHODS,
    expert_weight_dtypes=st.sampled_from(((), ("int8",), ("bfloat16", "int8"))),
    backends=st.sampled_from(((), ("CPU",))),
)
EVIDENCES = st.just(EVIDENCE) | st.builds(
    Evidence,
    engine=WORDS,
    engine_version=WORDS,
    platform=WORDS,
    device_type=WORDS,
    dtype=WORDS,
    tp=st.none() | st.integers(0, 3),
    ranks=st.lists(RANK, max_size=3).map(tuple),
    phase=WORDS,
    max_abs_logprob_diff=st.none() | st.floats(),
    logprob_bound=st.none() | st.floats(),
    children_left=st.none() | COUNTS,
)
ALL_FACTS = st.builds(
    CellFacts,
    exit=st.builds(
        CellExit,
        exit_code=st.none()
        | st.sampled_from((0, 1, 2, 5, 124, 126, 127, 134, 137, 139, 143, 255))
        | st.integers(),
        duration_s=st.just(1.0),
        oom_killed=st.booleans(),
        stopped=st.none() | st.sampled_from(Stop),
        fault=st.none() | st.sampled_from(Fault),
        message=WORDS,
    ),
    proof=st.sampled_from(Proof),
    expect=st.builds(
        Expectation,
        moe_method=OPTIONAL,
        linear_scheme=OPTIONAL,
        expert_weight_dtype=OPTIONAL,
        moe_backend=OPTIONAL,
    )
    | st.just(EXPECT),
    axes=st.just(AXES) | st.dictionaries(st.sampled_from(("platform", "dtype", "tp")), WORDS),
    report=st.none() | REPORTS | st.just(GOOD),
    report_problem=st.sampled_from(("", "", "truncated")),
    report_missing=st.booleans(),
    progress=st.none() | st.builds(TestProgress, finished=COUNTS, running=WORDS),
    evidence=st.none() | EVIDENCES,
    finding=st.none()
    | st.builds(
        Finding,
        line=WORDS,
        kind=st.sampled_from((*MEANINGS, "error", "")),
        process=WORDS,
        rank=st.none() | COUNTS,
    ),
    expect_engine=OPTIONAL,
)


@settings(max_examples=400, deadline=None)
@given(ALL_FACTS)
def test_judging_never_raises_and_passes_only_on_every_condition(given_facts: CellFacts) -> None:
    verdict = judge(given_facts)
    assert "\n" not in verdict.cause
    assert len(verdict.cause) <= 400
    if not verdict.green:
        return
    ended, junit = given_facts.exit, given_facts.report
    assert ended.exit_code == 0
    assert ended.stopped is None
    assert ended.fault is None
    assert junit is not None
    assert not given_facts.report_missing
    assert not given_facts.report_problem
    assert junit.tally.passed > 0
    assert junit.tally.failed + junit.tally.errors + junit.tally.flaky == 0
    if given_facts.proof is Proof.ENGINE:
        seen = given_facts.evidence
        assert seen is not None
        assert "vllm" in seen.engine.lower()
        assert seen.ranks
        if given_facts.expect.moe_method == "Int8OnlineMoEMethod":
            assert all(
                rank.moe_methods == ("Int8OnlineMoEMethod",)
                for rank in seen.ranks
                if "" not in rank.moe_methods
            )
