"""Docker tests: run where an engine answers, left out with a word where none does, failing where one is required.

``REQUIRE_DOCKER=1`` or ``-m docker`` asks for them: then a missing engine is an error and not a gap.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings

from runner.errors import UsageError
from runner.facts import PreparedImage, Runtime
from runner.runtimes import find

# A busy machine is no failure: no test here asserts a time, and hypothesis must not either.
settings.register_profile("no-clock", deadline=None)
settings.load_profile("no-clock")

PROJECT = Path(__file__).resolve().parents[2]
CACHE = PROJECT / ".cache" / "runtimes"
CHEAP = "tests/runner/runtimes/data/cheap"
LEFT_OUT = pytest.StashKey[int]()


@lru_cache(maxsize=1)
def engine_answers() -> bool:
    try:
        find("docker", root=PROJECT, cache=CACHE)
    except UsageError:
        return False
    return True


def docker_wanted(config: pytest.Config) -> bool:
    expression = str(config.getoption("markexpr"))
    named = "docker" in expression and "not docker" not in expression
    return named or os.environ.get("REQUIRE_DOCKER", "") not in {"", "0"}


@pytest.hookimpl(trylast=True)  # after -m and -k have left out what nobody asked for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanting = [item for item in items if item.get_closest_marker("docker")]
    if not wanting or docker_wanted(config) or engine_answers():
        return
    config.stash[LEFT_OUT] = len(wanting)
    items[:] = [item for item in items if item not in wanting]
    config.hook.pytest_deselected(items=wanting)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        text = f"{left_out} docker tests were left out: no Docker engine answers (start one: make docker)"
        terminalreporter.write_line(text, yellow=True)


@pytest.fixture(scope="session")
def docker_runtime() -> Runtime:
    """The docker runtime; a test that needs it fails where no engine answers."""
    try:
        return find("docker", root=PROJECT, cache=CACHE)
    except UsageError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def cheap_image(docker_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> PreparedImage:
    """An image of 75 MB with a POSIX shell and perl; made once per host."""
    return docker_runtime.image(CHEAP, tmp_path_factory.mktemp("image") / "build.log")
