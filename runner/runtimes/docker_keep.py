"""Keeps a prepared image: a container of it that sleeps for as long as the run lasts.

``docker image prune -a``, ``docker system prune -a`` and this tool's own ``clean --images`` spare an image that a running
container uses. They may still take a second name from it (moby, ``daemon/images/image_delete.go``: of several references
one may go although a container uses the image), so cells of a kept image start from its id and not from its name.

The container carries the labels of the run and of its owner: what a dead runner leaves goes the way of its cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runner.runtimes import labels
from runner.runtimes.docker_cell import SYSTEM, Clock, create, remove
from runner.runtimes.docker_client import Engine
from runner.runtimes.docker_errors import EngineError

_PAUSES_S: Final = (1.0, 0.0)


def hold(
    engine: Engine, image_id: str, marks: Mapping[str, str], user: str = "", clock: Clock = SYSTEM
) -> str:
    """Make and start the container; its id. Raises :class:`EngineError`, with status 404 where the image is gone."""
    held = create(engine, config(image_id, marks, user), name(image_id, marks.get(labels.RUN, "")), clock)
    try:
        engine.start(held)
    except EngineError as error:
        if error.status is None:
            remove(engine, held, clock, tries=1)
            raise
        # An image without sleep: the container stays as it was made, and "image prune" spares what it uses all the same.
    return held


def config(image_id: str, marks: Mapping[str, str], user: str) -> dict[str, Any]:
    """The body of ``POST /containers/create``: a process that does nothing, may do nothing and holds no device."""
    return {
        "Image": image_id,
        "Cmd": ["sleep", "infinity"],
        "Entrypoint": [],
        "User": user,
        "Env": ["NVIDIA_VISIBLE_DEVICES=void"],  # of images that would ask an NVIDIA runtime for every device
        "Labels": {labels.KEEPS: image_id, **marks},
        "Healthcheck": {"Test": ["NONE"]},
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": 16,
            "Memory": 64 << 20,
            "LogConfig": {"Type": "none"},
        },
    }


def name(image_id: str, run: str) -> str:
    """What the container is called: it says to a person who finds it what it is for."""
    return f"vllm-matrix-{run}-keeps-image-{image_id.removeprefix('sha256:')[:12]}"


def let_go(engine: Engine, held: str, clock: Clock = SYSTEM) -> str:
    """Remove the container. "" when it is gone, otherwise one line; a hung engine is asked twice and no more."""
    problem = ""
    for pause_s in _PAUSES_S:
        problem = remove(engine, held, clock, tries=1)
        if not problem:
            break
        clock.sleep(pause_s)
    return problem
