"""Preparing images: contexts, pulls and builds against a scripted engine, then one real build."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from docker.auth import INDEX_NAME

from runner.errors import PrepareError
from runner.facts import PreparedImage, Runtime
from runner.interrupt import CancelToken
from runner.model import Culprit, Fault, Stop
from runner.runtimes import Stoppable, describe_host, disk, docker_image
from runner.runtimes.docker_base import default_base
from runner.runtimes.docker_client import Engine, connect
from runner.runtimes.docker_context import Context, context_of
from runner.runtimes.pip_host import PipSettings
from tests.runner.runtimes.fakes import api_error

DATA = Path(__file__).parent / "data"
PROJECT = Path(__file__).resolve().parents[3]


@dataclass
class ImageClient:
    """The image half of ``docker.APIClient``. ``answers`` are what pulls do, in order: entries or an exception."""

    local: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: list[list[dict[str, Any]] | Exception] = field(default_factory=list)
    build_says: list[dict[str, Any]] = field(default_factory=list)
    build_later: list[list[dict[str, Any]]] = field(default_factory=list)
    pulls: int = 0
    builds: list[dict[str, Any]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    timeout: float = 60.0
    store: str = "/nowhere"
    driver: list[list[str]] = field(default_factory=list)

    def inspect_image(self, ref: str) -> dict[str, Any]:
        for name, facts in self.local.items():
            if ref in {name, facts["Id"], *facts.get("RepoDigests", ())}:
                return facts
        raise api_error(404, f"No such image: {ref}")

    def close(self) -> None:
        """Connections of a fake need no closing."""

    def pull(self, ref: str, **_: Any) -> Iterator[dict[str, Any]]:
        self.pulls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        self.local[ref] = {"Id": "sha256:1d", "RepoDigests": ["reg.invalid/team/app@sha256:d16e57"]}
        return iter(answer)

    def info(self) -> dict[str, Any]:
        return {"DockerRootDir": self.store, "DriverStatus": self.driver}

    def networks(self, names: list[str]) -> list[dict[str, str]]:
        return [{"Name": "bridge"}]

    def images(self, filters: dict[str, Any]) -> list[dict[str, str]]:
        return [{"Id": "sha256:" + "a" * 64}, {"Id": "sha256:" + "b" * 64}]

    def remove_image(self, ref: str, noprune: bool) -> None:
        self.removed.append(ref)

    def build(self, **options: Any) -> Iterator[dict[str, Any]]:
        with tarfile.open(fileobj=options.pop("fileobj")) as tar:
            self.builds.append({**options, "files": sorted(tar.getnames())})
        said = self.build_says
        if self.build_later:
            self.build_says = self.build_later.pop(0)
        if not any("error" in entry for entry in said):
            self.local[options["tag"]] = {
                "Id": "sha256:b111",
                "Config": {"Labels": {"vllm-matrix.python": "/opt/p"}},
            }
        return iter(said)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made, in seconds; waiting for a child in small steps goes on."""
    slept: list[float] = []
    real = time.sleep
    monkeypatch.setattr(
        time, "sleep", lambda seconds: slept.append(seconds) if seconds >= 1 else real(seconds)
    )
    return slept


def prepare(client: ImageClient, ref: str, root: Path) -> PreparedImage:
    return docker_image.prepare(
        lambda: Engine(client), ref, root=root, cache=root / "cache", log_path=root / "image.log"
    )


# ---- pull ----

ROWS = [
    row
    for row in json.loads((DATA / "pull-errors.json").read_text())
    if row["retry"].startswith(("yes", "later"))
]


def test_a_tag_is_pulled_and_resolved_to_a_digest(tmp_path: Path) -> None:
    client = ImageClient(answers=[[{"status": "Pulling"}]])
    image = prepare(client, "reg.invalid/team/app:v1", tmp_path)
    assert (image.ref, image.digest, image.id, image.how) == (
        "reg.invalid/team/app@sha256:d16e57",
        "sha256:d16e57",
        "sha256:1d",
        "pulled",
    )
    assert image.python == "python3"


