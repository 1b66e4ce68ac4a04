"""From a wish to a plan: file, candidate images, host, selection, sample, shard. Starts nothing."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner import cost, diff, hosts, matrix, plan, reference, runs
from runner.errors import UsageError
from runner.expr import nearest
from runner.machine import Inventory
from runner.model import CellSettings, Matrix, MatrixCell, Plan, Status
from runner.pipeline import choosing, durations
from runner.pipeline.foresight import foresee
from runner.pipeline.history import settle
from runner.pipeline.wish import Wish
from runner.vendors import PLATFORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A plan with what it will cost here. ``order`` has ids of cells in the order in which they are offered."""

    plan: Plan
    cost: tuple[str, ...]
    order: tuple[str, ...]


def make_plan(wish: Wish) -> tuple[Plan, Inventory]:
    """Read the file and the host; start nothing."""
    read = matrix.load(wish.matrix, apply_rules=wish.apply_rules, max_cells=wish.max_cells)
    images = candidate(wish.images, read)
    read = _with_images(read, images)
    inventory = hosts.inventory(environ=wish.environ)
    facts = {name: hosts.facts(inventory, name) for name in PLATFORMS}
    chosen = wish.cells if wish.failed_in is None else (*wish.cells, *_not_green(wish.failed_in))
    chosen = chosen if wish.settle is None else (*chosen, *settle(wish.settle))
    made = plan.make(
        read, inventory, facts.__getitem__, hosts.widths(inventory), select=wish.select, cells=chosen
    )
    remarks = [
        f"{name} cells run in {image}, not in the file's image (--image)" for name, image in images.items()
    ]
    if wish.expect_engine:
        remarks.append(
            f"a cell whose engine does not say {wish.expect_engine} will be unproven (--expect-engine)"
        )
    made = replace(made, remarks=(*remarks, *made.remarks))
    if wish.cover:
        made = choosing.sample(made, read, wish.cover, wish.rotate, wish.pins)
    elif wish.rotate or wish.pins:
        msg = "--rotate and --pin choose a sample: give --cover 2 or --cover 3 too"
        raise UsageError(msg)
    if wish.shard:
        # This host's own durations are no common ground: other machines would deal out the cells differently.
        shared = durations.load(wish.durations, needed=True) if wish.durations else {}
        made = choosing.share(made, wish.shard, shared)
    _check_shared_images(made, read.places)
    root = wish.matrix.resolve().parent
    seen = foresee(made.planned(), read.places, root, inventory, wish.environ)
    return replace(made, remarks=(*made.remarks, *seen)), inventory


def outlook(wish: Wish) -> Outlook:
    """The plan, what it will cost on this host, and in which order its cells start."""
    made, inventory = make_plan(wish)
    known = known_durations(wish)
    host = hosts.Assigner(
        inventory=inventory,
        leases=hosts.Leases(hosts.lease_folder()),
        offer=hosts.HostOffer(),
        containers=True,
        jobs=wish.jobs,
        cancelled=lambda: False,
        clean_up=lambda: None,
    )
    order = durations.start_order(made.planned(), known, host)
    costs = durations.cell_costs([entry for entry in order if entry.refused is None], known, host)
    lines = cost.lines(cost.estimate(costs, host.capacity(), wish.jobs)) if costs else []
    return Outlook(
        plan=made,
        cost=tuple(lines),
        order=tuple(entry.cell.id for entry in order if entry.refused is None),
    )


def known_durations(wish: Wish) -> dict[str, float]:
    """Durations of this host, and over them those of a file that was named."""
    own = durations.load(durations.stored_at(wish.cache))
    return own | (durations.load(wish.durations, needed=True) if wish.durations else {})


def candidate(texts: tuple[str, ...], read: Matrix) -> dict[str, str]:
    """The images that replace those of the file, by platform. A folder is taken from where the user stands.

    Raises:
        UsageError: a text that is not ``PLATFORM=REF``, a digest that is none, or a platform that the file does not have.

    """
    found: dict[str, str] = {}
    for text in texts:
        shown = reference.without_credentials(text)
        platform, equals, image = text.partition("=")
        if not equals or not image or image.split() != [image] or platform in found:
            msg = f"--image {shown!r}: write PLATFORM=REF, once for each platform, such as cuda=registry/vllm@sha256:..."
            raise UsageError(msg)
        if not Path(image).is_dir() and reference.credentials(image):
            msg = f"--image {shown!r}: {reference.HOLDS_CREDENTIALS}; {reference.LOG_IN}"
            raise UsageError(msg)
        digest = re.fullmatch(r"(?:.*@)?(sha256:.*)", image)
        if digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest[1]):
            msg = (
                f"--image {shown!r}: a digest is sha256: and 64 hexadecimal digits, as the registry shows it"
            )
            raise UsageError(msg)
        known = read.axes["platform"]
        if platform not in known:
            close = nearest(platform, known)
            hint = f"did you mean {close}?" if close else f"known: {', '.join(known)}"
            msg = f"--image {shown!r}: {read.path} has no platform {platform!r}, {hint}"
            raise UsageError(msg)
        found[platform] = str(Path(image).resolve()) if Path(image).is_dir() else image
    return found


