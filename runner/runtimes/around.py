"""What stands around the cells on this host: leftovers of dead runners, and what an engine offers and has room for."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from runner.errors import UsageError
from runner.model import Fault
from runner.runtimes import disk, labels
from runner.runtimes.clean import CONNECT_S, clean
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.find_engine import named_engine

if TYPE_CHECKING:
    from runner.runtimes.docker_client import Engine

ASK_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One look for leftovers: what was removed, of dead runners and of this one, and what could not be, from ``stuck_runs``."""

    removed: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stuck_runs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """The cells, as run and cell, whose containers an engine still has, whoever owns them; "" is any cell of the run."""

    cells: frozenset[tuple[str, str]]

    def has(self, run: str, cell: str) -> bool:
        """Whether one of that cell is there."""
        return not self.cells.isdisjoint({(run, cell), (run, "")})


def sweep(*, images: bool = False, unremoved: frozenset[str] = frozenset()) -> Swept:
    """Remove what dead runners left: containers where an engine answers, and processes. Never raises for the host.

    ``unremoved`` are handles of cells of this very runner that have ended and could not be removed then.
    """
    silent: tuple[str, ...] = ()
    try:
        found = clean(images=images, unremoved=unremoved)
    except EngineError as error:
        silent = (str(error),)
        found = clean(connect=_none)  # processes go also where an engine hangs
    return Swept(
        removed=tuple(str(each) for each in found if not each.problem and each.id not in unremoved),
        own=tuple(str(each) for each in found if not each.problem and each.id in unremoved),
        problems=silent + tuple(str(each) for each in found if each.problem),
        stuck_runs=frozenset(each.run for each in found if each.problem and each.run),
    )


def _none() -> Engine:
    message = "not asked"
    raise EngineError(message, fault=Fault.DAEMON)


def engine_address() -> str:
    """Where the engine is looked for."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def containers() -> Containers | None:
    """Which containers of this tool are there; None where no engine answers, and so nothing is known of them."""
    from runner.runtimes.docker_client import connect

    with suppress(EngineError), connect(timeout_s=CONNECT_S) as engine:
        marks = [item.get("Labels") or {} for item in engine.containers(labels.RUN)]
        # One that only keeps an image runs nothing on a device.
        return Containers(
            cells=frozenset(
                (each[labels.RUN], each.get(labels.CELL, "")) for each in marks if labels.KEEPS not in each
            )
        )
    return None


class EngineOffers(TypedDict):
    """What an engine says of itself that decides how devices reach a container."""

    runtimes: tuple[str, ...]
    cdi_dirs: tuple[str, ...]


def engine_offers(runtime: str) -> EngineOffers:
    """Names of the engine's runtimes and its CDI folders; nothing for other runtimes or a silent engine."""
    info = _info() if runtime == "docker" else {}
    return {"runtimes": tuple(info.get("Runtimes") or ()), "cdi_dirs": tuple(info.get("CDISpecDirs") or ())}


def _info() -> dict[str, Any]:
    """What an engine says of itself; nothing where none answers."""
    from runner.runtimes.docker_client import connect

    try:
        with connect(timeout_s=ASK_S) as engine:
            return engine.info()
    except EngineError:
        return {}


def describe_host(root: Path, cache: Path) -> tuple[str, ...]:
    """Lines for ``doctor``: what would run cells, and room for images, venvs and models."""
    from runner.runtimes import find

    try:
        lines = [f"runtime: {find('docker', root=root, cache=cache).describe()}"]
    except UsageError as error:
        lines = [f"runtime: {'none' if named_engine(os.environ) else 'local processes'}, because {error}"]
    place = cache
    while not place.exists():
        place = place.parent
    lines += [f"images {store}: {_free(store)}" for store in disk.stores(_info())]
    return (*lines, f"cache {cache}: {_free(place)}")


def _free(place: Path) -> str:
    return f"{shutil.disk_usage(place).free / 1e9:.0f} GB free"
