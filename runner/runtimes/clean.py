"""Finds and removes what runners that no longer live have left behind, and nothing of anybody else."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from runner.runtimes import labels
from runner.runtimes.docker_cell import remove
from runner.runtimes.docker_client import Engine, connect
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.labels import Owner, owner_of_home, read_mark, this_owner
from runner.runtimes.process_tree import CellTree, marked
from runner.runtimes.stopping import KILL_S


class Kind(StrEnum):
    """What can be left behind."""

    CONTAINER = "container"
    IMAGE = "image"
    PROCESS = "process"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One thing that was left behind. ``run`` and ``cell`` are as its labels say; ``problem`` why it stayed.

    For processes ``mark`` is what all of a cell carry, and ``id`` one of them.
    """

    kind: Kind
    id: str
    run: str = ""
    cell: str = ""
    problem: str = ""
    mark: str = ""

    def __str__(self) -> str:
        name = " ".join(filter(None, (str(self.kind), self.id, f"(cell {self.cell})" if self.cell else "")))
        return f"{name}: {self.problem}" if self.problem else name


Connect = Callable[[], Engine]
CONNECT_S = 10.0
"""How long an engine may take to answer, seconds: more than when it is looked for, since orphans may load it."""


def find_orphans(*, connect: Connect | None = None, proc: Path = Path("/proc")) -> tuple[Orphan, ...]:
    """Containers and processes whose owner is dead, or lived on an earlier boot of this host. Where no engine answers, processes only.

    Raises :class:`EngineError` for an engine that answered once and then did not.
    """
    with _engine(connect) as engine:
        return _find(engine, proc)


def clean(
    *,
    images: bool = False,
    connect: Connect | None = None,
    proc: Path = Path("/proc"),
    unremoved: frozenset[str] = frozenset(),
) -> tuple[Orphan, ...]:
    """Remove every orphan, and with ``images`` every image this tool made that no container needs.

    ``unremoved`` are containers of this very runner whose cells have ended: they are removed as well.
    What was removed comes first; what could not be removed follows with its problem. Raises as :func:`find_orphans`.
    """
    with _engine(connect) as engine:
        done = [_end(orphan, engine) for orphan in _find(engine, proc, unremoved)]
        if images and engine is not None:
            done += _images(engine)
    return tuple(sorted(done, key=lambda orphan: bool(orphan.problem)))


def _find(engine: Engine | None, proc: Path, unremoved: frozenset[str] = frozenset()) -> tuple[Orphan, ...]:
    found = []
    for item in engine.containers(labels.RUN) if engine else ():
        marks = item.get("Labels") or {}
        owner = Owner.read(marks)
        if _abandoned(owner, proc) or (item["Id"] in unremoved and owner == this_owner()):
            found.append(
                Orphan(
                    kind=Kind.CONTAINER,
                    id=str(item["Id"]),
                    run=marks[labels.RUN],
                    cell=marks.get(labels.CELL, ""),
                )
            )
    return (*found, *_processes(proc), *_folders(proc))


def _processes(proc: Path) -> Iterator[Orphan]:
    """One for each cell, or program that prepares one, of which a process lives and the owner does not."""
    said = set()
    for seen, mark in marked(proc):
        named = read_mark(mark)
        if named is None or mark in said or seen.pid == os.getpid() or not _abandoned(named.owner, proc):
            continue
        said.add(mark)
        yield Orphan(kind=Kind.PROCESS, id=str(seen.pid), run=named.run, cell=named.name, mark=mark)


def _folders(proc: Path) -> Iterator[Orphan]:
    """Private folders of cells whose owner is gone: the tests' own files, which may be large."""
    for path in sorted(Path(tempfile.gettempdir()).glob("vllm-matrix-cell-*")):
        if not _abandoned(owner_of_home(path.name), proc):
            continue
        with suppress(OSError):  # another runner removes it at this moment
            facts = path.lstat()
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                yield Orphan(kind=Kind.FOLDER, id=str(path))


def _abandoned(owner: Owner | None, proc: Path) -> bool:
    # Labelled as ours but by no owner that can be told: left alone, its removal is for a person.
    return owner is not None and not owner.alive(proc)


@contextmanager
def _engine(chosen: Connect | None) -> Iterator[Engine | None]:
    try:
        engine = (chosen or (lambda: connect(timeout_s=CONNECT_S)))()
    except EngineError:
        yield None
        return
    with engine:
        yield engine


def _end(orphan: Orphan, engine: Engine | None) -> Orphan:
    problem = ""
    if orphan.kind is Kind.CONTAINER and engine is not None:
        problem = remove(engine, orphan.id)
    elif orphan.kind is Kind.PROCESS:
        problem = _end_processes(orphan.mark)
    elif orphan.kind is Kind.FOLDER:
        shutil.rmtree(orphan.id, ignore_errors=True)
        problem = "could not be removed" if Path(orphan.id).exists() else ""
    return replace(orphan, problem=problem)


def _end_processes(mark: str) -> str:
    try:
        left = CellTree(mark, None).end(KILL_S)
    except OSError as error:
        return f"cannot tell whether it still runs: {error.strerror}"
    alive = ", ".join(str(each.pid) for each in left)
    return f"still alive {KILL_S:g} s after SIGKILL: {alive}" if left else ""


def _images(engine: Engine) -> list[Orphan]:
    done = []
    for image in engine.images({"label": labels.IMAGE}):
        tags = [tag for tag in image.get("RepoTags") or () if tag != "<none>:<none>"]
        # What somebody else built on a base of ours has its label too, but a name of their own.
        for name in (
            [tag for tag in tags if tag.startswith(labels.REPOSITORY)] if tags else [str(image["Id"])]
        ):
            problem = ""
            try:
                engine.remove_image(name)
            except EngineError as error:
                problem = str(error)
            done.append(Orphan(kind=Kind.IMAGE, id=name, problem=problem))
    return done
