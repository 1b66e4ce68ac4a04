import os
import signal
from collections.abc import Iterator

import pytest

from runner.interrupt import SIGNALS, CancelToken, listening


class Hands:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_first_signal_is_the_one_that_counts_and_the_second_is_urgent() -> None:
    hands = Hands()
    token = CancelToken(hands)
    assert (token.cancelled(), token.urgent(), token.name()) == (False, False, "")
    token.cancel(signal.SIGTERM)
    assert (token.cancelled(), token.urgent(), token.name()) == (True, False, "SIGTERM")
    hands.now_s += 1.0
    token.cancel(signal.SIGINT)
    assert (token.urgent(), token.name()) == (True, "SIGTERM")


def test_an_echo_of_the_first_signal_is_no_second_request() -> None:
    hands = Hands()
    token = CancelToken(hands)
    token.cancel(signal.SIGTERM)
    hands.now_s += 0.9
    token.cancel(signal.SIGTERM)
    assert not token.urgent()


@pytest.fixture
def handlers() -> Iterator[list[object]]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield list(before.values())
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_reach_the_token_and_the_handlers_of_before_come_back(handlers: list[object]) -> None:
    with listening(CancelToken()):
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    token = CancelToken()
    with listening(token):
        os.kill(os.getpid(), signal.SIGHUP)
        assert token.name() == "SIGHUP"


def test_a_stopped_run_keeps_its_exit_code_whatever_signal_comes_late(handlers: list[object]) -> None:
    token = CancelToken()
    with listening(token):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert token.name() == "SIGTERM"
