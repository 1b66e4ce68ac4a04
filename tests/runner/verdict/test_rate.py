import pytest

from runner.model import Culprit, Outcome, Verdict
from runner.verdict import combine
from runner.verdict.rate import rate, wilson

GREEN = Verdict(outcome=Outcome.PASSED)
RED = Verdict(outcome=Outcome.FAILED, culprit=Culprit.PRODUCT, cause="a test failed")
HOST = Verdict(outcome=Outcome.INFRA, culprit=Culprit.HOST, cause="daemon")


# Brown, Cai and DasGupta (Statistical Science 16, 2001) define the interval; these are its values to four digits.
@pytest.mark.parametrize(
    ("passed", "tries", "low", "high"),
    [(10, 10, 0.7225, 1.0), (0, 10, 0.0, 0.2775), (9, 10, 0.5958, 0.9821), (50, 100, 0.4038, 0.5962), (1, 1, 0.2065, 1.0)],
)  # fmt: skip
def test_the_interval_of_a_share(passed: int, tries: int, low: float, high: float) -> None:
    assert wilson(passed, tries) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("passed", "tries"), [(0, 0), (2, 1), (-1, 3)])
def test_what_is_no_share_is_refused(passed: int, tries: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(passed, tries)


def test_the_rate_for_a_person() -> None:
    assert rate(9, 10) == "passed 9 of 10 runs: 90 % (95 % interval 59.6 to 98.2 %)"


def test_a_repeated_cell_says_its_rate_and_host_faults_do_not_count() -> None:
    assert combine([GREEN, HOST, RED, GREEN]).remarks[0].startswith("passed 2 of 3 runs: 66.67 %")
    assert combine([GREEN] * 3).remarks[0] == "passed 3 of 3 runs: 100 % (95 % interval 43.9 to 100.0 %)"


def test_a_retry_after_a_host_fault_has_no_rate() -> None:
    assert combine([HOST, GREEN]).remarks == ("attempt 1 of 2: infra: daemon",)
