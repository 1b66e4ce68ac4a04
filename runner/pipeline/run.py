"""From a wish to a finished run folder: read :func:`run` and :func:`_finish` and you know the program."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from runner import caches, cells, hosts, prepare, report, runs, runtimes, schedule, verdict
from runner.errors import ExitCode, UsageError
from runner.facts import Runtime
from runner.interrupt import CancelToken, GivenUp, unless_stopped
from runner.machine import Inventory
from runner.model import Culprit, Outcome, Plan, PlanEntry, Stop, Verdict
from runner.pipeline import durations, noticing
from runner.pipeline.host import PROJECT, caches_folder, leases_of, sweep
from runner.pipeline.planning import known_durations, make_plan
from runner.pipeline.reading import Past, write_reports
from runner.pipeline.resuming import as_begun, check_secrets, together
from runner.pipeline.wish import Wish
from runner.records import CellRecord, Prepared, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A run that ended: its value, its folder, and the code to exit with."""

    run: Run
    folder: Path
    exit_code: ExitCode
    past: Past


Show = Callable[[Run], report.Progress]
"""Shows the first lines of a run that is about to start, and gives its live view."""


def run(wish: Wish, show: Show, cancel: CancelToken, *, runtime: Runtime | None = None) -> Done:
    """Plan, prepare, run every planned cell, judge, store, report. ``runtime`` replaces what ``wish`` would find."""
    _check_baseline(wish)
    planned, inventory = make_plan(wish)
    runtime = runtimes.Stoppable(
        runtime or runtimes.find(wish.runtime, root=PROJECT, cache=wish.cache), cancel
    )
    begun = _begin(wish, planned, inventory, runtime)
    try:
        folder = runs.Folder.create(wish.out, begun)
    except OSError as error:
        msg = f"--out {wish.out}: no run folder can be made there: {error.strerror}"
        raise UsageError(msg) from error
    with folder.held():
        return _finish(wish, begun, folder, runtime, show, cancel)


def resume(
    path: Path, wish: Wish, show: Show, cancel: CancelToken, *, runtime: Runtime | None = None
) -> Done:
    """Finish an unfinished run in its own folder: cells with a record keep it, all others run.

    The plan and what it was begun with are as stored; the matrix file is not read again, and of ``wish`` only the
    cache, the environment (where secrets come from) and another baseline count.

    Raises:
        UsageError: the run is finished, a runner is at work in it, it ran with a runtime that this host does not have, a
            secret of its cells is not set, or an image, model or suite of its finished cells is another one now.

    """
    _check_baseline(wish)
    folder = runs.Folder(path)
    with folder.held():
        begun = runs.load(path)
        if begun.finished:
            msg = f"{path}: the run is finished; --failed-in {path} runs again what was not green"
            raise UsageError(msg)
        check_secrets(begun, wish.environ)
        kind: Literal["docker", "process"] = "docker" if begun.runtime == "docker" else "process"
        runtime = runtime or runtimes.find(kind, root=PROJECT, cache=wish.cache)
        return _finish(
            as_begun(wish, begun), begun, folder, runtimes.Stoppable(runtime, cancel), show, cancel
        )


def _finish(
    wish: Wish, begun: Run, folder: runs.Folder, runtime: Runtime, show: Show, cancel: CancelToken
) -> Done:
    known = {
        record.cell.id: record for record in begun.records if record.verdict.outcome is not Outcome.CANCELLED
    }
    left = replace(begun.plan, entries=tuple(e for e in begun.plan.entries if e.cell.id not in known))
    baseline = runs.load(wish.baseline) if wish.baseline else None  # now: it may be gone when the run ends
    leases = leases_of(begun.run_id, begun.runtime)
    with show(replace(begun, plan=left)) as progress, ExitStack() as held:
        _swept(leases, progress.note, cancel)
        assigner = _assigner(wish, begun, cancel, leases, lambda: _swept(leases, progress.note, cancel))
        prepared = _prepare(wish, left, begun, runtime, folder, assigner, progress.note, held)
        prepared = together(begun, prepared, known)
        folder.write_prepared(prepared)
        for line in noticing.early(replace(begun, plan=left, prepared=prepared)):
            progress.note(line)
        work = cells.CellWork(
            runtime=runtime,
            prepared=prepared,
            root=_root(wish),
            run_id=begun.run_id,
            labels=lambda cell: {runtimes.RUN: begun.run_id, runtimes.CELL: cell},
            hosting=assigner,
            cancel=cancel,
            infra_retries=begun.plan.infra_retries,
            repeat=wish.repeat,
            until_fail=wish.until_fail,
            expect_engine=wish.expect_engine,
            environ=wish.environ,
            caching=caches.Caches(folder=caches_folder(wish.cache), inventory=begun.inventory)
            if wish.caches
            else None,
            note=progress.note,
        )
        ordered = durations.start_order(left.planned(), known_durations(wish), assigner)
        known |= _run_cells(ordered, folder, work, assigner, progress)
    records = tuple(known[entry.cell.id] for entry in begun.plan.planned())
    ended = replace(begun, prepared=prepared, records=records, ended_at=_now())
    ended = replace(ended, notices=noticing.notices(ended, baseline))
    whole = folder.write_run(replace(ended, finished=True, interrupted=cancel.name()))
    past = write_reports(folder.path, whole, wish.baseline)
    durations.update(wish.cache, whole)
    code = verdict.exit_code(whole, interrupted=cancel.signal)
    return Done(run=whole, folder=folder.path, exit_code=code, past=past)


