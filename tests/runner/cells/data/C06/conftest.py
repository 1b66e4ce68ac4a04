import os
import signal


def pytest_unconfigure(config: object) -> None:
    # PID 1 ignores its own deadly signals without a handler: run under an init or a shell.
    os.kill(os.getpid(), signal.SIGSEGV)