def _check_shared_images(made: Plan, places: Mapping[str, str]) -> None:
    """Refuse one image in two ways: it is prepared, probed and hashed once, under its name.

    Raises:
        UsageError: two platforms name the same image and differ in interpreter, mounts or engine folders.

    """
    seen: dict[str, tuple[str, CellSettings]] = {}
    for entry in made.entries:
        if entry.status not in (Status.PLANNED, Status.NOT_RUNNABLE):
            continue
        now, platform = entry.settings, entry.cell.get("platform")
        before, then = seen.setdefault(now.image, (platform, now))
        if then is now:
            continue
        pairs = {
            "python": (then.python, now.python),
            "mounts": (then.mounts, now.mounts),
            "engine_digest": (then.engine_folders, now.engine_folders),
        }
        differ = [name for name, (one, other) in pairs.items() if one != other]
        if differ:
            place = places.get(f"image {now.image}", "")
            msg = (
                f"{place + ': ' if place else ''}{before} and {platform} share the image {now.image} but not "
                f"{', '.join(differ)}; an image is prepared once, so give one of them another tag of it"
            )
            raise UsageError(msg)


def _with_images(read: Matrix, images: Mapping[str, str]) -> Matrix:
    """The matrix with other images. Its hash stays: what is qualified is no part of what must work."""
    if not images:
        return read
    made: dict[tuple[int, str], CellSettings] = {}

    def changed(item: MatrixCell) -> MatrixCell:
        image = images.get(item.cell.get("platform"))
        if image is None:
            return item
        at = (id(item.settings), image)
        if at not in made:
            made[at] = replace(item.settings, image=image)
        return replace(item, settings=made[at])

    return replace(read, cells=tuple(map(changed, read.cells)))


def plan_diff(wish: Wish, other: str, width: int) -> str:
    """What differs from the plan of another file, or of another revision of the same file (``git:REV``), to this one.

    Raises:
        UsageError: git does not know the revision, or the file in it.

    """
    new, _ = make_plan(wish)
    if not other.startswith("git:"):
        old, _ = make_plan(replace(wish, matrix=Path(other)))
        return diff.text(diff.diff(old, new), width)
    revision = other.removeprefix("git:")
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        path = Path(folder) / wish.matrix.name
        path.write_bytes(_at_revision(wish.matrix, revision))
        old, _ = make_plan(replace(wish, matrix=path))
    return diff.text(diff.diff(replace(old, matrix=f"{wish.matrix} at {revision}"), new), width)


def _at_revision(path: Path, revision: str) -> bytes:
    """A file's bytes in another revision of the repository it is in."""
    argv = ["git", "show", "--end-of-options", f"{revision}:./{path.name}"]
    try:
        done = subprocess.run(argv, cwd=path.resolve().parent, capture_output=True, check=False)
    except OSError as error:
        msg = f"--diff git:{revision}: cannot run git: {error.strerror}"
        raise UsageError(msg) from error
    if done.returncode != 0:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git show failed"])[-1]
        msg = f"--diff git:{revision}: {said}"
        raise UsageError(msg)
    return done.stdout


def _not_green(path: Path) -> tuple[str, ...]:
    before = runs.load(path)
    names = [record.cell.id for record in before.records if not record.verdict.green]
    names += [cell.id for cell in before.missing()]
    if not names:
        msg = f"--failed-in {path}: every planned cell of that run passed; nothing is left to run"
        raise UsageError(msg)
    return tuple(names)


def explain_cell(path: Path, cell: str, *, apply_rules: bool, max_cells: int) -> list[str]:
    """Lines on how every setting of a cell came to be. Raises as :func:`runner.matrix.explain`."""
    return matrix.explain(path, cell, apply_rules=apply_rules, max_cells=max_cells).lines()
