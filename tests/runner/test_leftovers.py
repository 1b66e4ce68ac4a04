"""A lease that nobody locks any more is freed only where it is shown that nothing of its cell can still run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

import pytest

from runner import runtimes
from runner.facts import PreparedImage
from runner.hosts import LeaseOwner, Leases, Means, Request
from runner.pipeline.host import Look, leases_of, sweep
from runner.runtimes.docker_client import connect
from runner.runtimes.labels import MARK, new_mark

ROOT = Path(__file__).parents[2]
HERE = "unix:///here.sock"
CORE = Request(cores=(0,), core_count=1)
DIES = """
import os, sys
from pathlib import Path
from runner.hosts import Leases, Means, Request
folder, runtime, engine = sys.argv[1:]
means = Means(runtime=runtime, engine=engine)
assert Leases(Path(folder), run="dead", means=means).try_acquire(Request(cores=(0,), core_count=1), cell="c")
os.kill(os.getpid(), 9)
"""


def left_by_a_dead_runner(folder: Path, runtime: str, engine: str = "") -> None:
    subprocess.run([sys.executable, "-c", DIES, str(folder), runtime, engine], cwd=ROOT, check=False)


def swept(leases: Leases) -> list[str]:
    said: list[str] = []
    sweep(leases, said.append)
    return [line for line in said if line.startswith(("freed", "not freed"))]


def can_be_had(leases: Leases) -> bool:
    lease = leases.try_acquire(CORE)
    if lease is not None:
        lease.release()
    return lease is not None


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An engine that does not answer."""
    address = f"unix://{tmp_path}/none.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


def test_where_no_engine_answers_a_dead_runners_container_keeps_its_lease_until_a_person_frees_it(
    tmp_path: Path, silent: str
) -> None:
    leases = Leases(tmp_path / "leases")
    left_by_a_dead_runner(leases.folder, "docker", silent)
    (line,) = swept(leases)
    assert line.startswith("not freed: core 0 is held by process ")
    assert f": no engine answers at {silent}, and a container of it may run there; " in line
    assert not can_be_had(leases)
    assert swept(leases) == [], "said once"
    command = line.split("`")[1]
    assert command == f"truncate -s 0 {leases.folder}/core-0.lock"
    subprocess.run(command.split(), check=True)
    assert can_be_had(leases)


def test_a_record_that_does_not_say_what_ran_is_one_of_a_container_for_all_that_is_known(
    tmp_path: Path, silent: str
) -> None:
    leases = Leases(tmp_path / "leases")
    left_by_a_dead_runner(leases.folder, "")
    assert len(swept(leases)) == 1
    assert not can_be_had(leases)


def test_a_dead_runner_of_processes_is_freed_although_no_engine_answers(tmp_path: Path, silent: str) -> None:
    leases = Leases(tmp_path / "leases")
    left_by_a_dead_runner(leases.folder, "process")
    (line,) = swept(leases)
    assert line.startswith("freed: core 0 is held by process ")
    assert can_be_had(leases)


def test_what_a_living_runner_could_not_end_keeps_its_lease(tmp_path: Path, silent: str) -> None:
    means = Means(runtime="process", namespace=runtimes.this_owner().namespace)
    leases = Leases(tmp_path / "leases", run="mine", means=means)
    lease = leases.try_acquire(CORE)
    assert lease is not None
    lease.abandon()
    (line,) = swept(leases)
    assert ": its runner lives, and could not end its cell; " in line
    assert not can_be_had(leases)


class Half(BaseHTTPRequestHandler):
    """An engine that says its version and fails at everything else."""

    def do_GET(self) -> None:
        known = self.path == "/version"
        body = b'{"ApiVersion": "1.44"}' if known else b'{"message": "database is locked"}'
        self.send_response(200 if known else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a unix socket"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Not on the tests' output."""


def test_an_engine_that_fails_half_way_keeps_containers_leases_and_no_process_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"unix://{tmp_path}/e.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    mine = runtimes.this_owner()
    mark = new_mark(replace(mine, start="1"), "dead", "c")
    leases = Leases(tmp_path / "leases")
    left_by_a_dead_runner(leases.folder, "docker", address)
    with (
        UnixStreamServer(f"{tmp_path}/e.sock", Half) as server,
        subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark}) as orphan,
    ):
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            (line,) = swept(leases)
        finally:
            server.shutdown()
        assert orphan.wait(10) == -signal.SIGKILL
    assert f": no engine answers at {address}, and a container of it may run there; " in line
    assert not can_be_had(leases)


