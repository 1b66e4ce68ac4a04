"""One verdict over several attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.model import Culprit, Fault, Outcome, Verdict
from runner.verdict import combine

PASSED = Verdict(outcome=Outcome.PASSED, remarks=("own remark",))
FAILED = Verdict(outcome=Outcome.FAILED, culprit=Culprit.PRODUCT, cause="test_a: no")
REFUSED = Verdict(outcome=Outcome.REFUSED, culprit=Culprit.CONFIG, cause="a rule")
INFRA = Verdict(outcome=Outcome.INFRA, culprit=Culprit.HOST, cause="pull", fault=Fault.PULL)
CANCELLED = Verdict(outcome=Outcome.CANCELLED)
UNREADABLE = Verdict(outcome=Outcome.BAD_REPORT, culprit=Culprit.TEST, cause="truncated")

ROWS = [
    ("one attempt is its own verdict", (FAILED,), Outcome.FAILED, Culprit.PRODUCT),
    ("a pass after infra is a pass", (INFRA, PASSED), Outcome.PASSED, Culprit.NONE),
    ("infra until the end stays infra", (INFRA, INFRA), Outcome.INFRA, Culprit.HOST),
    ("a failure after infra is the failure", (INFRA, FAILED), Outcome.FAILED, Culprit.PRODUCT),
    ("a failure before infra is the failure", (FAILED, INFRA), Outcome.FAILED, Culprit.PRODUCT),
    (
        "failed then passed is flaky by the first failure",
        (REFUSED, FAILED, PASSED),
        Outcome.FLAKY,
        Culprit.CONFIG,
    ),
    ("passed then failed is flaky too", (PASSED, FAILED), Outcome.FLAKY, Culprit.PRODUCT),
    (
        "unreadable stays although a later attempt passed",
        (UNREADABLE, PASSED),
        Outcome.BAD_REPORT,
        Culprit.TEST,
    ),
    ("the first failure stands where nothing passed", (FAILED, REFUSED), Outcome.FAILED, Culprit.PRODUCT),
    ("cancelled after infra is cancelled", (INFRA, CANCELLED), Outcome.CANCELLED, Culprit.NONE),
    ("cancelled after a failure is the failure", (FAILED, CANCELLED), Outcome.FAILED, Culprit.PRODUCT),
    ("an attempt that was stopped does not undo a pass", (PASSED, CANCELLED), Outcome.PASSED, Culprit.NONE),
]


@pytest.mark.parametrize(
    ("attempts", "outcome", "culprit"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_combined(attempts: tuple[Verdict, ...], outcome: Outcome, culprit: Culprit) -> None:
    found = combine(attempts)
    assert (found.outcome, found.culprit) == (outcome, culprit)


def test_every_other_attempt_is_a_remark() -> None:
    found = combine([INFRA, INFRA, PASSED])
    assert found.remarks == ("own remark", "attempt 1 of 3: infra: pull", "attempt 2 of 3: infra: pull")
    assert found.fault is None


def test_flaky_names_both_attempts() -> None:
    assert combine([FAILED, PASSED]).cause == "attempt 1: failed: test_a: no; attempt 2 passed"


def test_infra_keeps_its_fault() -> None:
    assert combine([INFRA, INFRA]).fault is Fault.PULL


def test_a_cell_without_an_attempt_has_no_verdict() -> None:
    with pytest.raises(ValueError, match="without an attempt"):
        combine([])


VERDICTS = st.builds(
    Verdict, outcome=st.sampled_from(Outcome), culprit=st.sampled_from(Culprit), cause=st.just("c")
)


@given(st.lists(VERDICTS, min_size=1, max_size=4))
def test_no_retry_makes_a_failure_green(attempts: list[Verdict]) -> None:
    found = combine(attempts)
    not_tested = {Outcome.INFRA, Outcome.CANCELLED, Outcome.PASSED}
    if found.green:
        assert {one.outcome for one in attempts} <= not_tested
    assert len(found.remarks) >= len(attempts) - 1
