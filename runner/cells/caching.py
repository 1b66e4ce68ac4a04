"""Compile caches around one attempt: filled before it starts, merged only where it passed, gone afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from runner.cells.collect import make_readable
from runner.facts import PreparedImage
from runner.model import PlanEntry, Verdict
from runner.records import CacheUse


class CacheLayer(Protocol):
    """A private copy of what earlier cells of the same image, engine and kind of device compiled."""

    use: CacheUse

    def fill(self) -> None:
        """Copy the kept layer into the private folder."""
        ...

    def keep(self) -> None:
        """Merge what the attempt added into the kept layer."""
        ...

    def leave(self, why: str) -> None:
        """Keep nothing of it."""
        ...


class Caching(Protocol):
    """Where compile caches of this host are kept."""

    def layer(
        self,
        entry: PlanEntry,
        image: PreparedImage,
        probe: Mapping[str, object],
        device_ids: tuple[str, ...],
        private: Path,
        seen_at: str,
    ) -> CacheLayer:
        """The layer for an attempt that sees the folder ``private`` at ``seen_at``."""
        ...


def forget(cell: Path) -> None:
    """Remove private copies that attempts of a cell left when their runner was killed."""
    for private in cell.glob("attempt-*/cache"):
        make_readable(private)
        shutil.rmtree(private, ignore_errors=True)


def settled(layer: CacheLayer, private: Path, verdict: Verdict, *, secrets: bool) -> CacheUse:
    """Keep what a passed attempt added; then the private copy is removed. What the cache had to do with the attempt."""
    make_readable(private)
    if not verdict.green:
        layer.leave("not kept: the attempt did not pass")
    elif secrets:
        layer.leave("not kept: the cell had secrets")
    else:
        layer.keep()
    shutil.rmtree(private, ignore_errors=True)
    return layer.use