@pytest.mark.parametrize(
    ("ref", "known", "said"),
    [
        ("reg.invalid/team/app@sha256:dddd", ["reg.invalid/team/app@sha256:dddd"], "reg.invalid/team/app@sha256:dddd"),
        ("app:v1@sha256:dddd", ["app@sha256:eeee", "app@sha256:dddd"], "app@sha256:dddd"),
        ("app:v1", ["reg.invalid/my-app@sha256:eeee", "app@sha256:dddd"], "app@sha256:dddd"),
        (f"{INDEX_NAME}/library/app:v1", ["reg.invalid/app@sha256:eeee", "app@sha256:dddd"], "app@sha256:dddd"),
        ("team/app", ["reg.invalid/team/app@sha256:eeee", f"{INDEX_NAME}/team/app@sha256:dddd"], f"{INDEX_NAME}/team/app@sha256:dddd"),
        ("reg.invalid:5000/app:v1", ["reg.invalid:5000/app@sha256:dddd", "app@sha256:eeee"], "reg.invalid:5000/app@sha256:dddd"),
        ("my-own-name:v1", ["reg.invalid/app@sha256:dddd"], "reg.invalid/app@sha256:dddd"),
        ("my-own-name:v1", ["reg.invalid/app@sha256:dddd", "app@sha256:eeee"], "sha256:cccc"),
        ("my-own-name:v1", ["<none>@sha256:dddd"], "sha256:cccc"),
        ("my-own-name:v1", [], "sha256:cccc"),
        ("sha256:cccc", ["app@sha256:dddd"], "sha256:cccc"),
    ],
)  # fmt: skip
def test_the_digest_is_the_registrys_where_one_is_known_for_what_was_asked(
    tmp_path: Path, ref: str, known: list[str], said: str
) -> None:
    client = ImageClient(answers=[api_error(500, "no such host")])
    client.local[ref] = {"Id": "sha256:cccc", "RepoDigests": known}
    client.local[said] = client.local[ref]
    image = prepare(client, ref, tmp_path)
    assert (image.ref, image.digest, image.id) == (said, said.rpartition("@")[2], "sha256:cccc")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.get("text", "stream"))[:40])
def test_f06_a_pull_that_may_succeed_later_is_tried_again_with_growing_pauses(
    tmp_path: Path, row: dict[str, Any], no_pauses: list[float]
) -> None:
    failure: Any = row["stream"] if "stream" in row else api_error(row["status"], row["text"])
    client = ImageClient(answers=[failure, failure, [{"status": "done"}]])
    assert prepare(client, "team/app:v1", tmp_path).how == "pulled"
    assert no_pauses == [2.0, 8.0]


def test_f06_tries_are_bounded(tmp_path: Path) -> None:
    client = ImageClient(answers=[api_error(500, "toomanyrequests: You have reached your pull rate limit.")])
    with pytest.raises(PrepareError, match=r"team/app:v1: toomanyrequests") as caught:
        prepare(client, "team/app:v1", tmp_path)
    assert (caught.value.fault, client.pulls) == (Fault.PULL, 4)


@pytest.mark.parametrize(
    "text", ["unauthorized: authentication required", "manifest unknown: manifest unknown"]
)
def test_f06_a_pull_that_cannot_succeed_is_not_tried_again(tmp_path: Path, text: str) -> None:
    client = ImageClient(answers=[api_error(500, text)])
    with pytest.raises(PrepareError) as caught:
        prepare(client, "team/app:v1", tmp_path)
    assert (caught.value.fault, client.pulls) == (Fault.PULL, 1)


