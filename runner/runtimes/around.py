"""What stands around the cells on this host: leftovers of dead runners, and what an engine offers and has room for."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from runner.errors import UsageError
from runner.runtimes import disk
from runner.runtimes.clean import clean
from runner.runtimes.docker_errors import EngineError

ASK_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One look for leftovers. ``stuck_runs`` are run ids of which something could not be removed."""

    removed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    stuck_runs: frozenset[str] = frozenset()
    engine_silent: bool = False

    def may_run(self, run: str) -> bool:
        """Whether something of that dead run may still hold devices; an unknown run is any of them."""
        return run in self.stuck_runs if run else bool(self.stuck_runs)


def sweep(*, images: bool = False) -> Swept:
    """Remove what dead runners left: containers where an engine answers, and processes. Never raises for the host."""
    try:
        found = clean(images=images)
    except EngineError as error:
        return Swept(problems=(str(error),), engine_silent=True)
    return Swept(
        removed=tuple(str(each) for each in found if not each.problem),
        problems=tuple(str(each) for each in found if each.problem),
        stuck_runs=frozenset(each.run for each in found if each.problem and each.run),
    )


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
        lines = [f"runtime: local processes, because {error}"]
    place = cache
    while not place.exists():
        place = place.parent
    lines += [f"images {store}: {_free(store)}" for store in disk.stores(_info())]
    return (*lines, f"cache {cache}: {_free(place)}")


def _free(place: Path) -> str:
    return f"{shutil.disk_usage(place).free / 1e9:.0f} GB free"
