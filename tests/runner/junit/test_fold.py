from __future__ import annotations

import random
from array import array

import pytest

from runner.junit.fold import attempts, folded, repeats
from runner.junit.words import CRASHED, ERROR, FAILED, FLAKY, PASSED, SKIPPED, TEARDOWN, XFAILED


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ([FAILED, TEARDOWN], FAILED),
        ([FAILED, PASSED], FLAKY),
        ([ERROR, PASSED], FLAKY),
        ([FAILED, FAILED, PASSED], FLAKY),
        ([PASSED, PASSED, FAILED], FAILED),
        ([FAILED, PASSED, ERROR], ERROR),
        ([PASSED, TEARDOWN], ERROR),
        ([ERROR, ERROR], ERROR),
        ([ERROR, FAILED], FAILED),
        ([FAILED, SKIPPED], FAILED),
        ([FAILED, XFAILED], FAILED),
        ([CRASHED, PASSED], CRASHED),
        ([CRASHED, FAILED, PASSED], CRASHED),
        ([FLAKY, PASSED], FLAKY),
        ([FLAKY, FAILED], FAILED),
        ([PASSED, FLAKY], FLAKY),
        ([PASSED, PASSED], PASSED),
        ([SKIPPED, PASSED], PASSED),
        ([PASSED, SKIPPED], SKIPPED),
        ([XFAILED, XFAILED], XFAILED),
    ],
)
def test_j06_folding(codes: list[int], result: int) -> None:
    assert folded(codes, rerun=False) == result


def test_j06_empty_attempts_of_a_rerun_plugin() -> None:
    assert folded([PASSED, PASSED, PASSED], rerun=True) == FLAKY
    assert folded([SKIPPED, PASSED], rerun=True) == PASSED


def test_no_order_of_results_turns_a_bad_one_into_a_pass() -> None:
    rng = random.Random(8)
    for _ in range(3_000):
        codes = [rng.randrange(8) for _ in range(rng.randint(1, 6))]
        if max(codes) >= FLAKY:
            assert folded(codes, rerun=rng.random() < 0.5) >= FLAKY, codes


def test_j04_teardown_is_no_attempt_of_its_own() -> None:
    assert attempts([FAILED, TEARDOWN], [1, 1]) == 1
    assert attempts([FAILED, TEARDOWN, PASSED], [1, 1, 1]) == 2
    assert attempts([TEARDOWN], [1]) == 1


def test_repeats_are_found_exactly() -> None:
    rng = random.Random(3)
    keys = array("Q", (rng.getrandbits(61) << 3 | PASSED for _ in range(20_000)))
    assert repeats(keys) == []
    keys.append(keys[17] | FAILED)
    keys.append(keys[17])
    keys.append(keys[0])
    assert sorted(repeats(keys)) == [[0, 20_002], [17, 20_000, 20_001]]