def test_a_local_image_serves_where_nothing_can_be_pulled_and_that_is_said(tmp_path: Path) -> None:
    client = ImageClient(answers=[api_error(500, "lookup reg.invalid: no such host")])
    client.local["app:v1"] = {"Id": "sha256:10ca1", "RepoDigests": []}
    image = prepare(client, "app:v1", tmp_path)
    assert (image.ref, image.digest, client.pulls) == ("sha256:10ca1", "sha256:10ca1", 1)
    assert image.how == "local, no registry gave it"


# ---- build ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "images" / "cpu"
    (folder / "sub").mkdir(parents=True)
    (folder / "Dockerfile").write_text("ARG BASE=base:1\nFROM ${BASE}\nLABEL vllm-matrix.build-bytes=1000\n")
    (folder / "requirements.txt").write_text("torch==2.13.0+cpu\n")
    (folder / "sub" / "file").write_text("x")
    return folder


def test_a_folder_is_built_once_and_then_found_by_its_content(tmp_path: Path, folder: Path) -> None:
    client = ImageClient(local={"base:1": {"Id": "sha256:ba5e"}})
    first, again = prepare(client, "images/cpu", tmp_path), prepare(client, "images/cpu", tmp_path)
    assert (first.how, again.how, first.ref) == ("built", "cached", again.ref)
    assert first.ref.startswith("vllm-matrix/cpu:")
    assert (first.digest, first.base, first.python) == ("sha256:b111", "base:1 sha256:ba5e", "/opt/p")
    assert first.id == first.digest
    assert client.builds[0]["buildargs"]["BASE"] == "base:1"
    assert client.builds[0]["labels"] == {"vllm-matrix.image": "cpu"}
    (folder / "sub" / "file").write_text("y")
    assert prepare(client, "images/cpu", tmp_path).ref != first.ref


def test_a_build_that_fails_says_its_last_lines(tmp_path: Path, folder: Path) -> None:
    says = [
        {"stream": "Step 1/2\n"},
        {"stream": "boom: exploded\n"},
        {"error": "returned a non-zero code: 3"},
    ]
    client = ImageClient(local={"base:1": {"Id": "sha256:ba5e"}}, build_says=says)
    with pytest.raises(
        PrepareError, match=r"image cpu could not be built: .*boom: exploded.*non-zero code: 3"
    ) as caught:
        prepare(client, "images/cpu", tmp_path)
    assert caught.value.fault is Fault.BUILD
    assert "boom: exploded" in (tmp_path / "image.log").read_text()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("Temporary failure in name resolution", Fault.NETWORK),
        ("E: Unable to fetch some archives, maybe run apt-get update", Fault.NETWORK),
        ("OSError: [Errno 28] No space left on device", Fault.DISK),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", Fault.BUILD),
    ],
)
def test_a_build_that_fails_names_whose_fault_it_is_and_only_a_network_is_tried_again(
    tmp_path: Path, folder: Path, no_pauses: list[float], line: str, fault: Fault
) -> None:
    client = ImageClient(
        local={"base:1": {"Id": "sha256:ba5e"}}, build_says=[{"stream": line}, {"error": "code 1"}]
    )
    with pytest.raises(PrepareError) as caught:
        prepare(client, "images/cpu", tmp_path)
    assert caught.value.fault is fault
    assert (len(client.builds), no_pauses) == ((3, [5.0, 20.0]) if fault is Fault.NETWORK else (1, []))


def test_a_build_whose_network_comes_back_is_built(
    tmp_path: Path, folder: Path, no_pauses: list[float]
) -> None:
    down = [{"stream": "Connection reset by peer\n"}, {"error": "code 1"}]
    client = ImageClient(local={"base:1": {"Id": "sha256:ba5e"}}, build_says=down)
    client.build_later = [[{"stream": "ok\n"}]]
    assert prepare(client, "images/cpu", tmp_path).how == "built"
    assert (len(client.builds), no_pauses) == (2, [5.0])
    assert "trying again in 5 s" in (tmp_path / "image.log").read_text()


