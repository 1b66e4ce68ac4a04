"""Verbs about this host: what it offers, and what dead runners left on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from runner import caches, hosts, runtimes

PROJECT = Path(__file__).parents[2]
"""Where the shipped suite, images and scripts lie."""


def sweep(leases: hosts.Leases, note: Callable[[str], None], *, images: bool = False) -> None:
    """Remove what dead runners left on this host, then free the leases of those of whom nothing runs any more."""
    dead = (
        leases.orphans()
    )  # before the look for leftovers, which does not see what an owner that dies now leaves
    left = runtimes.sweep(images=images)
    for line in left.removed:
        note(f"removed what a dead runner left: {line}")
    for line in left.problems:
        note(f"could not remove what a dead runner left: {line}")
    for orphan in leases.reclaim(dead, lambda owner: left.may_run(owner.run if owner else "")):
        note(f"freed: {orphan}")


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
