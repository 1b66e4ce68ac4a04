"""Verbs about this host: what it offers, and what dead runners left on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from runner import hosts, runtimes

PROJECT = Path(__file__).parents[2]
"""Where the shipped suite, images and scripts lie."""


def sweep(leases: hosts.Leases, note: Callable[[str], None], *, images: bool = False) -> None:
    """Remove what dead runners left on this host, then free the leases of those of whom nothing runs any more."""
    left = runtimes.sweep(images=images)
    for line in left.removed:
        note(f"removed what a dead runner left: {line}")
    for line in left.problems:
        note(f"could not remove what a dead runner left: {line}")
    for orphan in leases.reclaim(lambda owner: left.may_run(owner.run if owner else "")):
        note(f"freed: {orphan}")


def clean(*, images: bool) -> tuple[str, ...]:
    """Remove what dead runners left behind and free their leases; says what was done."""
    done: list[str] = []
    sweep(hosts.Leases(hosts.lease_folder()), done.append, images=images)
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