def test_the_base_of_a_build_is_pulled_as_patiently_as_an_image(
    tmp_path: Path, folder: Path, no_pauses: list[float]
) -> None:
    busy = api_error(500, "toomanyrequests: You have reached your pull rate limit.")
    client = ImageClient(answers=[busy, busy, [{"status": "done"}]])
    assert prepare(client, "images/cpu", tmp_path).base == "base:1 sha256:1d"
    assert no_pauses == [2.0, 8.0]


def test_a_build_removes_its_own_builder_stage_and_no_other(tmp_path: Path, folder: Path) -> None:
    client = ImageClient(
        local={"base:1": {"Id": "sha256:ba5e"}}, build_says=[{"stream": " ---> aaaaaaaaaaaa\n"}]
    )
    prepare(client, "images/cpu", tmp_path)
    assert client.removed == ["sha256:" + "a" * 64]


@pytest.mark.parametrize("base_is_here", [True, False])
def test_a_disk_that_is_too_small_is_said_before_the_build_and_before_its_base_is_pulled(
    tmp_path: Path, folder: Path, base_is_here: bool
) -> None:
    text = (folder / "Dockerfile").read_text()
    (folder / "Dockerfile").write_text(text.replace("=1000", f"={9 << 50}"))
    client = ImageClient(local={"base:1": {"Id": "sha256:ba5e"}} if base_is_here else {}, store="/")
    with pytest.raises(
        PrepareError,
        match=r"^building the image cpu needs 9,437,184\.0 GiB free on the disk of /, which has [0-9,.]+ GiB: make",
    ) as caught:
        prepare(client, "images/cpu", tmp_path)
    assert (caught.value.fault, client.builds, client.pulls) == (Fault.DISK, [], 0)


def test_a_disk_that_is_too_small_is_said_before_a_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ImageClient(answers=[[{"status": "Pulling"}]], store="/")
    monkeypatch.setenv(disk.PULL_VARIABLE, "9000000")
    with pytest.raises(
        PrepareError, match=r"pulling team/app:v1 needs 9,000,000\.0 GiB free .*PULL_GIB"
    ) as caught:
        prepare(client, "team/app:v1", tmp_path)
    assert (caught.value.fault, client.pulls) == (Fault.DISK, 0)
    monkeypatch.setenv(disk.PULL_VARIABLE, "0.001")
    assert prepare(client, "team/app:v1", tmp_path).how == "pulled"
    monkeypatch.setenv(disk.PULL_VARIABLE, "9000000")  # what is here already serves
    assert prepare(client, "team/app:v1", tmp_path).how == "local, no room to pull"
    assert client.pulls == 1


@pytest.mark.parametrize("text", ["ten", "nan", "inf"])
def test_a_need_that_is_no_number_is_the_configurations_fault(text: str) -> None:
    with pytest.raises(PrepareError, match=f"VLLM_MATRIX_PULL_GIB='{text}' is no number of GiB") as caught:
        disk.need_of_pull({disk.PULL_VARIABLE: text})
    assert caught.value.culprit is Culprit.CONFIG


