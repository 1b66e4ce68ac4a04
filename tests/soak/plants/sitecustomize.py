"""Plants one bug in a runner, by the name in PLANT: a soak that does not report it is blind.

Python imports a module of this name at its start where the folder is on PYTHONPATH (site, "sitecustomize").
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import runs
from runner.facts import HandOver
from runner.hosts import assign, lease
from runner.interrupt import CancelToken
from runner.pipeline import host
from runner.records import Run
from runner.runtimes import clean, docker_cell


def put(place: object, name: str, value: object) -> None:
    """Put something in the place of what is there."""
    assert hasattr(place, name)
    setattr(place, name, value)


def leaves_containers() -> None:
    put(docker_cell, "remove", lambda *_, **__: "")


def removes_what_is_not_its_own() -> None:
    # The living owner is the soak that started this runner, and nobody else on this host: their cells are real.
    put(clean, "_abandoned", lambda owner, _proc: owner is not None and owner.pid == os.getppid())


def leaves_orphans() -> None:
    put(clean, "_abandoned", lambda _owner, _proc: False)
    # And takes no care of what is left: otherwise the next runner waits for the cores of the containers that it left.
    put(host.Look, "why_kept", lambda _self, _owner: "")


def keeps_leases() -> None:
    put(lease.Grip, "clear", lambda _self: None)


def gives_a_core_twice() -> None:
    from runner.hosts.handover import hand_over as right

    def always_the_first(*args: Any, **options: Any) -> HandOver:
        return replace(right(*args, **options), cpus=(0,))

    put(assign, "hand_over", always_the_first)


def loses_a_cell() -> None:
    write = runs.Folder.write_run

    def without_the_last(self: runs.Folder, run: Run) -> Run:
        return write(self, replace(run, records=run.records[:-1]))

    put(runs.Folder, "write_run", without_the_last)


def repeats_finished_cells() -> None:
    load = runs.load

    def forgetful(path: Path) -> Run:
        return replace(load(path), records=())

    put(runs, "load", forgetful)


def does_not_hear_signals() -> None:
    put(CancelToken, "cancel", lambda _self, _number: None)


globals().get(os.environ.get("PLANT", ""), lambda: None)()
