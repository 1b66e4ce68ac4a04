"""What a soak looks at, by ways of its own: the engine's containers and events, locks as the kernel has them, folders."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Self

from runner import runs
from runner.errors import BadRunFolder
from runner.model import Outcome
from runner.records import Run
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.labels import CELL, MARK, RUN, new_mark, this_owner
from tests.soak.private_engine import PrivateEngine

CODE = ("runtimes", "cells", "hosts", "runs", "pipeline", "interrupt.py", "plan.py", "schedule.py")


def code_digest(project: Path) -> str:
    """What decides over life and death of cells, as one hash: results of commits with the same one add up."""
    digest = hashlib.sha256()
    for name in CODE:
        path = project / "runner" / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(project).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def containers_of(engine: PrivateEngine, run_ids: set[str], label: str = RUN) -> list[str]:
    """Containers, running or not, of these runs; with ``label`` CELL those of their cells alone."""
    with engine.connect() as client:
        return [str(each["Id"]) for each in client.containers(label) if each["Labels"].get(RUN) in run_ids]


def read(folder: Path) -> tuple[list[str], Run | None]:
    """A run folder: whether it can be read, and whether outcomes and missing cells add up to the plan."""
    try:
        run = runs.load(folder)
    except BadRunFolder as error:
        return [f"not readable: {error}"], None
    planned = len(run.plan.planned())
    by_outcome = {outcome: sum(r.verdict.outcome is outcome for r in run.records) for outcome in Outcome}
    cells = {record.cell for record in run.records}
    if sum(by_outcome.values()) + len(run.missing()) != planned or len(cells) != len(run.records):
        return [f"{folder.name}: outcomes and missing cells do not add up to {planned}"], run
    return [], run


def leases_held(folder: Path) -> list[str]:
    """Lock files that somebody holds or that still name an owner, now that no runner lives."""
    held = []
    for path in sorted(folder.glob("*.lock")) if folder.is_dir() else []:
        descriptor = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held.append(f"{path.name} is locked")
        else:
            if path.name.startswith(("core-", "device-", "memory-")) and path.stat().st_size:
                held.append(f"{path.name} names {path.read_text()[:200]}")
        finally:
            os.close(descriptor)
    return held


def double_leases(engine: PrivateEngine, place: Path, run_ids: set[str], since: float) -> list[str]:
    """Cores that two containers had at one time: the cells say which cores, the engine's events say when."""
    cores: dict[str, str] = {}
    for held in place.glob("reports-*/*/cells/*/attempt-*/**/held.txt"):
        parts = held.relative_to(place).parts
        name = f"vllm-matrix-{parts[1]}-{parts[3]}-{parts[4].removeprefix('attempt-')}"
        cores[name] = held.read_text().partition(":")[2].strip()
    spans: dict[str, list[float]] = {}
    with engine.connect() as client:
        for event in client.client.events(since=int(since), until=int(time.time()) + 1, decode=True):
            names = event.get("Actor", {}).get("Attributes", {})
            if names.get(RUN) not in run_ids or event.get("Action") not in {"start", "die"}:
                continue
            spans.setdefault(names["name"], []).append(event["timeNano"] / 1e9)
    lived = [(name, times[0], times[1]) for name, times in spans.items() if len(times) == 2 and name in cores]
    return [
        f"core {cores[one]} was given to {one} and {other} at one time"
        for index, (one, start, end) in enumerate(lived)
        for other, begin, stop in lived[index + 1 :]
        if cores[one] == cores[other] and start < stop and begin < end
    ]


DEAD = "of a dead owner"


class Decoys:
    """Containers and processes that no runner may touch, and perhaps one of each that the next start must remove."""

    def __init__(self, engine: PrivateEngine, *, orphan: bool) -> None:
        self._engine = engine
        self._orphan = orphan
        self._keep: dict[str, str] = {}
        self._dead = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        mine = this_owner()
        kinds = {
            "of a living owner": {RUN: "soak-decoy", CELL: "x", **mine.labels()},
            "without labels": {},
            "without an owner": {RUN: "soak-decoy", CELL: "x"},
        }
        for kind, labels in kinds.items():
            self._keep[kind] = self._start(labels)
        dead = replace(mine, start="1")
        if self._orphan:
            self._dead = self._start({RUN: "soak-orphan", CELL: "x", **dead.labels()}, orphan=True)
        self._process("of a living owner", {MARK: new_mark(mine, "soak-decoy", "x")})
        self._process("without a mark", {})
        if self._orphan:
            self._process(DEAD, {MARK: new_mark(dead, "soak-orphan", "x")})
        return self

    def _process(self, kind: str, marks: dict[str, str]) -> None:
        self._processes[kind] = subprocess.Popen(
            ["sleep", "600"], env={**os.environ, **marks}, start_new_session=True
        )

    def _start(self, labels: dict[str, str], *, orphan: bool = False) -> str:
        with self._engine.connect() as client:
            config = {
                "Image": self._engine.image,
                "Cmd": ["sleep", "600"],
                "Labels": labels,
                "HostConfig": {"Init": True},
            }
            held = client.create({**config, "NetworkDisabled": True}, f"soak-{os.urandom(4).hex()}")
            try:
                client.start(held)
            except EngineError:
                # A runner of a soak beside this one may have removed it already, as it must.
                if not orphan:
                    raise
        return held

    def problems(self) -> list[str]:
        """Decoys that are gone or stopped (a killed daemon stops all), and an orphan that is not gone."""
        with self._engine.connect() as client:
            there = {str(each["Id"]): each["State"] for each in client.containers(RUN)}
            there |= {str(each["Id"]): each["State"] for each in client.client.containers(all=True)}
        found = [
            f"foreign container {kind} is {there.get(held, 'gone')}"
            for kind, held in self._keep.items()
            if held not in there or (there[held] != "running" and not self._engine.killed)
        ]
        found += [
            f"foreign process {kind} was ended"
            for kind, held in self._processes.items()
            if kind != DEAD and held.poll() is not None
        ]
        if self._orphan and self._processes[DEAD].poll() is None:
            found.append("the process of a dead owner is left")
        return found + (["the container of a dead owner is left"] if self._dead in there else [])

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        with self._engine.connect() as client:
            for held in (*self._keep.values(), self._dead):
                if held:
                    with contextlib.suppress(EngineError):  # gone already is what is wanted
                        client.remove(held)