def test_the_disk_of_an_engine_is_where_its_images_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_CONTAINERD", tmp_path)
    own = {"DockerRootDir": "/", "DriverStatus": [["Backing Filesystem", "extfs"]]}
    snapshotter = {"DockerRootDir": "/", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    assert disk.stores(own) == (Path("/"),)
    assert disk.stores(snapshotter) == (Path("/"), tmp_path)
    assert disk.stores({"DockerRootDir": "/of/another/host"}) == ()
    assert disk.stores({}) == ()


def test_an_image_by_digest_that_is_here_is_not_asked_for(tmp_path: Path) -> None:
    client = ImageClient(answers=[api_error(500, "no such host")])
    digest = "reg.invalid/team/app@sha256:d16e57"
    client.local["team/app:v1"] = {"Id": "sha256:1d", "RepoDigests": [digest]}
    assert (prepare(client, digest, tmp_path).how, client.pulls) == ("local", 0)
    assert (prepare(client, "sha256:1d", tmp_path).digest, client.pulls) == ("sha256:1d", 0)


def test_the_stated_need_is_read_from_the_dockerfile() -> None:
    text = (PROJECT / "images/cpu/Dockerfile").read_text()
    assert disk.need_of(text, "vllm-matrix.build-bytes") >= 10**10
    assert disk.need_of(text, "vllm-matrix.venv-bytes") >= 10**9
    assert disk.need_of(text, "vllm-matrix.other") == 0
    assert default_base(text) == "debian:bookworm-slim"
    assert default_base("FROM scratch\n") == ""


def test_the_context_holds_wheels_settings_and_certificates_of_the_host(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"wheel")
    bundle = tmp_path / "ca.crt"
    bundle.write_text("CERTIFICATE")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    context = context_of(folder, PipSettings(wheel_folders=(wheels,)))
    context.write(tmp_path / "context.tar")
    with tarfile.open(tmp_path / "context.tar") as tar:
        names = set(tar.getnames())
        conf = tar.extractfile("host/pip.conf")
        assert conf is not None
        assert "cert = /host/ca.crt\n" in conf.read().decode()
    assert names == {
        "Dockerfile", "requirements.txt", "sub/file", "wheels", f"wheels/{wheel.name}", "host", "host/ca.crt", "host/pip.conf",
    }  # fmt: skip
    monkeypatch.delenv("SSL_CERT_FILE")
    without = context_of(folder, PipSettings(wheel_folders=(wheels,)))
    assert without.ca_bundle is None
    assert without.key("b") == context.key("b")  # a renewed certificate builds nothing anew
    assert without.key("c") != context.key("b")
    assert Context(folder=folder, wheels=(), settings=PipSettings()).key("b") != context.key("b")


# ---- for real ----


@pytest.mark.docker
def test_certificates_of_the_host_are_in_no_layer_of_a_built_image(
    docker_runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layers of the very Dockerfile pattern that images/cpu uses, built in seconds."""
    needle = "-----BEGIN CERTIFICATE-----\nc2VjcmV0LWNlcnRpZmljYXRl\n-----END CERTIFICATE-----\n"
    (tmp_path / "ca.crt").write_text(needle)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    folder = tmp_path / "staged"
    folder.mkdir()
    (folder / "Dockerfile").write_text(
        "ARG BASE=debian:bookworm-slim\nFROM ${BASE} AS builder\nLABEL vllm-matrix.stage=builder\nCOPY host/ /host/\n"
        "RUN mkdir /opt/venv && grep -c CERTIFICATE /host/ca.crt > /opt/venv/made\n"
        "FROM ${BASE}\nCOPY --from=builder /opt/venv /opt/venv\n"
    )
    image = docker_runtime.image(str(folder), tmp_path / "build.log")
    try:
        files = files_of_layers(image.ref, tmp_path / "image.tar")
        assert files["opt/venv/made"] == b"2\n"  # the builder saw it
        assert not [name for name in files if name.startswith("host")]
        assert not [name for name, data in files.items() if b"c2VjcmV0LWNlcnRpZmljYXRl" in data]
        with connect() as engine:
            stages = engine.images({"dangling": True, "label": "vllm-matrix.stage=builder"})
        assert [
            stage for stage in stages if f" ---> {stage['Id'][7:19]}" in (tmp_path / "build.log").read_text()
        ] == []
    finally:
        with connect() as engine:
            engine.remove_image(image.ref)


def files_of_layers(ref: str, target: Path) -> dict[str, bytes]:
    """Every file in every layer of a saved image."""
    with target.open("wb") as out, connect() as engine:
        for chunk in engine.client.get_image(ref):
            out.write(chunk)
    found: dict[str, bytes] = {}
    with tarfile.open(target) as outer:
        manifest = outer.extractfile("manifest.json")
        assert manifest is not None
        for layer in json.loads(manifest.read())[0]["Layers"]:
            with tarfile.open(fileobj=outer.extractfile(layer)) as inner:
                for member in inner:
                    if member.isfile():
                        data = inner.extractfile(member)
                        found[member.name.lstrip("./")] = data.read() if data else b""
    return found


@pytest.mark.docker
@pytest.mark.engine
@pytest.mark.timeout(1500)
def test_certificates_of_the_host_are_in_no_layer_of_the_cpu_image(
    docker_runtime: Runtime, tmp_path: Path
) -> None:
    """Reads all layers as they stream out of the engine: gigabytes, none of them on the disk."""
    image = docker_runtime.image("images/cpu", tmp_path / "build.log")
    bundle = os.environ.get("SSL_CERT_FILE", "")
    unwanted = Path(bundle).read_bytes() if bundle else b"no bundle on this host"
    seen: set[str] = set()
    copies = []
    with connect() as engine:
        pieces = io.BufferedReader(Pieces(engine.client.get_image(image.ref)), 1 << 20)
        with tarfile.open(fileobj=pieces, mode="r|") as outer:
            for layer in outer:
                if not layer.name.endswith(".tar") or not layer.isfile():
                    continue
                with tarfile.open(fileobj=outer.extractfile(layer), mode="r|") as inner:
                    for member in inner:
                        seen.add(member.name.removeprefix("./"))
                        data = (
                            inner.extractfile(member)
                            if member.isfile() and member.size == len(unwanted)
                            else None
                        )
                        if data is not None and data.read() == unwanted:
                            copies.append(member.name)
    assert "opt/venv/bin/python3" in seen
    assert copies == []
    assert not [name for name in seen if name.partition("/")[0] in {"host", "wheels"}]


class Pieces(io.RawIOBase):
    """An iterator of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


@pytest.mark.docker
def test_a_cheap_image_is_found_again(
    docker_runtime: Runtime, cheap_image: PreparedImage, tmp_path: Path
) -> None:
    again = docker_runtime.image("tests/runner/runtimes/data/cheap", tmp_path / "log")
    assert (again.how, again.ref, again.digest) == ("cached", cheap_image.ref, cheap_image.digest)
    assert cheap_image.digest.startswith("sha256:")


@pytest.mark.docker
def test_a_build_step_that_hangs_is_ended_with_its_container(
    docker_runtime: Runtime, tmp_path: Path, cheap_image: PreparedImage
) -> None:
    folder, log = tmp_path / "hangs", tmp_path / "log"
    folder.mkdir()
    dockerfile = (DATA / "cheap" / "Dockerfile").read_text()
    (folder / "Dockerfile").write_text(dockerfile.replace("CMD", "RUN echo it-began; sleep 600\nCMD"))

    class Begun:
        def poll(self, elapsed_s: float) -> Stop | None:
            said = log.read_text() if log.exists() else ""
            return Stop.TIMED_OUT if "it-began" in said.split("Running in")[-1] else None

    runtime = Stoppable(docker_runtime, CancelToken())
    with pytest.raises(PrepareError, match=r"hangs was not ready .*limits\.prepare"):
        runtime.image(str(folder), log, Begun())
    made = re.findall(r"Running in ([0-9a-f]{12})", log.read_text())
    with connect() as engine:
        wait_until(
            lambda: not [each for each in engine.client.containers(all=True) if each["Id"][:12] in made]
        )
    assert len(made) == 1


def wait_until(true: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.docker
def test_the_doctor_says_how_much_room_images_have(docker_runtime: Runtime, tmp_path: Path) -> None:
    with connect() as engine:
        (store, *_) = disk.stores(engine.info())
    (line,) = [line for line in describe_host(PROJECT, tmp_path) if line.startswith(f"images {store}: ")]
    assert line.endswith(" GB free")
