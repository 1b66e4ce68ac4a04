"""What runs a cell: docker, local processes where no engine answers, and a scripted fake for tests.

``find`` gives the runtime; its shape is :class:`runner.facts.Runtime`. Nothing here knows tests, reports or verdicts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from runner.errors import UsageError
from runner.facts import Runtime
from runner.runtimes.around import (
    Containers,
    Swept,
    containers,
    describe_host,
    engine_address,
    engine_offers,
    sweep,
)
from runner.runtimes.fake import FakeCell, FakeClock, FakeRuntime
from runner.runtimes.find_engine import named_engine
from runner.runtimes.labels import BOOT_ID, CELL, OWNER_PID, OWNER_START, RUN, Owner, this_owner
from runner.runtimes.stoppable import Stoppable

__all__ = [
    "BOOT_ID",
    "CELL",
    "OWNER_PID",
    "OWNER_START",
    "RUN",
    "Containers",
    "FakeCell",
    "FakeClock",
    "FakeRuntime",
    "Owner",
    "Stoppable",
    "Swept",
    "containers",
    "describe_host",
    "engine_address",
    "engine_offers",
    "find",
    "sweep",
    "this_owner",
]

Kind = Literal["auto", "docker", "process"]


def find(kind: Kind, *, root: Path, cache: Path) -> Runtime:
    """The runtime of that kind; ``auto`` takes docker where an engine answers within 3 s, else processes.

    ``root`` is the project's folder, against which image folders are resolved; ``cache`` keeps venvs, locks and
    build contexts. Raises :class:`UsageError` for ``docker`` where no engine answers, and for ``auto`` too where
    somebody named an engine (:func:`named_engine`): processes in its stead would be no answer to that.
    """
    from runner.runtimes.process import ProcessRuntime

    if kind == "process":
        return ProcessRuntime(root=root, cache=cache)
    from runner.runtimes.docker import find_docker
    from runner.runtimes.docker_errors import EngineError

    try:
        return find_docker(root=root, cache=cache)
    except EngineError as error:
        named = named_engine(os.environ)
        if kind == "auto" and not named:
            return ProcessRuntime(root=root, cache=cache)
        do = f"{named}, or" if named else "start one (as root: make docker), set DOCKER_HOST, or"
        message = f"no Docker engine answers ({error}): {do} use --runtime process"
        raise UsageError(message) from error
