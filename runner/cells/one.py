"""One cell from plan to record: spec, run, collect, judge; again on another try where only the host was at fault."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from runner import verdict
from runner.cells.caching import CacheLayer, Caching, forget, settled
from runner.cells.clean import clean_folder
from runner.cells.collect import collect
from runner.cells.gather import facts_of, failing_of, hashes_of
from runner.cells.hosting import Held, Hosting, blamed, failed_on
from runner.cells.redact import Redactor, chosen
from runner.cells.spec import IN_CELL, Place, build
from runner.cells.watch import CellWatch
from runner.errors import PrepareError
from runner.facts import CellExit, Evidence, HandOver, Runtime
from runner.interrupt import CancelToken
from runner.machine import Given
from runner.model import Culprit, Outcome, PlanEntry, Stop, Verdict
from runner.records import Attempt, CellRecord, Prepared
from runner.vendors import CACHE_DIR, VENDORS

KEPT_REMARKS = 10
"""Remarks of a kind on files that a verdict carries, before the number of the rest; more would drown the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellWork:
    """What is the same for every cell of a run."""

    runtime: Runtime
    prepared: Prepared
    root: Path
    run_id: str
    labels: Callable[[str], Mapping[str, str]]
    hosting: Hosting
    cancel: CancelToken
    infra_retries: int
    repeat: int
    until_fail: bool
    expect_engine: str | None
    note: Callable[[str], None]
    environ: Mapping[str, str] = field(default_factory=dict)
    """Where the secrets that cells name are taken from: the runner's environment."""
    caching: Caching | None = None
    """Compile caches kept between cells; None where they are off."""


def run_cell(entry: PlanEntry, folder: Path, work: CellWork) -> CellRecord:
    """Run one planned cell to its record. ``folder`` is ``cells/<slug>``; each attempt writes below it."""
    decided = _without_container(entry, work)
    if decided is not None:
        return CellRecord(cell=entry.cell, verdict=decided, refused=entry.refused is not None)
    attempts: list[Attempt] = []
    began = time.monotonic()
    secrets = chosen(entry.settings.secrets, work.environ)
    redactor = Redactor(secrets)
    forget(folder)
    for remark in clean_folder(folder, redactor):  # what an attempt that was cut off with its runner has left
        work.note(f"{entry.cell.id}: {remark}")
    retries = work.infra_retries
    while True:
        attempt = redactor.value(
            _attempt(
                entry,
                folder,
                _next_number(folder),
                replace(work, environ=secrets),
                redactor,
                failed_on(attempts),
            )
        )
        attempts.append(attempt)
        again = attempt.verdict.outcome is Outcome.INFRA and blamed(entry, attempt, work.hosting)
        if work.cancel.cancelled():
            break
        if again and retries:
            retries -= 1
            work.note(f"{entry.cell.id}: {attempt.verdict.cause}; trying again")
        elif len(attempts) - (work.infra_retries - retries) >= work.repeat or (
            work.until_fail and not attempt.verdict.green
        ):
            break
    return CellRecord(
        cell=entry.cell,
        verdict=verdict.combine([attempt.verdict for attempt in attempts]),
        attempts=tuple(attempts),
        duration_s=round(time.monotonic() - began, 3),
    )


def _few(remarks: tuple[str, ...]) -> tuple[str, ...]:
    more = len(remarks) - KEPT_REMARKS
    return (*remarks[:KEPT_REMARKS], f"and {more} more remarks like the last") if more > 0 else remarks


def _next_number(folder: Path) -> int:
    """One past the attempts on disk: a run that was killed and resumed keeps what the cut attempt left."""
    return 1 + sum(1 for path in folder.glob("attempt-*") if path.is_dir())


def _without_container(entry: PlanEntry, work: CellWork) -> Verdict | None:
    if entry.refused is not None:
        where = f" [{entry.refused.source}]" if entry.refused.source else ""
        return Verdict(outcome=Outcome.REFUSED, culprit=Culprit.CONFIG, cause=entry.refused.text + where)
    if work.cancel.cancelled():
        return Verdict(
            outcome=Outcome.CANCELLED, culprit=Culprit.NONE, cause="not started: the run was stopped"
        )
    settings = entry.settings
    names = [settings.suite.path, settings.image]
    names += [f"{settings.image}|{m.name}" for m in (settings.model, *settings.extra_models) if m is not None]
    failures = (work.prepared.failures.get(name) for name in names)
    return next((failure.verdict for failure in failures if failure is not None), None)


