"""How long cells took on this host: one small file in the cache, for order, cost and shards. Losing it costs a guess."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runner import cost, hosts
from runner.errors import UsageError
from runner.model import Outcome, PlanEntry
from runner.records import Run
from runner.vendors import PLATFORMS

GUESS_S: Mapping[str, float] = dict.fromkeys(PLATFORMS, 60.0)
"""Seconds of a cell that never ran here, by platform: measured 40 to 115 s on CPUs, 39 to 49 s on an H200."""

MOST = 20_000
"""Durations that the file keeps, the latest."""
_TELLING = {Outcome.PASSED, Outcome.FAILED, Outcome.FLAKY, Outcome.FELL_BACK}
"""Ends of cells that ran to the end of their tests; a crash says nothing of how long a cell takes."""


def key(entry: PlanEntry) -> str:
    """What a duration belongs to: the cell (its id names the platform) and the suite that it runs."""
    return f"{entry.cell.id} {entry.settings.suite.path}"


def stored_at(cache: Path) -> Path:
    """The file of this host."""
    return cache / "durations.json"


def load(path: Path, *, needed: bool = False) -> dict[str, float]:
    """Known seconds by :func:`key`; empty where the file is not there, or is none.

    Raises:
        UsageError: with ``needed``, a file that cannot be read.

    """
    if needed and path.exists() and not path.is_file():  # a FIFO or a device would be read for ever
        msg = f"--durations {path}: not a plain file"
        raise UsageError(msg)
    try:
        found = json.loads(path.read_bytes())["seconds"]
        return {str(name): float(value) for name, value in found.items() if _sound(value)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if needed:
            why = error.strerror if isinstance(error, OSError) else "not a file of durations"
            msg = f"--durations {path}: {why}"
            raise UsageError(msg) from error
        return {}


def _sound(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def update(cache: Path, run: Run) -> None:
    """Remember what this run showed. A cache that cannot be written is no reason to fail a run."""
    entries = {entry.cell: entry for entry in run.plan.planned()}
    found = {}
    for record in run.records:
        seconds = [
            attempt.exit.duration_s
            for attempt in record.attempts
            if attempt.exit is not None and attempt.verdict.outcome in _TELLING
        ]
        if seconds and record.cell in entries:
            found[key(entries[record.cell])] = round(seconds[-1], 3)
    path = stored_at(cache)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        kept = {name: value for name, value in load(path).items() if name not in found} | found
        new.write_text(json.dumps({"seconds": dict(list(kept.items())[-MOST:])}, indent=1) + "\n")
        new.replace(path)


def by_cell(entries: Iterable[PlanEntry], known: Mapping[str, float]) -> dict[str, float]:
    """Known seconds by cell id; a refused cell takes none."""
    found = {entry.cell.id: known[key(entry)] for entry in entries if key(entry) in known}
    return found | {entry.cell.id: 0.0 for entry in entries if entry.refused is not None}


def start_order(
    entries: Sequence[PlanEntry], known: Mapping[str, float], host: hosts.Assigner
) -> list[PlanEntry]:
    """The order in which cells are offered to the scheduler. Refused cells, which start nothing, come first.

    Plan order where nothing is known, else the one of a few good orders that ends first on this host.
    """
    if not any(key(entry) in known for entry in entries):
        return list(entries)
    by_id = {entry.cell.id: entry for entry in entries}
    costs = cell_costs([entry for entry in entries if entry.refused is None], known, host)
    ordered = cost.best_order(costs, host.capacity(), host.jobs)
    return [entry for entry in entries if entry.refused is not None] + [by_id[each.key] for each in ordered]


def cell_costs(
    entries: Sequence[PlanEntry], known: Mapping[str, float], host: hosts.Assigner
) -> list[cost.CellCost]:
    """What each cell takes on this host, known or guessed."""
    seconds = by_cell(entries, known)
    return [
        cost.cell_cost(entry.cell.id, entry.cell.get("platform"), host.needs(entry), seconds, GUESS_S)
        for entry in entries
    ]
