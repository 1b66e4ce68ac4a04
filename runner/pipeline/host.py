"""Verbs about this host: what it offers, and what dead runners left on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner import caches, hosts, runtimes

PROJECT = Path(__file__).parents[2]
"""Where the shipped suite, images and scripts lie."""


def leases_of(run: str, runtime: str) -> hosts.Leases:
    """The leases of this host, for a run whose cells this runtime runs."""
    means = hosts.Means(
        runtime=runtime,
        engine=runtimes.engine_address() if runtime == "docker" else "",
        namespace=runtimes.this_owner().namespace,
    )
    return hosts.Leases(hosts.lease_folder(), run=run, means=means)


def sweep(leases: hosts.Leases, note: Callable[[str], None], *, images: bool = False) -> None:
    """Remove what dead runners and own cells left on this host, then free the leases of which it is shown that nothing runs any more."""
    # Both before the look for leftovers, which does not see what an owner that dies now leaves.
    dead = leases.orphans()
    alive = frozenset(each.owner for each in dead if each.owner and _alive(each.owner))
    left = runtimes.sweep(images=images, unremoved=leases.unremoved)
    for line in left.own:
        note(f"removed what a cell of this run left: {line}")
    for line in left.removed:
        note(f"removed what a dead runner left: {line}")
    for line in left.problems:
        note(f"could not remove what was left behind: {line}")
    if not dead:
        return
    asks = any(each.owner is None or each.owner.runtime != "process" for each in dead)
    look = Look(
        alive=alive,
        stuck_runs=left.stuck_runs,
        containers=runtimes.containers() if asks else None,
        engine=runtimes.engine_address(),
        uid=os.geteuid(),
    )
    freed, kept = leases.reclaim(dead, look.why_kept)
    for orphan in freed:
        note(f"freed: {orphan}")
    for line in kept:
        note(f"not freed: {line}")


def _alive(owner: hosts.LeaseOwner) -> bool:
    return runtimes.Owner(owner.pid, str(owner.started), owner.boot_id, owner.namespace).alive()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of the cells whose leases nobody locks any more, after the removal of what dead runners left.

    ``containers`` is None where no engine answers at ``engine``; ``uid`` is who looks, 0 for one who sees all.
    """

    alive: frozenset[hosts.LeaseOwner] = frozenset()
    stuck_runs: frozenset[str] = frozenset()
    containers: runtimes.Containers | None = None
    engine: str
    uid: int

    def why_kept(self, owner: hosts.LeaseOwner | None) -> str:
        """Why something of a lease's cell may still run; "" where nothing can. None: the record is cut."""
        if owner is None:
            return self._why_unknown()
        if owner.run in self.stuck_runs:
            return "what runs of it could not be removed"
        if owner.runtime != "process" and (why := self._why_container(owner)):
            return why
        if owner.runtime == "docker":
            return ""
        if owner in self.alive:
            return "its runner lives, and could not end its cell"
        if self.uid not in {0, owner.uid}:
            return "its processes are another user's and cannot be seen; `clean` as root can"
        return ""

    def _why_container(self, owner: hosts.LeaseOwner) -> str:
        if self.containers is None:
            return f"no engine answers at {self.engine}, and a container of it may run there"
        if owner.engine not in {"", self.engine}:
            return f"its container is on the engine at {owner.engine}; set DOCKER_HOST to that"
        return "a container of it is there" if self.containers.has(owner.run, owner.cell) else ""

    def _why_unknown(self) -> str:
        if self.containers is None:
            return f"no engine answers at {self.engine}, and a container of it may run there"
        if self.stuck_runs or self.containers.cells:
            return "whose it is cannot be told, and cells run"
        return "" if self.uid == 0 else "whose it is cannot be told; `clean` as root frees it"


def caches_folder(cache: Path) -> Path:
    """Where compile caches are kept between cells."""
    return cache / "compiled"


def clean(*, images: bool, compiled: Path | None = None) -> tuple[str, ...]:
    """Remove what dead runners left behind and free their leases; says what was done.

    ``compiled`` is a cache folder whose compile caches go as well.
    """
    done: list[str] = []
    sweep(hosts.Leases(hosts.lease_folder()), done.append, images=images)
    if compiled is not None:
        try:
            freed = caches.clear(caches_folder(compiled))
        except OSError as error:
            done.append(f"compile caches could not be removed: {error}")
        else:
            done += [f"removed compile caches: {freed / 1e6:.1f} MB"] if freed else []
    return tuple(done)


def doctor(environ: Mapping[str, str], cache: Path) -> tuple[str, ...]:
    """What this host offers, what holds it, and what to do about each problem."""
    inventory = hosts.inventory(environ=environ)
    holders = hosts.Leases(hosts.lease_folder()).holders()
    ways = hosts.offer(hosts.live, inventory.devices, **runtimes.engine_offers("docker"))
    problems = hosts.problems(
        inventory, offer=ways, readings=hosts.read_health(inventory.devices), holders=holders
    )
    return (
        *hosts.describe(inventory),
        *runtimes.describe_host(PROJECT, cache),
        *map(str, holders),
        *(f"problem: {line}" for line in problems or ("none",)),
    )
