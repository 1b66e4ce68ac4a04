"""What a resumed run takes from the one that was cut: how it was begun, and what its finished cells rest on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from runner.errors import UsageError
from runner.model import PlanEntry
from runner.pipeline.wish import Wish
from runner.prepare import model_key
from runner.records import Prepared, Run


def as_begun(wish: Wish, begun: Run) -> Wish:
    """A wish with everything that the run was begun with; a baseline that is given now counts."""
    return replace(
        wish,
        matrix=Path(begun.root) / Path(begun.plan.matrix).name,
        expect_engine=begun.expect_engine,
        jobs=begun.jobs,
        repeat=begun.repeat,
        until_fail=begun.until_fail,
        caches=begun.caches,
        baseline=wish.baseline or (Path(begun.baseline) if begun.baseline else None),
    )


def check_secrets(begun: Run, environ: Mapping[str, str]) -> None:
    """See that every secret of a cell without a record is set, be it to nothing.

    Raises:
        UsageError: one is not. What a cut cell wrote of it would stay in the folder, since nobody knows what to look for.

    """
    recorded = {record.cell.id for record in begun.records}
    named = {
        name
        for entry in begun.plan.planned()
        if entry.cell.id not in recorded
        for name in entry.settings.secrets
    }
    missing = sorted(named - set(environ))
    if missing:
        msg = (
            f"{', '.join(missing)} not set: a cell that was cut may have written it, and what it left could not be cleaned; "
            "set it as when the run began, or to nothing"
        )
        raise UsageError(msg)


def together(begun: Run, now: Prepared, finished: Collection[str]) -> Prepared:
    """What was made ready for the cells that had finished (ids), with what is made ready for the others.

    Raises:
        UsageError: a finished cell ran on an image, engine, model or suite that is another one now. One run speaks of one
            candidate: its records would be credited to what they never saw.

    """
    before = begun.prepared
    for entry in begun.plan.planned():
        if entry.cell.id in finished:
            for what, then, today in _digests(entry, before, now):
                if then and today and then != today:
                    msg = (
                        f"{what} is not what {entry.cell.id} ran with: {then} then, {today} now; start a new run, "
                        "or bring back what was there"
                    )
                    raise UsageError(msg)
    made = {*now.images, *now.models, *now.probes, *now.suites}
    return Prepared(
        images={**before.images, **now.images},
        models={**before.models, **now.models},
        probes={**before.probes, **now.probes},
        failures={name: why for name, why in before.failures.items() if name not in made} | {**now.failures},
        suites={**before.suites, **now.suites},
    )


def _digests(entry: PlanEntry, before: Prepared, now: Prepared) -> Iterator[tuple[str, str, str]]:
    """Name, digest then and digest now of all that a cell runs with; empty where one of the two runs did not have it."""
    settings = entry.settings
    then, today = before.images.get(settings.image), now.images.get(settings.image)
    if then and today:
        # One content may have digests in several registries; to the engine it has one id.
        same = then.id != "" and then.id == today.id
        yield f"image {settings.image}", then.digest, then.digest if same else today.digest
        yield f"the engine in {settings.image}", then.engine_digest, today.engine_digest
    for model in (settings.model, *settings.extra_models):
        if model is not None:
            key = model_key(settings.image, model)
            one, other = before.models.get(key), now.models.get(key)
            if one and other:
                yield f"model {model.name}", one.digest, other.digest
    suite = settings.suite.path
    yield f"suite {suite}", before.suites.get(suite, ""), now.suites.get(suite, "")