@pytest.mark.docker
def test_a_container_that_is_there_keeps_its_lease_whoever_owns_it(
    tmp_path: Path, cheap_image: PreparedImage
) -> None:
    run = f"test-{os.getpid()}"
    means = Means(runtime="docker", engine=runtimes.engine_address())
    leases = Leases(tmp_path / "leases", run=run, means=means)
    config = {
        "Image": cheap_image.ref,
        "Cmd": ["sleep", "600"],
        "Labels": {runtimes.RUN: run, runtimes.CELL: "c", **runtimes.this_owner().labels()},
    }
    with connect() as engine:
        held = engine.create(config, f"vllm-matrix-{run}-leftover")
        try:
            engine.start(held)
            lease = leases.try_acquire(CORE, cell="c")
            assert lease is not None
            lease.abandon()
            (line,) = swept(leases)
            assert ": a container of it is there; " in line
            assert not can_be_had(leases)
        finally:
            engine.remove(held)
    (line,) = swept(leases)
    assert line.startswith("freed: core 0 ")
    assert can_be_had(leases)


@pytest.mark.docker
def test_a_cell_that_could_not_be_removed_goes_with_a_later_look_of_its_own_living_runner(
    tmp_path: Path, cheap_image: PreparedImage
) -> None:
    """Otherwise two runners that an engine's restart met wait for each other's devices until one is killed."""
    run = f"test-{os.getpid()}"
    leases = Leases(
        tmp_path / "leases", run=run, means=Means(runtime="docker", engine=runtimes.engine_address())
    )
    labels = {runtimes.RUN: run, runtimes.CELL: "c", **runtimes.this_owner().labels()}
    config = {"Image": cheap_image.ref, "Cmd": ["sleep", "600"], "Labels": labels}
    lease, said = leases.try_acquire(CORE, cell="c"), list[str]()
    assert lease is not None
    with connect() as engine:
        ended, runs = (engine.create(config, f"vllm-matrix-{run}-{name}") for name in ("ended", "runs"))
        try:
            for each in (ended, runs):
                engine.start(each)
            leases.abandon(lease, ended)
            sweep(leases, said.append)
            left = {each["Id"] for each in engine.containers(runtimes.RUN)}
            assert ended not in left
            assert runs in left
            assert f"removed what a cell of this run left: container {ended} (cell c)" in said
            assert not can_be_had(leases), "a container of that cell runs still"
        finally:
            engine.remove(runs)
    (line,) = swept(leases)
    assert line.startswith("freed: core 0 ")
    assert can_be_had(leases)


OWNER = LeaseOwner(
    lease="1-1-1", thing="core 0", pid=1, started=1, boot_id="b", run="r", cell="c", runtime="docker", engine=HERE, uid=7
)  # fmt: skip
PROCESS = replace(OWNER, runtime="process", engine="")
NONE = runtimes.Containers(cells=frozenset())
THERE = runtimes.Containers(cells=frozenset({("r", "c")}))
PROBE = runtimes.Containers(cells=frozenset({("r", "")}))
OTHER = runtimes.Containers(cells=frozenset({("r", "d"), ("s", "c")}))
STUCK = frozenset({"r"})


def why(
    owner: LeaseOwner | None,
    containers: runtimes.Containers | None = NONE,
    *,
    uid: int = 7,
    engine: str = HERE,
    stuck: frozenset[str] = frozenset(),
    alive: frozenset[LeaseOwner] = frozenset(),
) -> str:
    look = Look(alive=alive, stuck_runs=stuck, containers=containers, engine=engine, uid=uid)
    return look.why_kept(owner)


@pytest.mark.parametrize(
    "kept",
    [
        why(OWNER, None),
        why(OWNER, THERE),
        why(OWNER, PROBE),
        why(OWNER, stuck=STUCK),
        why(OWNER, engine="unix:///elsewhere.sock"),
        why(replace(OWNER, runtime="", engine=""), None),
        why(replace(OWNER, runtime="", engine="", uid=-1)),
        why(PROCESS, None, uid=8),
        why(PROCESS, None, stuck=STUCK),
        why(PROCESS, None, alive=frozenset({PROCESS})),
        why(None, None, uid=0),
        why(None, OTHER, uid=0),
        why(None, stuck=STUCK, uid=0),
        why(None),
    ],
)
def test_where_something_may_run_a_lease_is_kept(kept: str) -> None:
    assert kept


@pytest.mark.parametrize(
    "kept",
    [
        why(OWNER),
        why(OWNER, OTHER),
        why(OWNER, uid=8),
        why(replace(OWNER, runtime="", engine="")),
        why(replace(OWNER, runtime="", engine="", uid=-1), uid=0),
        why(PROCESS, None),
        why(PROCESS, None, uid=0),
        why(None, uid=0),
    ],
)
def test_where_nothing_can_run_a_lease_is_freed(kept: str) -> None:
    assert kept == ""


def test_a_runs_leases_say_what_its_cells_run_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("runner.hosts.lease_folder", lambda: tmp_path)
    monkeypatch.setenv("DOCKER_HOST", HERE)
    for runtime, engine in (("docker", HERE), ("process", "")):
        with leases_of("r", runtime).try_acquire(CORE):  # type: ignore[union-attr]
            (holder,) = leases_of("other", "docker").holders()
            assert holder.owner is not None
            assert (holder.owner.runtime, holder.owner.engine) == (runtime, engine)
            assert holder.owner.namespace == runtimes.this_owner().namespace != ""
