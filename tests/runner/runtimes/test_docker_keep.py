"""Prepared images outlive a prune by somebody else: first against a scripted engine, then against a real one that prunes."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest

from runner.errors import PrepareError
from runner.facts import PreparedImage, Runtime
from runner.interrupt import CancelToken
from runner.model import Fault, Stop
from runner.runtimes import BOOT_ID, OWNER_PID, OWNER_START, RUN, FakeRuntime, Stoppable, this_owner
from runner.runtimes.clean import clean
from runner.runtimes.docker import DockerRuntime
from runner.runtimes.docker_client import Engine, connect
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.docker_keep import hold
from runner.runtimes.labels import KEEPS
from tests.runner.runtimes.fakes import FakeClient, api_error, read_timeout, refused

ID = "sha256:" + "ab" * 32
IMAGE = PreparedImage(ref="reg.invalid/app@sha256:d16e57", digest="sha256:d16e57", id=ID, how="pulled")


class Never:
    def poll(self, elapsed_s: float) -> Stop | None:
        return None


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def runtime(client: FakeClient, tmp_path: Path) -> DockerRuntime:
    return DockerRuntime(lambda: Engine(client), root=tmp_path, cache=tmp_path, clock=client.time.clock())


def test_an_image_is_kept_by_a_container_that_sleeps_and_is_told_as_ours(
    runtime: DockerRuntime, client: FakeClient
) -> None:
    let_go = runtime.keep(IMAGE, {RUN: "r1"})
    assert client.calls == ["create vllm-matrix-r1-keeps-image-abababababab", "start"]
    assert client.config["Image"] == ID
    assert (client.config["Cmd"], client.config["HostConfig"]["NetworkMode"]) == (
        ["sleep", "infinity"],
        "none",
    )
    assert client.config["Labels"] == {RUN: "r1", KEEPS: ID, **this_owner().labels()}
    assert let_go() == ""
    assert client.calls[2:] == [f"remove {client.id}"]


def test_cells_of_a_kept_image_start_from_its_id(
    runtime: DockerRuntime, client: FakeClient, make_spec: Any
) -> None:
    runtime.keep(IMAGE, {RUN: "r1"})
    runtime.run(make_spec("true", image=IMAGE.ref), Never())
    assert client.config["Image"] == ID
    runtime.run(make_spec("true", image="another:1"), Never())
    assert client.config["Image"] == "another:1"


@pytest.mark.parametrize(
    ("error", "fault"),
    [(api_error(404, "No such image: sha256:abab"), Fault.PULL), (refused(), Fault.DAEMON)],
)
def test_an_image_that_is_gone_already_is_told_from_an_engine_that_is(
    runtime: DockerRuntime, client: FakeClient, error: Exception, fault: Fault
) -> None:
    client.always = lambda call: error if call.startswith("create") else None
    with pytest.raises(PrepareError, match=r"app@sha256:d16e57 cannot be kept from being pruned: ") as caught:
        runtime.keep(IMAGE, {RUN: "r1"})
    assert caught.value.fault is fault


def test_an_image_without_sleep_is_kept_by_a_container_that_does_not_run(
    runtime: DockerRuntime, client: FakeClient
) -> None:
    missing = api_error(400, 'exec: "sleep": executable file not found in $PATH')
    client.always = lambda call: missing if call == "start" else None
    assert runtime.keep(IMAGE, {RUN: "r1"})() == ""
    assert client.calls[-1] == f"remove {client.id}"


def test_an_engine_that_goes_away_at_the_start_leaves_no_container(
    runtime: DockerRuntime, client: FakeClient
) -> None:
    client.always = lambda call: refused() if call == "start" else None
    with pytest.raises(PrepareError, match="cannot be kept"):
        runtime.keep(IMAGE, {RUN: "r1"})
    assert client.calls[-1] == f"remove {client.id}"


def test_what_cannot_be_removed_is_named_and_a_hung_engine_is_asked_twice(
    runtime: DockerRuntime, client: FakeClient
) -> None:
    let_go = runtime.keep(IMAGE, {RUN: "r1"})
    client.always = lambda call: read_timeout() if call.startswith("remove") else None
    assert let_go().startswith("container f00df00df00d is left behind: no answer in time")
    assert client.calls.count(f"remove {client.id}") == 2


def test_a_stop_lets_the_keeping_of_an_image_end() -> None:
    cancel = CancelToken()

    class Keeping(FakeRuntime):
        def keep(self, image: PreparedImage, labels: Any) -> Any:
            cancel.cancel(signal.SIGTERM)
            return super().keep(image, labels)

    runtime = Keeping({})
    let_go = Stoppable(runtime, cancel).keep(IMAGE, {})
    assert runtime.kept == [IMAGE.ref]
    assert let_go() == ""
    assert runtime.kept == []


# ---- for real ----


def build(runtime: Runtime, folder: Path, mark: str) -> PreparedImage:
    """An image that nothing else needs, with a label by which a prune finds it and no other."""
    folder.mkdir()
    (folder / "Dockerfile").write_text(
        f"ARG BASE=debian:bookworm-slim\nFROM ${{BASE}}\nLABEL prune-test={mark}\nCOPY file /file\n"
    )
    (folder / "file").write_text(f"{mark} {folder.name}")
    return runtime.image(str(folder), folder.parent / f"{folder.name}.log")


def prune(engine: Engine, mark: str, run: str) -> set[str]:
    """``docker system prune -a``, for containers of one run and images with one mark; the ids of images that are gone."""
    engine.client.timeout = 60
    engine.client.prune_containers({"label": [f"{RUN}={run}"]})
    done = engine.client.prune_images({"dangling": False, "label": [f"prune-test={mark}"]})
    return {entry["Deleted"] for entry in done["ImagesDeleted"] or () if "Deleted" in entry}


@pytest.mark.docker
def test_a_real_prune_takes_what_nobody_keeps_and_spares_what_a_run_keeps(
    docker_runtime: Runtime, make_spec: Any, tmp_path: Path
) -> None:
    mark, run = uuid.uuid4().hex, f"test-{os.getpid()}"
    loose = build(docker_runtime, tmp_path / "loose", mark)
    kept = build(docker_runtime, tmp_path / "kept", mark)
    let_go = docker_runtime.keep(kept, {RUN: run})
    with connect() as engine:
        try:
            assert prune(engine, mark, run) >= {loose.digest}
            assert engine.image(loose.digest) is None
            assert engine.image(kept.ref) is not None
            # Of two names a prune takes one, although a container uses the image: here the run's own is taken.
            engine.client.tag(kept.ref, "prune-test-other", mark)
            engine.client.remove_image(kept.ref)
            assert engine.image(kept.ref) is None
            assert prune(engine, mark, run) == set()
            with pytest.raises(EngineError, match="is using its referenced image"):
                engine.remove_image(f"prune-test-other:{mark}")
            spec = make_spec("cat", "/file", image=kept.ref)
            done = docker_runtime.run(spec, Never())
            assert (done.exit_code, spec.log_path.read_text()) == (0, f"{mark} kept")
        finally:
            assert let_go() == ""
        assert kept.digest in prune(engine, mark, run)
        assert engine.image(kept.digest) is None


@pytest.mark.docker
def test_what_a_dead_runner_keeps_goes_the_way_of_its_cells(
    docker_runtime: Runtime, cheap_image: PreparedImage
) -> None:
    dead = {OWNER_PID: str(os.getpid()), OWNER_START: "1", BOOT_ID: this_owner().boot_id}
    with connect() as engine:
        held = hold(engine, cheap_image.digest, {RUN: f"dead-{os.getpid()}", **dead})
        assert engine.inspect(held)["State"]["Status"] == "running"
        assert held in [orphan.id for orphan in clean() if not orphan.problem]
        with pytest.raises(EngineError, match="No such container"):
            engine.inspect(held)
