"""A bug is planted in the runner, and one seed of the soak says so: what the soak claims to look at, it sees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.faults import NOTHING, Fault
from tests.soak.private_engine import PrivateEngine, engine_of_host
from tests.soak.soak import one_seed

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
PLANTS = Path(__file__).parents[2] / "soak" / "plants"

TERM = Fault("SIGTERM", "running", 0.5)
KILL = Fault("kill runner", "running", 1.0)
BUGS = {
    "leaves_containers": (NOTHING, "left by a runner that ended by itself"),
    "removes_what_is_not_its_own": (NOTHING, "foreign container of a living owner is gone"),
    "leaves_orphans": (KILL, "orphan: container "),
    "keeps_leases": (NOTHING, "still leased by a runner that ended by itself: core-"),
    "gives_a_core_twice": (NOTHING, "at one time"),
    "loses_a_cell": (NOTHING, "not every planned cell has a record"),
    "repeats_finished_cells": (Fault("kill runner", "finishing", 0.0), "a finished cell was run again"),
    "does_not_hear_signals": (TERM, "exit 0 after SIGTERM in running"),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivateEngine]:
    with engine_of_host() as found:
        yield found


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen(
    name: str,
    docker_runtime: object,
    engine: PrivateEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault, said = BUGS[name]
    monkeypatch.setenv("PLANT", name)
    environ = PrivateEngine.environ

    def planted(self: PrivateEngine, project: Path) -> dict[str, str]:
        return {**environ(self, project), "PYTHONPATH": f"{PLANTS}{os.pathsep}{project}"}

    monkeypatch.setattr(PrivateEngine, "environ", planted)
    tmp_path.chmod(0o755)
    seen = one_seed(7, tmp_path, engine, faults=(fault,))
    problems = str(seen["problems"])
    assert said in problems, (tmp_path / "runners.log").read_text()
