"""MODE=exit0|exit1|abort|segv pytest -v --junitxml=report.xml test_dies.py"""

import os
import signal


def test_a() -> None:
    assert True


def test_b() -> None:
    mode = os.environ.get("MODE", "exit0")
    if mode == "exit0":
        os._exit(0)
    if mode == "exit1":
        os._exit(1)
    if mode == "abort":
        os.abort()
    if mode == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    assert mode == "none"


def test_c() -> None:
    assert True
