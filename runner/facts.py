"""The vocabulary of what is run and what was observed: exits, reports, evidence. Continues :mod:`runner.model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from runner.control import Control
from runner.machine import Given, Sight
from runner.model import Expectation, Fault, Limits, Proof, Stop

# ---- between cells/ and a runtime -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host path shown inside the cell. Read-only unless said."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """How leased devices reach the container: nodes, numeric groups, mounts, and the visible-devices variables.

    ``how`` is the way chosen (nvidia-runtime, cdi, nodes, kfd, cores, none); ``ulimits``: soft and hard (-1: no limit).
    """

    how: str = ""
    cdi_names: tuple[str, ...] = ()
    ulimits: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    group_ids: tuple[int, ...] = ()
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSpec:
    """One thing to run in a fresh container or process group. ``argv`` speaks of paths inside the cell.

    ``out_dir``, ``log_path`` and ``cache_dir`` are host paths; the cell's user must be able to write to the folders, and
    sees the last at :data:`runner.vendors.CACHE_DIR`. ``stop_signal``: the one at which the program writes its report.
    """

    name: str
    image: str
    argv: tuple[str, ...]
    out_dir: Path
    log_path: Path
    limits: Limits
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    hand_over: HandOver = HandOver()
    stop_signal: str = "SIGTERM"
    log_filter: LogFilter | None = None
    cache_dir: Path | None = None


class LogFilter(Protocol):
    """What a cell's output passes through before it reaches the disk; one for each log."""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece; what may be written so far."""
        ...

    def close(self) -> bytes:
        """The rest."""
        ...


class Watch(Protocol):
    """The policy a runtime asks, about twice a second, whether to end the cell; it owns all clocks but the grace."""

    def poll(self, elapsed_s: float) -> Stop | None:
        """A reason to stop now, or None to go on. Asked on while a stop's grace runs: another reason ends the grace."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CellExit:
    """How a cell ended, without judging it.

    ``exit_code`` is the process's own (128+n where a signal ended it); None where it never started or is not known.
    ``fault``: the runtime itself failed, ``message`` says how in one line. ``left_behind``: it may still hold devices.
    """

    exit_code: int | None
    duration_s: float
    oom_killed: bool = False
    stopped: Stop | None = None
    fault: Fault | None = None
    message: str = ""
    log_bytes: int = 0
    log_cut_bytes: int = 0
    handle: str = ""
    left_behind: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedImage:
    """An image (or venv) ready to run; ``how`` says built, pulled, cached or venv.

    ``digest`` names its content: a registry's digest where one gave it. ``id`` is the engine's own name, "" for the same.
    ``engine_digest`` is over the host folders that hold the engine where it is mounted and not in the image.
    """

    ref: str
    digest: str
    how: str
    id: str = ""
    seconds: float = 0.0
    base: str = ""
    python: str = "python3"
    engine_digest: str = ""


class Runtime(Protocol):
    """What runs a cell. Implementations: docker, process, and a scripted fake that ships for tests."""

    name: str

    def describe(self) -> str:
        """One line for a person: kind and version of what runs the cells."""
        ...

    def view(self, source: Path, target: str) -> str:
        """The path under which a cell sees a host path that is mounted at ``target``."""
        ...

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        """Build, pull or find an image. Raises :class:`runner.errors.PrepareError`, also where the watch ended that."""
        ...

    def keep(self, image: PreparedImage, labels: Mapping[str, str]) -> Callable[[], str]:
        """Keep an image from being removed by others until the result is called.

        That call says in one line what it could not undo, "" where nothing is left. Raises
        :class:`runner.errors.PrepareError`, a pull fault where the image is gone already.
        """
        ...

    def run(self, spec: CellSpec, watch: Watch) -> CellExit:
        """Run to the end and remove what was started, on every path. Never raises for a fault of the host."""
        ...


# ---- what a cell wrote ---------------------------------------------------------------------------------------


class TestResult(StrEnum):
    """Result of one test after folding repeats of it inside one file."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    FLAKY = "flaky"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """One test. ``messages`` are capped; ``time_s`` is None where the file's value is no number."""

    __test__ = False

    name: str
    classname: str = ""
    file: str = ""
    suite: str = ""
    result: TestResult = TestResult.PASSED
    time_s: float | None = None
    attempts: int = 1
    crashed: bool = False
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of tests (not of elements); they add up to ``total``."""

    total: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    xfailed: int = 0
    flaky: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JUnitReport:
    """One report, read. ``lost`` is how many tests the header promises and the file does not hold."""

    tally: Tally
    cases: tuple[TestCase, ...] = ()
    seconds: float = 0.0
    lost: int = 0
    crashed: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestProgress:
    """What the streamed test log says: enough to name the running test when no report was written."""

    __test__ = False

    finished: int = 0
    passed: int = 0
    failed: int = 0
    running: str = ""
    session_finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """What one tensor-parallel rank reported of itself; sets are over its MoE layers."""

    rank: int
    world_size: int
    moe_methods: tuple[str, ...] = ()
    expert_weight_dtypes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    linear_schemes: tuple[str, ...] = ()
    device: str = ""
    visible_devices: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the cell reported about itself while running. ``conflicts``: how its engines differ, where it had several."""

    started: bool = False
    ended: bool = False
    sight: Sight | None = None
    engine: str = ""
    engine_version: str = ""
    platform: str = ""
    device_type: str = ""
    dtype: str = ""
    tp: int | None = None
    quantization: str = ""
    ranks: tuple[RankFacts, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    phase: str = ""
    tokens_equal: bool | None = None
    max_abs_logprob_diff: float | None = None
    logprob_bound: float | None = None
    control: Control | None = None
    children_left: int | None = None
    memory_left: tuple[str, ...] | None = None
    first_event_at: float | None = None
    last_event_at: float | None = None
    bad_lines: int = 0
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The first worker error of a log, or the engine's refusal: ``line`` is for a person, at most 300 characters."""

    line: str
    kind: str = "error"
    rank: int | None = None
    process: str = ""
    line_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFacts:
    """Everything the verdict rests on. None: not there. ``compared``: a reference of the model's answers is known."""

    exit: CellExit
    proof: Proof
    expect: Expectation = Expectation()
    memory_limit_bytes: int | None = None
    axes: Mapping[str, str] = field(default_factory=dict)
    report: JUnitReport | None = None
    report_problem: str = ""
    report_missing: bool = False
    progress: TestProgress | None = None
    evidence: Evidence | None = None
    finding: Finding | None = None
    expect_engine: str | None = None
    given: Given | None = None
    compared: bool = False
