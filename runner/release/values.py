"""What a gate is asked and what it answers: policy, waivers, and the decision with every reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from runner.model import Cell, Outcome, Proof

WAIVABLE = (
    Outcome.FAILED,
    Outcome.FELL_BACK,
    Outcome.REFUSED,
    Outcome.UNSUPPORTED,
    Outcome.CRASHED,
    Outcome.OUT_OF_MEMORY,
    Outcome.HUNG,
    Outcome.TIMED_OUT,
    Outcome.FLAKY,
)
"""Outcomes that say something of the product. The others (no report, no tests, all skipped, unproven, infra, ...) say
that nothing is known, and nobody can sign off on that."""

ANY_ENGINE = "any"
"""As ``Policy.engine_version``: any version, as long as all cells report the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A signed-off expectation that some cells do not pass. ``expires`` is the last day on which it holds.

    ``cause`` is a regular expression that the cause of the outcome must contain; ``source`` is file and line.
    """

    scope: str
    outcomes: tuple[Outcome, ...]
    cause: str
    owner: str
    bug: str
    expires: date
    reason: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """At least ``passed`` cells with this axis value must have passed; waived ones do not count."""

    axis: str
    value: str
    passed: int
    source: str = ""


class Severity(StrEnum):
    """What a finding about a waiver does."""

    REFUSE = "refuse"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What must be known of a run before a release is qualified by it. The defaults are the strict ones.

    ``blocking`` is an expression over axes (empty: every cell of the product). ``engine_version`` None asks the run to
    have been told its candidate (``--expect-engine``). ``images`` are digests by platform; ``matrix_hash`` is the hash that the
    plan must have (empty: any), so that the cells and settings of the run are those that were agreed on, and ``suites`` are
    hashes of the tests' content by path. An expired waiver always refuses; what one that matches no cell, or one whose cells
    all pass, does is said here.
    """

    source: str
    digest: str = ""
    blocking: str = ""
    blocking_source: str = ""
    matrix_hash: str = ""
    coverage: tuple[Minimum, ...] = ()
    runtimes: tuple[str, ...] = ("docker",)
    proof: Proof = Proof.ENGINE
    engine_version: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    suites: Mapping[str, str] = field(default_factory=dict)
    max_age_days: int = 30
    max_waiver_days: int = 180
    unmatched_waiver: Severity = Severity.REFUSE
    passing_waiver: Severity = Severity.REPORT


class Because(StrEnum):
    """Kinds of reasons for red, in the order in which they are shown."""

    FOLDER = "folder"
    UNFINISHED = "unfinished"
    SCOPE = "scope"
    MATRIX = "matrix"
    NOTHING = "nothing"
    ENGINE = "engine"
    IMAGE = "image"
    MODEL = "model"
    SUITE = "suite"
    RUNTIME = "runtime"
    AGE = "age"
    MISSING = "missing"
    NOT_RUN = "not_run"
    NOT_PASSED = "not_passed"
    UNPROVEN = "unproven"
    NOTICE = "notice"
    COVERAGE = "coverage"
    WAIVER = "waiver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A cell and what is to be said of it."""

    cell: Cell
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason for red: what is wrong, with the details and the cells it is about, and what to do."""

    kind: Because
    text: str
    details: tuple[str, ...] = ()
    cells: tuple[Seen, ...] = ()
    fix: str = ""


class WaiverState(StrEnum):
    """What became of a waiver in this run."""

    USED = "used"
    EXPIRED = "expired"
    TOO_LONG = "too_long"
    UNMATCHED = "unmatched"
    PASSING = "passing"
    OTHER = "other"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverReport:
    """One thing to say of a waiver, with the cells it is about."""

    waiver: Waiver
    state: WaiverState
    text: str
    cells: tuple[Cell, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waived:
    """A cell that ran, did not pass, and is waived."""

    cell: Cell
    outcome: Outcome
    cause: str
    waiver: Waiver


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """How many cells of an axis value passed, and how many the policy wants."""

    axis: str
    value: str
    passed: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a run qualifies, and why not.

    ``ledger`` counts blocking cells by standing; ``blocking`` is the sum of all but ``excluded``. ``also_red`` are
    cells outside the blocking ones that did not pass: shown, not decisive. ``passed`` are all cells that passed with
    proof, blocking or not; ``suites`` are the content hashes of the suites that they ran, by path.
    """

    policy: str
    run_id: str
    decided_on: date
    reasons: tuple[Refusal, ...]
    ledger: Mapping[str, int] = field(default_factory=dict)
    passed: tuple[Cell, ...] = ()
    waived: tuple[Waived, ...] = ()
    reports: tuple[WaiverReport, ...] = ()
    coverage: tuple[Covered, ...] = ()
    also_red: tuple[Seen, ...] = ()
    engines: tuple[str, ...] = ()
    suites: Mapping[str, str] = field(default_factory=dict)

    @property
    def green(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reasons
