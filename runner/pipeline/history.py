"""Verbs over several runs: the history of a cell, a run against a baseline, cells that would settle a cause."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner import runs, triage
from runner.errors import BadRunFolder, UsageError
from runner.expr import nearest
from runner.model import Culprit, Outcome, PlanEntry
from runner.records import CellRecord, Run, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Results of one cell over runs. ``seen`` are those of the latest tests and model, which ``judgement`` is on.

    ``earlier`` counts results of other tests or another model; ``unread`` says which folders could not be read.
    """

    cell: str
    seen: tuple[Seen, ...]
    judgement: triage.Judgement
    earlier: int = 0
    unread: tuple[str, ...] = ()


def history(cell: str, folder: Path) -> History:
    """The history of a cell, by its id or slug, over all run folders in a folder.

    Raises:
        UsageError: no such folder, or no run in it planned this cell.

    """
    with runs.Index(_checked(folder)) as index:
        unread = refresh(index, folder)
        if not (every := index.seen(cell)):
            cell = next((known for known in index.cells() if _is_slug(cell, known)), cell)
            every = index.seen(cell)
        if not every:
            near = nearest(cell, index.cells())
            msg = f"history: no run in {folder} planned {cell!r}" + (
                f"; did you mean {near}?" if near else ""
            )
            raise UsageError(msg)
    latest = current(every)
    return History(
        cell=cell,
        seen=latest,
        judgement=triage.judge(latest),
        earlier=len(every) - len(latest),
        unread=unread,
    )


def _is_slug(text: str, cell: str) -> bool:
    """Whether a text is the slug of a cell: a slug ends with eight digits of the id's hash."""
    return text.endswith("-" + hashlib.blake2b(cell.encode(), digest_size=4).hexdigest())


def current(every: tuple[Seen, ...]) -> tuple[Seen, ...]:
    """Results of the same tests and model as the latest that ran; a result of neither (never ran) stays."""
    ran = [one for one in every if one.result in "PFf"]
    if not ran:
        return every
    same = (ran[-1].definition, ran[-1].model)
    return tuple(one for one in every if one.result not in "PFf" or (one.definition, one.model) == same)


def against(run: Run, baseline: Path, folder: Path | None = None) -> triage.Comparison:
    """Compare a run with the one in a folder; noise of times comes from the runs in ``folder``, where there are any."""
    before = runs.load(baseline)
    times: dict[str, list[float]] = {}
    if folder is not None:
        with runs.Index(_checked(folder)) as index:
            refresh(index, folder)
            for entry in run.plan.planned():
                found = [
                    one for one in index.seen(entry.cell.id) if one.run_id not in (run.run_id, before.run_id)
                ]
                key = (triage.definition(run, entry), triage.model(run, entry))
                times[entry.cell.id] = [
                    one.seconds
                    for one in found
                    if one.result == "P" and one.seconds and (one.definition, one.model) == key
                ]
    return triage.compare(run, before, times)


def since(run: Run, folder: Path) -> Mapping[str, str]:
    """For each red cell with earlier results: the first run of its present unbroken failing.

    This run itself where the cell passed before; "or earlier" is added where no run is known in which it passed.
    """
    found = {}
    with runs.Index(_checked(folder)) as index:
        refresh(index, folder)
        for record in run.records:
            if record.verdict.green:
                continue
            seen = [one for one in current(index.seen(record.cell.id)) if one.started_at <= run.started_at]
            known = [one for one in seen if one.run_id != run.run_id and one.result in "PFf"]
            if known and (first := triage.since(seen)):
                passed = any(one.result == "P" for one in known)
                found[record.cell.id] = first if passed else f"{first} or earlier"
    return found


def settle(run_dir: Path) -> tuple[str, ...]:
    """Ids of the cells whose results would settle what explains the failures of a run.

    Raises:
        UsageError: nothing is left to settle.

    """
    found = triage.settle(runs.load(run_dir))
    if not found:
        msg = f"--settle {run_dir}: no cell that could run would make any cause surer"
        raise UsageError(msg)
    return found


def refresh(index: runs.Index, folder: Path) -> tuple[str, ...]:
    """Bring the index up to date; says which folders could not be read."""
    stamps, present, unread = index.stamps(), set(), []
    for path, stamp in runs.folders(folder):
        present.add(path.name)
        if stamp and stamps.get(path.name) == stamp:
            continue
        try:
            run = runs.load(path)
        except BadRunFolder as error:
            unread.append(str(error))
            index.drop(path.name)
            continue
        index.put(path.name, stamp, _rows(run))
    for name in set(stamps) - present:
        index.drop(name)
    return tuple(unread)


def _rows(run: Run) -> Iterator[tuple[str, Seen]]:
    records = {record.cell.id: record for record in run.records}
    for entry in run.plan.planned():
        yield entry.cell.id, _seen(run, entry, records.get(entry.cell.id))


def _seen(run: Run, entry: PlanEntry, record: CellRecord | None) -> Seen:
    image = run.prepared.images.get(entry.settings.image)
    verdict = record.verdict if record else None
    times = triage.passing_times(record) if record else []
    engines = [a.evidence.engine_version for a in record.attempts if a.evidence] if record else []
    return Seen(
        run_id=run.run_id,
        result=result(record),
        outcome=verdict.outcome if verdict else "missing",
        culprit=verdict.culprit if verdict else "",
        cause=verdict.cause if verdict else "",
        started_at=run.started_at,
        definition=triage.definition(run, entry),
        model=triage.model(run, entry),
        candidate=image.digest if image else "",
        engine=next(filter(None, reversed(engines)), ""),
        host=run.inventory.hostname,
        seconds=times[-1] if times else 0.0,
    )


def result(record: CellRecord | None) -> str:
    """The letter of a record: P, F, f (failed and passed within the run), I (says nothing of the cell), - (none)."""
    if record is None:
        return "-"
    verdict = record.verdict
    if verdict.outcome in (Outcome.INFRA, Outcome.CANCELLED) or verdict.culprit is Culprit.HOST:
        return "I"
    if verdict.outcome is Outcome.FLAKY:
        return "f"
    return "P" if verdict.green else "F"


def _checked(folder: Path) -> Path:
    if not folder.is_dir():
        msg = f"{folder}: no such folder of runs"
        raise UsageError(msg)
    return folder