def _attempt(
    entry: PlanEntry, folder: Path, number: int, work: CellWork, redactor: Redactor, avoid: tuple[str, ...]
) -> Attempt:
    begun_s = time.time()
    here = folder / f"attempt-{number}"
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    device_ids: tuple[str, ...] = ()
    given: Given | None = None
    layer: CacheLayer | None = None
    remarks: tuple[str, ...] = tuple(filter(None, (VENDORS[entry.cell.get("platform")].never_ran,)))
    remarks += tuple(
        f"the secret {name} is not set in the runner's environment"
        for name in entry.settings.secrets
        if name not in work.environ
    )
    started_s = begun_s
    try:
        with _places(here, entry, work) as place, work.hosting.lease(entry, avoid) as held:
            device_ids, given, started_s = held.device_ids, held.given, time.time()
            layer = _layer(entry, place, held, work)
            ended = _run(entry, place, number, held.hand_over, work, redactor)
            remarks += held.remarks + held.after()
            if ended.left_behind:
                held.abandon(ended.handle)
            remarks += _few(collect(place.out, here).remarks)
        remarks += _few(clean_folder(here, redactor))
    except PrepareError as error:
        ended = CellExit(exit_code=None, duration_s=0.0, fault=error.fault, message=str(error))
    facts = facts_of(entry, here, ended, work.expect_engine, given)
    judged = verdict.judge(facts)
    cache = settled(layer, here / "cache", judged, secrets=bool(work.environ)) if layer else None
    return Attempt(
        number=number,
        verdict=replace(judged, remarks=judged.remarks + remarks),
        cause_line=facts.finding.line_number if facts.finding else 0,
        exit=ended,
        started_at=started_at,
        tally=facts.report.tally if facts.report else None,
        evidence=facts.evidence,
        failing=failing_of(facts.report),
        device_ids=device_ids,
        given=given,
        phases=_phases(begun_s, started_s, facts.evidence),
        files=hashes_of(here),
        cache=cache,
    )


def _phases(begun_s: float, started_s: float, evidence: Evidence | None) -> dict[str, float]:
    """Seconds of each phase that was seen to end: what this program did, then what the cell reports."""
    found = {"prepare": round(max(0.0, started_s - begun_s), 3)}
    if evidence is not None and evidence.first_event_at is not None:
        found["start"] = round(max(0.0, evidence.first_event_at - started_s), 3)
    return found | dict(evidence.phases if evidence is not None else {})


def _layer(entry: PlanEntry, place: Place, held: Held, work: CellWork) -> CacheLayer | None:
    """The compile caches that the attempt starts with, copied to where it sees them."""
    if work.caching is None or place.cache is None:
        return None
    image = work.prepared.images[entry.settings.image]
    probe = work.prepared.probes.get(entry.settings.image, {})
    seen_at = work.runtime.view(place.cache, CACHE_DIR)
    layer = work.caching.layer(entry, image, probe, held.device_ids, place.cache, seen_at)
    layer.fill()
    return layer


def _run(
    entry: PlanEntry, place: Place, number: int, hand_over: HandOver, work: CellWork, redactor: Redactor
) -> CellExit:
    if work.cancel.cancelled():
        return CellExit(
            exit_code=None, duration_s=0.0, stopped=Stop.CANCELLED, message="stopped before it started"
        )
    spec = build(
        entry,
        work.prepared,
        work.runtime,
        place,
        name=f"vllm-matrix-{work.run_id}-{entry.cell.slug}-{number}"[:120],
        labels=work.labels(entry.cell.id),
        hand_over=hand_over,
        expect_engine=work.expect_engine,
    )
    spec = replace(spec, env={**work.environ, **spec.env}, log_filter=redactor.stream())
    watch = CellWatch(
        limits=entry.settings.limits,
        proof=entry.settings.suite.proof,
        log=place.log,
        evidence=place.out / "evidence.jsonl",
        cancel=work.cancel,
    )
    ended = work.runtime.run(spec, watch)
    return replace(ended, message=watch.why) if ended.stopped is not None and watch.why else ended


@contextlib.contextmanager
def _places(here: Path, entry: PlanEntry, work: CellWork) -> Iterator[Place]:
    here.mkdir(parents=True)
    out, settings, in_cell = here / "out", here / "in", here / "matrix"
    out.mkdir()
    settings.mkdir()
    shutil.copytree(IN_CELL, in_cell / "incell", ignore=shutil.ignore_patterns("__pycache__"))
    suite = (work.root / entry.settings.suite.path).resolve()
    cache = here / "cache" if work.caching is not None else None
    try:
        yield Place(
            settings=settings, out=out, log=here / "log.txt", suite=suite, in_cell=in_cell, cache=cache
        )
    finally:
        shutil.rmtree(in_cell, ignore_errors=True)
        with contextlib.suppress(OSError):
            (settings / "cell.json").rename(here / "cell-input.json")
            settings.rmdir()
