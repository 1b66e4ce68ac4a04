"""The vocabulary of the program: frozen values that cross doors between rooms, and the enums of section "Outcomes".

Nothing here does I/O or imports a room. Quantities carry their unit in the name. Every type can be written to
JSON and read back by :mod:`runner.codec`, so a run folder holds exactly these shapes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Scalar = str | int | float | bool | None

BUILT_IN_AXES = ("platform", "dtype", "tp", "quantization")
"""Axes every matrix has, in the order in which a cell id names them."""


class Status(StrEnum):
    """What the plan says of a cell of the product."""

    PLANNED = "planned"
    EXCLUDED = "excluded"
    NOT_RUNNABLE = "not_runnable"
    NOT_SELECTED = "not_selected"


class Outcome(StrEnum):
    """What happened to a planned cell: the only vocabulary for results."""

    PASSED = "passed"
    FAILED = "failed"
    FELL_BACK = "fell_back"
    UNPROVEN = "unproven"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    HUNG = "hung"
    TIMED_OUT = "timed_out"
    NO_REPORT = "no_report"
    BAD_REPORT = "bad_report"
    NO_TESTS = "no_tests"
    SKIPPED = "skipped"
    INFRA = "infra"
    FLAKY = "flaky"
    CANCELLED = "cancelled"


class Culprit(StrEnum):
    """Whose fault an outcome is."""

    NONE = "none"
    PRODUCT = "product"
    CONFIG = "config"
    HOST = "host"
    IMAGE = "image"
    TEST = "test"
    UNKNOWN = "unknown"


class Fault(StrEnum):
    """Which part of a host failed; decides between exit codes 12 and 75 and what a retry may do."""

    PULL = "pull"
    NETWORK = "network"
    DEVICE = "device"
    DISK = "disk"
    DAEMON = "daemon"
    BUILD = "build"


class Stop(StrEnum):
    """Why the runner itself ended a cell."""

    TIMED_OUT = "timed_out"
    HUNG = "hung"
    CANCELLED = "cancelled"


class Proof(StrEnum):
    """What a suite promises: evidence of the engine that ran, or only its tests."""

    ENGINE = "engine"
    TESTS = "tests"


def _slug_part(text: str) -> str:
    return re.sub(r"[^a-z0-9_.]+", "-", text.lower()).strip("-.")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value per axis. Identity is the axis values alone, in canonical order (built-in axes, then by name)."""

    axes: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, axes: Mapping[str, str]) -> Cell:
        """Make a cell from axis values in any order."""
        first = [(name, axes[name]) for name in BUILT_IN_AXES if name in axes]
        rest = sorted((name, value) for name, value in axes.items() if name not in BUILT_IN_AXES)
        return cls(tuple(first + rest))

    @property
    def id(self) -> str:
        """The text by which users, agents and files name this cell."""
        return ",".join(f"{name}={value}" for name, value in self.axes)

    @property
    def slug(self) -> str:
        """File-safe, unique name: readable part (at most 60 characters) and eight hex digits of the id's hash."""
        words = [("tp" + value) if name == "tp" else value for name, value in self.axes]
        readable = "-".join(filter(None, map(_slug_part, words)))[:60].strip("-.")
        return f"{readable}-{hashlib.blake2b(self.id.encode(), digest_size=4).hexdigest()}"

    def get(self, axis: str, default: str = "") -> str:
        """The value of one axis."""
        return dict(self.axes).get(axis, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one cell, in seconds and bytes. ``phase_s``: of single phases; ``prepare_s``: of each image, probe, model."""

    prepare_s: float = 3600.0
    start_s: float = 600.0
    idle_s: float = 300.0
    total_s: float = 3600.0
    stop_grace_s: float = 10.0
    phase_s: Mapping[str, float] = field(default_factory=dict)
    memory_bytes: int | None = None
    shm_bytes: int = 1 << 30
    pids: int = 4096
    log_bytes: int = 50 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the evidence of a cell must say. ``None``: not asked."""

    moe_method: str | None = None
    linear_scheme: str | None = None
    expert_weight_dtype: str | None = None
    moe_backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Where a model comes from: a recipe run in the image, or a hub name (an explicit choice)."""

    name: str
    recipe: str | None = None
    hub: str | None = None
    revision: str | None = None
    fault: str | None = None
    traits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of a cell: a folder (or upstream node ids), or a plain command that writes the report itself."""

    path: str = "tests/moe"
    proof: Proof = Proof.ENGINE
    tests: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A condition on host facts (``expression``), or never (``expression`` is None); ``reason`` is shown."""

    expression: str | None
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFolder:
    """A path of the host that every cell and job of a platform sees, read-only, at ``target``."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings:
    """Everything the matrix file says about one cell, resolved.

    Where the engine lies on the host and not in the image: ``mounts`` show it to the cell, ``python`` is the
    interpreter inside the cell, and ``engine_folders`` are the host folders whose content is hashed and recorded.
    ``secrets`` are names of variables that reach the cell from the runner's environment and nowhere else.
    """

    image: str
    suite: Suite
    limits: Limits
    devices: int
    model: ModelRef | None = None
    extra_models: tuple[ModelRef, ...] = ()
    engine_args: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    expect: Expectation = Expectation()
    requires: tuple[Requirement, ...] = ()
    mounts: tuple[HostFolder, ...] = ()
    python: str = ""
    engine_folders: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a cell is left out or refused, and which line says so (``matrix.yaml:41``)."""

    text: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A cell of the product as the file alone decides it: excluded or not, refused by a rule or not."""

    cell: Cell
    settings: CellSettings
    excluded: tuple[Reason, ...] = ()
    refused: Reason | None = None
    included_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A checked matrix file, expanded. ``hash`` covers cells and settings, no host fact; ``places`` is where they stand."""

    path: str
    hash: str
    axes: Mapping[str, tuple[str, ...]]
    cells: tuple[MatrixCell, ...]
    infra_retries: int = 1
    remarks: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """One cell of the product with its status. A refused cell is planned and red without a container."""

    cell: Cell
    status: Status
    settings: CellSettings
    reasons: tuple[Reason, ...] = ()
    refused: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The product, entry by entry. ``len(entries)`` is the product; the number of planned cells is the plan's.

    ``certificate`` says, where cells were sampled, what the sample covers and what no cell can cover, a line each.
    """

    matrix: str
    matrix_hash: str
    axes: Mapping[str, tuple[str, ...]]
    entries: tuple[PlanEntry, ...]
    infra_retries: int = 1
    selection: str = ""
    remarks: tuple[str, ...] = ()
    certificate: tuple[str, ...] = ()

    def planned(self) -> tuple[PlanEntry, ...]:
        """The cells a run must account for, in plan order."""
        return tuple(entry for entry in self.entries if entry.status is Status.PLANNED)

    def totals(self) -> dict[str, int]:
        """Cells by status; the values add up to the product."""
        counts = {status.value: 0 for status in Status}
        for entry in self.entries:
            counts[entry.status.value] += 1
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a cell's end means. ``fault`` is set for host faults only."""

    outcome: Outcome
    culprit: Culprit = Culprit.NONE
    cause: str = ""
    fault: Fault | None = None
    remarks: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        """Whether the cell counts as a pass."""
        return self.outcome is Outcome.PASSED