def _swept(leases: hosts.Leases, note: Callable[[str], None], cancel: CancelToken) -> None:
    """Remove what dead runners left; not waited for once the run is stopped, since a hung engine takes its time."""
    with suppress(GivenUp):
        unless_stopped(
            lambda: sweep(leases, note),
            lambda _: Stop.CANCELLED if cancel.cancelled() else None,
            lambda: None,
            0.0,
        )


def _check_baseline(wish: Wish) -> None:
    """Read the baseline before anything starts: a mistyped path must not cost a run. Raises :class:`BadRunFolder`."""
    if wish.baseline is not None:
        runs.load(wish.baseline)


def _root(wish: Wish) -> Path:
    return wish.matrix.resolve().parent


def _begin(wish: Wish, planned: Plan, inventory: Inventory, runtime: Runtime) -> Run:
    return Run(
        run_id=runs.new_run_id(datetime.now(UTC)),
        plan=planned,
        runtime=runtime.name,
        runtime_detail=runtime.describe(),
        inventory=inventory,
        started_at=_now(),
        command=wish.command,
        root=str(_root(wish)),
        expect_engine=wish.expect_engine,
        images=dict(text.split("=", 1) for text in wish.images),
        jobs=wish.jobs,
        repeat=wish.repeat,
        until_fail=wish.until_fail,
        caches=wish.caches,
        baseline=str(wish.baseline.resolve()) if wish.baseline else "",
    )


def _assigner(
    wish: Wish, begun: Run, cancel: CancelToken, leases: hosts.Leases, clean_up: Callable[[], None]
) -> hosts.Assigner:
    return hosts.Assigner(
        inventory=begun.inventory,
        leases=leases,
        offer=hosts.offer(hosts.live, begun.inventory.devices, **runtimes.engine_offers(begun.runtime)),
        containers=begun.runtime == "docker",
        jobs=wish.jobs,
        cancelled=cancel.cancelled,
        clean_up=clean_up,
    )


def _prepare(
    wish: Wish,
    left: Plan,
    begun: Run,
    runtime: Runtime,
    folder: runs.Folder,
    assigner: hosts.Assigner,
    note: Callable[[str], None],
    held: ExitStack,
) -> Prepared:
    means = prepare.Means(
        runtime=runtime,
        root=_root(wish),
        cache=wish.cache,
        logs=folder.path / "prepare",
        labels={runtimes.RUN: begun.run_id},
        note=note,
        lease=assigner.probe,
        held=held,
        meaning=_culprit,
        cancelled=assigner.cancelled,
    )
    return prepare.prepare(left, means)


def _culprit(text: str) -> Culprit | None:
    known = verdict.classify_message(text)
    return known.culprit if known else None


def _run_cells(
    ordered: Sequence[PlanEntry],
    folder: runs.Folder,
    work: cells.CellWork,
    assigner: hosts.Assigner,
    progress: report.Progress,
) -> dict[str, CellRecord]:
    """Start cells as resources allow. Each record is on disk as soon as its cell ends."""
    waiting = list(ordered)
    running: dict[Future[CellRecord], PlanEntry] = {}
    done: dict[str, CellRecord] = {}
    with ThreadPoolExecutor(max_workers=assigner.jobs, thread_name_prefix="cell") as pool:
        while waiting or running:
            needs = [schedule.Need(key=entry.cell.id, counts=assigner.needs(entry)) for entry in waiting]
            free = schedule.free(assigner.capacity(), [assigner.needs(entry) for entry in running.values()])
            pick = schedule.next_to_start(needs, free, len(running), assigner.jobs)
            if pick is not None:
                entry = waiting.pop(needs.index(pick))
                progress.started(entry.cell, 1)
                running[pool.submit(cells.run_cell, entry, folder.cell(entry.cell), work)] = entry
                continue
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                record = _stored(_record(future, running.pop(future), folder), folder)
                done[record.cell.id] = record
                progress.finished(record)
    return done


def _record(future: Future[CellRecord], entry: PlanEntry, folder: runs.Folder) -> CellRecord:
    """The record of a cell; a fault of this program is one too, so that no other cell is lost to it."""
    error = future.exception()
    if error is None:
        return future.result()
    trace = "".join(traceback.format_exception(error))
    folder.cell(entry.cell).mkdir(parents=True, exist_ok=True)
    folder.write_report(f"cells/{entry.cell.slug}/runner-error.txt", trace)
    cause = f"the runner itself failed: {type(error).__name__}: {error} (runner-error.txt has the trace)"
    return CellRecord(
        cell=entry.cell, verdict=Verdict(outcome=Outcome.INFRA, culprit=Culprit.UNKNOWN, cause=cause)
    )


def _stored(record: CellRecord, folder: runs.Folder) -> CellRecord:
    """The record, on disk. One that cannot be written (a full disk) says so itself and costs no other cell."""
    try:
        folder.write_record(record)
    except (OSError, ValueError) as error:
        cause = f"the record of a cell that {record.verdict.outcome.value} could not be written: {error}"
        judged = Verdict(outcome=Outcome.INFRA, culprit=Culprit.HOST, cause=cause)
        record = CellRecord(cell=record.cell, verdict=judged)
        with suppress(OSError):
            folder.write_record(record)
    return record


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
