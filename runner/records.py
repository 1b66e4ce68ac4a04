"""The vocabulary of what is kept: attempts, cells, preparations and whole runs, as a run folder holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runner.facts import CellExit, Evidence, PreparedImage, Tally, TestCase
from runner.machine import Given, Inventory
from runner.model import Cell, Culprit, Plan, Verdict

CAUSE_CHARS = 400
"""Characters of a verdict's cause, at most: one line, all of which the gate searches for a waiver's pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What an attempt had from compile caches of earlier cells, and what it gave back.

    ``key`` names the kept layer (image, engine, kind of device) and ``layer`` the content that the attempt started with,
    "" where that was nothing. ``files_out`` and ``bytes_out`` are what it added or changed; only where ``kept`` is True
    others will see them, and otherwise ``note`` says why not. ``seconds`` is what copying and merging took.
    """

    key: str
    layer: str = ""
    files_in: int = 0
    bytes_in: int = 0
    files_out: int = 0
    bytes_out: int = 0
    kept: bool = False
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a cell. ``files`` are paths relative to the cell's folder, with their sha256.

    ``phases`` are seconds by name in the order of a cell's life: prepare (devices and files), start (to the first sign
    of life), then what the evidence reports. ``given`` is None where nothing was leased,
    ``cache`` where compile caches were off.
    """

    number: int
    verdict: Verdict
    exit: CellExit | None = None
    started_at: str = ""
    tally: Tally | None = None
    evidence: Evidence | None = None
    failing: tuple[TestCase, ...] = ()
    device_ids: tuple[str, ...] = ()
    given: Given | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    cause_line: int = 0
    cache: CacheUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
    """All that is known of one planned cell: its verdict over all attempts, and every attempt."""

    cell: Cell
    verdict: Verdict
    attempts: tuple[Attempt, ...] = ()
    refused: bool = False
    duration_s: float = 0.0

    @property
    def ran_s(self) -> float:
        """Seconds that its attempts ran: what it took, without waiting for devices that others held."""
        return sum(attempt.exit.duration_s for attempt in self.attempts if attempt.exit)

    @property
    def waited_s(self) -> float:
        """Seconds before its containers started; next to nothing where its devices were free."""
        return sum(attempt.phases.get("prepare", 0.0) for attempt in self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedModel:
    """A model ready to load. ``path`` is a host path; ``digest`` is over the content of its files."""

    name: str
    path: str
    digest: str
    source: str
    revision: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFailure:
    """A preparation that failed: its cells get this verdict without a container."""

    verdict: Verdict
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Done once per run before any cell's clock: keyed by image reference, by ``image reference|model``, by image."""

    images: Mapping[str, PreparedImage] = field(default_factory=dict)
    models: Mapping[str, PreparedModel] = field(default_factory=dict)
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: Mapping[str, PrepareFailure] = field(default_factory=dict)
    suites: Mapping[str, str] = field(default_factory=dict)


class NoticeKind(StrEnum):
    """What a notice is about."""

    SUPPORT = "support"
    AGREEMENT = "agreement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that a run says beyond its cells. A red one counts as a red cell does, in exit code and gate.

    ``cells`` are the cells it is about; none where it is about the run.
    """

    kind: NoticeKind
    text: str
    red: bool = False
    culprit: Culprit = Culprit.NONE
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a plan. ``records`` in plan order; a planned cell without a record is missing.

    ``root`` is the folder that relative paths of the matrix file start from; a resumed run needs it again.
    ``images`` has, by platform, the image that was asked for in place of the file's. ``jobs``, ``repeat`` and
    ``until_fail`` are as the run was begun with, and so is ``caches``, whether compile caches were kept between cells:
    a resumed run is the same run. ``baseline`` is the folder it is compared with.
    """

    run_id: str
    plan: Plan
    runtime: str
    runtime_detail: str
    inventory: Inventory
    prepared: Prepared = Prepared()
    records: tuple[CellRecord, ...] = ()
    notices: tuple[Notice, ...] = ()
    started_at: str = ""
    ended_at: str = ""
    finished: bool = False
    interrupted: str = ""
    command: str = ""
    root: str = ""
    expect_engine: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1
    repeat: int = 1
    until_fail: bool = False
    caches: bool = False
    baseline: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)

    def record(self, cell: Cell) -> CellRecord | None:
        """The record of a planned cell, or None if it is missing."""
        return next((record for record in self.records if record.cell == cell), None)

    def missing(self) -> tuple[Cell, ...]:
        """Planned cells without a record."""
        known = {record.cell for record in self.records}
        return tuple(entry.cell for entry in self.plan.planned() if entry.cell not in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of one cell in one run, as history keeps it.

    ``result`` is P passed, F failed, f failed and passed within the run, I no answer (host fault or stop), - no result.
    ``definition`` names the tests it ran and ``model`` the model; ``candidate`` is what was qualified (image digest).
    """

    run_id: str
    result: str
    outcome: str = ""
    culprit: str = ""
    cause: str = ""
    started_at: str = ""
    definition: str = ""
    model: str = ""
    candidate: str = ""
    engine: str = ""
    host: str = ""
    seconds: float = 0.0
