"""One pass over a plan: every distinct image, then its probe and its models. A failure is kept, not raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.errors import PrepareError
from runner.facts import HandOver, PreparedImage, Runtime
from runner.interrupt import GivenUp, T, unless_stopped
from runner.model import (
    CellSettings,
    Culprit,
    Fault,
    ModelRef,
    Outcome,
    Plan,
    PlanEntry,
    Proof,
    Stop,
    Verdict,
)
from runner.prepare.engines import check_mounts, engine_digest
from runner.prepare.jobs import Job, JobLimit, last_json, run_job
from runner.prepare.keys import model_key, resolve, tree_hash
from runner.prepare.models import ModelMaker
from runner.records import Prepared, PreparedModel, PrepareFailure

Meaning = Callable[[str], Culprit | None]
"""Whose fault an error text of an engine or registry tells of; None where the text says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What preparation works with.

    ``root`` is where relative paths of the matrix file start; ``lease`` holds one device of a platform for a probe.
    ``held`` is closed by the caller when the images are no longer needed: until then nobody prunes them.
    """

    runtime: Runtime
    root: Path
    cache: Path
    logs: Path
    note: Callable[[str], None]
    lease: Callable[[str], AbstractContextManager[HandOver]]
    held: ExitStack
    labels: Mapping[str, str] = field(default_factory=dict)
    meaning: Meaning = lambda _: None
    cancelled: Callable[[], bool] = lambda: False

    def patiently(self, call: Callable[[], T], what: str, limit: JobLimit) -> T:
        """Wait for work of this program itself, within a limit and while the run goes on.

        Raises:
            PrepareError: it took longer, or the run was stopped.

        """

        def ask(elapsed_s: float) -> Stop | None:
            return Stop.CANCELLED if self.cancelled() else limit.poll(elapsed_s)

        try:
            return unless_stopped(call, ask, lambda: None, 0.0)
        except GivenUp as given:
            if given.stop is Stop.CANCELLED:
                msg = f"{what}: the run was stopped"
                raise PrepareError(msg, Fault.BUILD) from given
            msg = f"{what} took longer than {limit.total_s:g} s (limits.prepare)"
            raise PrepareError(msg, Fault.NETWORK if what.startswith("hub") else Fault.DISK) from given


SUITE = Path(__file__).parents[2] / "tests" / "moe"
"""The shipped suite: its recipes make the models of suites that bring none of their own."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """What has been made ready so far."""

    images: dict[str, PreparedImage] = field(default_factory=dict)
    models: dict[str, PreparedModel] = field(default_factory=dict)
    probes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failures: dict[str, PrepareFailure] = field(default_factory=dict)
    suites: dict[str, str] = field(default_factory=dict)


def prepare(plan: Plan, means: Means) -> Prepared:
    """Make ready what the planned cells need.

    What failed stands in ``failures`` under the key of the image or model, and its cells get that verdict.
    """
    work = _Work()
    means.logs.mkdir(parents=True, exist_ok=True)
    for entry in plan.planned():
        if entry.refused is not None:
            continue
        _suite(entry, means, work)
        _image(entry.settings, means, work)
        image = work.images.get(entry.settings.image)
        suite = resolve(entry.settings.suite.path, means.root)
        if image is None or suite is None:
            continue
        if entry.settings.suite.proof is Proof.ENGINE:
            _probe(entry, suite, image, means, work)
        for model in (entry.settings.model, *entry.settings.extra_models):
            if model is not None:
                _model(entry.settings, model, suite if (suite / "recipes").is_dir() else SUITE, means, work)
    return Prepared(
        images=work.images, models=work.models, probes=work.probes, failures=work.failures, suites=work.suites
    )


def _suite(entry: PlanEntry, means: Means, work: _Work) -> None:
    name = entry.settings.suite.path
    folder = resolve(name, means.root)
    if name in work.suites or name in work.failures:
        return
    if folder is None:
        verdict = Verdict(
            outcome=Outcome.NO_TESTS, culprit=Culprit.CONFIG, cause=f"suite folder {name} does not exist"
        )
        work.failures[name] = PrepareFailure(verdict=verdict)
    else:
        work.suites[name] = tree_hash(folder)


def _image(settings: CellSettings, means: Means, work: _Work) -> None:
    name = settings.image
    if name in work.images or name in work.failures:
        return
    log = means.logs / f"image-{len(work.images) + len(work.failures)}.log"
    means.note(f"preparing image {name} for {means.runtime.name}")
    try:
        work.images[name] = make_image(settings, means, log)
    except PrepareError as error:
        work.failures[name] = _failure(error, log, means.meaning)


def make_image(settings: CellSettings, means: Means, log: Path) -> PreparedImage:
    """Build, pull or find the image of a cell, keep it, and hash the engine where it is mounted from the host.

    The process runtime has no image to mount anything into: there the interpreter named by the file is the engine's.

    Raises:
        PrepareError: it cannot be had, or a host path is not there.

    """
    check_mounts(settings)
    name = settings.python if settings.python and means.runtime.name == "process" else settings.image
    folder = resolve(name, means.root)
    limit = JobLimit(settings.limits.prepare_s)
    image = _kept(str(folder) if folder else name, means, log, limit)
    digest = means.patiently(
        lambda: engine_digest(settings.engine_folders, means.cache / "engine-files.json"),
        f"hashing the engine of {settings.image}",
        limit,
    )
    return replace(image, python=settings.python or image.python, engine_digest=digest)


def _kept(ref: str, means: Means, log: Path, limit: JobLimit) -> PreparedImage:
    """An image that stays until ``means.held`` is closed; one that was pruned before it was kept is made once more."""
    image = means.runtime.image(ref, log, limit)
    try:
        let_go = means.runtime.keep(image, means.labels)
    except PrepareError as error:
        if error.fault is not Fault.PULL:
            raise
        image = means.runtime.image(ref, log, limit)
        let_go = means.runtime.keep(image, means.labels)

    def end() -> None:
        problem = let_go()
        if problem:
            means.note(problem)

    means.held.callback(end)
    return image


def _probe(entry: PlanEntry, suite: Path, image: PreparedImage, means: Means, work: _Work) -> None:
    name = entry.settings.image
    if name in work.probes or name in work.failures or not (suite / "probe.py").is_file():
        return
    log = means.logs / f"probe-{len(work.probes)}.log"
    means.note(f"probing {name}")
    try:
        work.probes[name] = probe(entry, image, suite, means, log)
    except PrepareError as error:
        work.failures[name] = _failure(error, log, means.meaning)


def probe(entry: PlanEntry, image: PreparedImage, suite: Path, means: Means, log: Path) -> Mapping[str, Any]:
    """Ask the engine in an image what it is and can do, through the suite's ``probe.py``.

    Raises:
        PrepareError: no device could be had, the probe failed, or it printed no JSON object.

    """
    out = log.with_suffix(".out")
    out.mkdir(exist_ok=True)
    job = Job(
        name=log.stem,
        tools=suite,
        argv=("{python}", "{tools}/probe.py"),
        out_dir=out,
        log_path=log,
        env=entry.settings.env,
        mounts=entry.settings.mounts,
        labels=means.labels,
        total_s=entry.settings.limits.prepare_s,
    )
    with means.lease(entry.cell.get("platform")) as hand_over:
        run_job(means.runtime, image, replace(job, hand_over=hand_over))
    try:
        return last_json(log)
    except ValueError as error:
        msg = f"{entry.settings.image}: {error}"
        raise PrepareError(msg, Fault.BUILD) from error


def _model(settings: CellSettings, model: ModelRef, suite: Path, means: Means, work: _Work) -> None:
    key = model_key(settings.image, model)
    if key in work.models or key in work.failures:
        return
    maker = ModelMaker(
        runtime=means.runtime,
        cache=means.cache,
        tools=suite,
        logs=means.logs,
        labels=means.labels,
        note=means.note,
        env=settings.env,
        mounts=settings.mounts,
        limit=JobLimit(settings.limits.prepare_s),
        patiently=means.patiently,
    )
    try:
        work.models[key] = maker.make(work.images[settings.image], model)
    except PrepareError as error:
        work.failures[key] = _failure(error, means.logs / f"recipe-{model.name}.log", means.meaning)


def _failure(error: PrepareError, log: Path, meaning: Meaning) -> PrepareFailure:
    """The verdict of the cells that need what failed. A wrong request is refused, and no other host will help."""
    culprit = error.culprit or (meaning(str(error)) if error.fault is Fault.PULL else None)
    if culprit is Culprit.CONFIG:
        verdict = Verdict(outcome=Outcome.REFUSED, culprit=culprit, cause=str(error))
    elif error.fault is Fault.BUILD:
        verdict = Verdict(outcome=Outcome.CRASHED, culprit=Culprit.IMAGE, cause=str(error))
    else:
        verdict = Verdict(outcome=Outcome.INFRA, culprit=Culprit.HOST, cause=str(error), fault=error.fault)
    return PrepareFailure(verdict=verdict, log=f"{log.parent.name}/{log.name}")
