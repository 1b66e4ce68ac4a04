"""Images by themselves, without a run: what the file names, and building, pulling or probing it beforehand."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runner import hosts, prepare, runtimes, verdict
from runner.errors import ExitCode, PrepareError, UsageError
from runner.expr import parse
from runner.facts import HandOver, PreparedImage, Runtime
from runner.interrupt import CancelToken
from runner.model import Culprit, Fault, Plan, PlanEntry, Status
from runner.pipeline.host import PROJECT, leases_of
from runner.pipeline.noticing import probe_news
from runner.pipeline.planning import make_plan
from runner.pipeline.wish import Wish

Action = Literal["list", "build", "pull", "probe"]

_CODES = {
    Fault.PULL: ExitCode.HOST_NETWORK,
    Fault.NETWORK: ExitCode.HOST_NETWORK,
    Fault.DEVICE: ExitCode.HOST,
    Fault.DISK: ExitCode.HOST,
    Fault.DAEMON: ExitCode.HOST,
    Fault.BUILD: ExitCode.RED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLine:
    """What became of one image: a line for a person, and the code it asks for."""

    text: str
    code: ExitCode = ExitCode.OK


def images(
    wish: Wish,
    action: Action,
    *,
    note: Callable[[str], None] = lambda _: None,
    runtime: Runtime | None = None,
) -> Iterator[ImageLine]:
    """Do one thing with every image that a cell of the file, selected and not excluded, names.

    ``build`` is for folders with a Dockerfile and ``pull`` for references; ``probe`` makes ready either and asks the
    engine in it. One image that fails does not keep the others from being tried. ``note`` is told what takes time.
    """
    made, inventory = make_plan(wish)
    wanted = _by_image(made.entries, _chosen(wish, made))
    if not wanted:
        yield ImageLine(text="no cell names an image", code=ExitCode.NOTHING_RAN)
        return
    root = wish.matrix.resolve().parent
    if action == "list":
        yield from (ImageLine(text=_listed(entry, count, root)) for entry, count in wanted)
        return
    runtime = runtimes.Stoppable(
        runtime or runtimes.find(wish.runtime, root=PROJECT, cache=wish.cache), CancelToken()
    )
    assigner = hosts.Assigner(
        inventory=inventory,
        leases=leases_of(f"images-{os.getpid()}", runtime.name),
        offer=hosts.offer(hosts.live, inventory.devices, **runtimes.engine_offers(runtime.name)),
        containers=runtime.name == "docker",
        jobs=1,
        cancelled=lambda: False,
        clean_up=lambda: None,
    )
    logs = wish.cache / "images"
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{error.filename}: {error.strerror}: set VLLM_MATRIX_CACHE to a folder that can be written"
        raise UsageError(msg) from error
    with ExitStack() as held:
        means = _means(wish, root, runtime, logs, assigner.probe, held, note)
        for entry, _ in wanted:
            folder = _folder(entry.settings.image, root) is not None
            if action != "probe" and folder != (action == "build"):
                kind = "a folder: nothing to pull" if folder else "a reference: nothing to build"
                yield ImageLine(text=f"{entry.settings.image}: {kind}")
            else:
                yield _done(entry, means, action)


def _means(
    wish: Wish,
    root: Path,
    runtime: Runtime,
    logs: Path,
    lease: Callable[[str], AbstractContextManager[HandOver]],
    held: ExitStack,
    note: Callable[[str], None],
) -> prepare.Means:
    return prepare.Means(
        runtime=runtime,
        root=root,
        cache=wish.cache,
        logs=logs,
        labels={runtimes.RUN: f"images-{os.getpid()}"},
        note=note,
        lease=lease,
        held=held,
    )


def _chosen(wish: Wish, made: Plan) -> Callable[[PlanEntry], bool]:
    """Whether a cell is selected, also where this host could not run it: its image may be wanted for another."""
    expression = parse(wish.select, values=made.axes) if wish.select else None

    def chosen(entry: PlanEntry) -> bool:
        named = not wish.cells or entry.cell.id in wish.cells or entry.cell.slug in wish.cells
        return named and (expression is None or expression.matches(dict(entry.cell.axes)))

    return chosen


def _by_image(
    entries: tuple[PlanEntry, ...], chosen: Callable[[PlanEntry], bool]
) -> list[tuple[PlanEntry, int]]:
    """The first cell of each image, and how many name it."""
    found: dict[str, list[PlanEntry]] = {}
    for entry in entries:
        if entry.status in (Status.PLANNED, Status.NOT_RUNNABLE) and chosen(entry):
            found.setdefault(entry.settings.image, []).append(entry)
    return [(cells[0], len(cells)) for cells in found.values()]


def _folder(image: str, root: Path) -> Path | None:
    """The folder that an image is built from: beside the file, or this project's own, wherever the file lies."""
    return prepare.resolve(image, root) or prepare.resolve(image, PROJECT)


def _listed(entry: PlanEntry, count: int, root: Path) -> str:
    image = entry.settings.image
    folder = _folder(image, root)
    if folder is None:
        kind = "by digest" if "@sha256:" in image else "pulled, and its digest recorded, when prepared"
    else:
        kind = (
            "built from its Dockerfile"
            if (folder / "Dockerfile").is_file()
            else "a folder without a Dockerfile"
        )
    mounted = ", engine mounted from the host" if entry.settings.mounts else ""
    return f"{entry.cell.get('platform')}: {image} ({kind}{mounted}; {count} cell{'s' * (count != 1)})"


def _done(entry: PlanEntry, means: prepare.Means, action: Action) -> ImageLine:
    image = entry.settings.image
    name = "".join(char if char.isalnum() else "-" for char in image)[-60:]
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=means.logs))  # kept: it has the logs
        means.note(f"{image}: making it ready; log: {folder / 'image.log'}")
        made = prepare.make_image(entry.settings, means, folder / "image.log")
        names = " ".join(dict.fromkeys((made.ref, made.id or made.digest)))
        text = f"{image}: {names} ({made.how}, {made.seconds:.0f} s)"
        if action == "probe":
            means.note(
                f"{image}: asking the engine in it, which takes up to a minute; log: {folder / 'probe.log'}"
            )
            found = _probed(entry, made, means, folder)
            text += "\n" + "\n".join((_shown(found), *probe_news(found, entry.cell.get("platform"))))
        return ImageLine(text=text)
    except PrepareError as error:
        known = verdict.classify_message(str(error))
        config = error.culprit is Culprit.CONFIG or (known is not None and known.culprit is Culprit.CONFIG)
        text = str(error) if image in str(error) else f"{image}: {error}"
        return ImageLine(text=text, code=ExitCode.RED if config else _CODES[error.fault])


def _shown(found: Mapping[str, Any]) -> str:
    """A probe as JSON with a line for each fact, however much it holds."""
    lines = [f"  {json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(found)]
    return "{\n" + ",\n".join(lines) + "\n}"


def _probed(entry: PlanEntry, made: PreparedImage, means: prepare.Means, folder: Path) -> Mapping[str, Any]:
    suite = prepare.resolve(entry.settings.suite.path, means.root)
    if suite is None or not (suite / "probe.py").is_file():
        msg = f"{entry.settings.image}: the suite {entry.settings.suite.path} has no probe.py to ask the engine with"
        raise PrepareError(msg, Fault.BUILD, culprit=Culprit.CONFIG)
    return prepare.probe(entry, made, suite, means, folder / "probe.log")
