"""What the command line asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One wish.

    ``failed_in`` is a run folder whose cells that were not green run again, ``settle`` one whose failures are told
    apart by the cells that then run, ``baseline`` one to compare with.
    ``cover`` (0: no sampling), ``rotate`` and ``pins`` choose a sample, ``shard`` (``I/N``) a part of it; ``durations``
    is a file of known durations that several machines share. ``images`` are ``PLATFORM=REF`` texts. ``caches`` keeps
    compile caches between cells.
    """

    matrix: Path
    select: str = ""
    cells: tuple[str, ...] = ()
    failed_in: Path | None = None
    settle: Path | None = None
    baseline: Path | None = None
    cover: int = 0
    rotate: str = ""
    pins: tuple[str, ...] = ()
    shard: str = ""
    durations: Path | None = None
    images: tuple[str, ...] = ()
    runtime: Literal["auto", "docker", "process"] = "auto"
    jobs: int = 1
    repeat: int = 1
    until_fail: bool = False
    caches: bool = True
    out: Path = Path("reports")
    cache: Path = Path(".cache")
    apply_rules: bool = True
    expect_engine: str | None = None
    command: str = ""
    max_cells: int = 100_000
    environ: Mapping[str, str] = field(default_factory=dict)
