"""Short jobs inside an image that are no cells: recipes and probes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import PrepareError
from runner.facts import CellExit, CellSpec, HandOver, Mount, PreparedImage, Runtime
from runner.model import Fault, HostFolder, Limits, Stop
from runner.vendors import CELL_ENV, python_path


@dataclass(frozen=True, slots=True)
class JobLimit:
    """A :class:`runner.facts.Watch` with one bound, for work that has no phases."""

    total_s: float

    def poll(self, elapsed_s: float) -> Stop | None:
        """Stop when the bound is passed."""
        return Stop.TIMED_OUT if elapsed_s > self.total_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run: ``script`` is relative to ``tools``, which the job sees read-only."""

    name: str
    tools: Path
    argv: tuple[str, ...]
    out_dir: Path
    log_path: Path
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[HostFolder, ...] = ()
    hand_over: HandOver = HandOver()
    labels: Mapping[str, str] = field(default_factory=dict)
    total_s: float = 600.0


def run_job(runtime: Runtime, image: PreparedImage, job: Job) -> CellExit:
    """Run a job to its end.

    Raises:
        PrepareError: it failed; the message holds the last line of its log and the log's path.

    """
    tools = runtime.view(job.tools, "/tools")
    spec = CellSpec(
        name=job.name,
        image=image.ref,
        argv=tuple(part.replace("{tools}", tools).replace("{python}", image.python) for part in job.argv),
        out_dir=job.out_dir,
        log_path=job.log_path,
        limits=Limits(total_s=job.total_s, idle_s=job.total_s, start_s=job.total_s),
        env={**CELL_ENV, **job.env, "PYTHONPATH": python_path(tools, job.env)},
        mounts=(
            *(Mount(source=Path(each.source), target=each.target) for each in job.mounts),
            Mount(source=job.tools, target="/tools"),
        ),
        labels=job.labels,
        hand_over=job.hand_over,
    )
    ended = runtime.run(spec, JobLimit(job.total_s))
    if ended.left_behind and job.hand_over != HandOver():
        msg = f"{job.name} may still hold its devices: {'; '.join(ended.remarks)}"
        raise PrepareError(msg, ended.fault or Fault.DAEMON, left_behind=ended.handle)
    if ended.fault is not None:
        msg = f"{job.name}: {ended.message}"
        raise PrepareError(msg, ended.fault)
    if ended.exit_code != 0:
        what = f"ended with exit code {ended.exit_code}"
        if ended.stopped is Stop.TIMED_OUT:
            what = f"ran past its limit of {job.total_s:g} s (limits.prepare)"
        elif ended.stopped is not None:
            what = "was stopped"
        last = last_line(job.log_path)
        msg = f"{job.name} {what}: {last} (log: {job.log_path})"
        raise PrepareError(msg, Fault.BUILD)
    return ended


def last_line(log: Path) -> str:
    """The last line of a log that holds something, cut to 300 characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return "no log"
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "empty log")


def last_json(log: Path) -> dict[str, Any]:
    """The JSON object on the last line of a log that is one. Raises :class:`ValueError` if there is none."""
    for line in reversed(log.read_text("utf-8", "replace").splitlines()):
        if line.startswith("{"):
            value: dict[str, Any] = json.loads(line)
            return value
    msg = "the probe printed no JSON object"
    raise ValueError(msg)
