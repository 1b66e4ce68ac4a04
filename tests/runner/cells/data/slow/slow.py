"""Three tests that pass, then one that never ends. Runs inside cells."""

import time

import pytest


@pytest.mark.parametrize("number", range(3))
def test_quick(number: int) -> None:
    assert number < 3


def test_stuck() -> None:
    time.sleep(100_000)
