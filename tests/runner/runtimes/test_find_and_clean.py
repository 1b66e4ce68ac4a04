from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from runner.errors import PrepareError, UsageError
from runner.facts import PreparedImage, Runtime
from runner.model import Fault, Limits, Stop
from runner.runtimes import (
    BOOT_ID,
    CELL,
    OWNER_PID,
    OWNER_START,
    RUN,
    FakeCell,
    FakeRuntime,
    Owner,
    describe_host,
    docker_client,
    find,
    this_owner,
)
from runner.runtimes.clean import Kind, clean, find_orphans
from runner.runtimes.docker_client import Engine, connect
from runner.runtimes.find_engine import named_engine
from runner.runtimes.labels import OWNER_HOST, hostname
from tests.runner.runtimes.fakes import api_error


@pytest.fixture
def nobody_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose local socket nobody listens at, and where nothing names an engine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(docker_client, "LOCAL", f"unix://{tmp_path}/none.sock")
    return tmp_path


def test_docker_without_an_engine_says_what_to_do_and_auto_takes_processes(nobody_home: Path) -> None:
    with pytest.raises(UsageError, match=r"no Docker engine answers .*make docker.*--runtime process"):
        find("docker", root=nobody_home, cache=nobody_home)
    assert find("auto", root=nobody_home, cache=nobody_home).name == "process"


@pytest.mark.parametrize("kind", ["auto", "docker"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "DOCKER_HOST",
            "garbage",
            "port is required: garbage): mend DOCKER_HOST=garbage or unset it, or use",
        ),
        (
            "DOCKER_HOST",
            "unix:///none.sock",
            "No such file or directory): mend DOCKER_HOST=unix:///none.sock or",
        ),
        (
            "DOCKER_CONTEXT",
            "far",
            "DOCKER_CONTEXT is far, which is not followed here: set DOCKER_HOST to its address",
        ),
        ("DOCKER_CERT_PATH", "/none", "mend DOCKER_CERT_PATH or unset it, or use --runtime process"),
    ],
)
def test_an_engine_that_is_named_and_does_not_answer_is_an_error(
    nobody_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: Literal["auto", "docker"],
    name: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"^no Docker engine answers .*{re.escape(said)}"):
        find(kind, root=nobody_home, cache=nobody_home)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ('{"currentContext": "far"}', True),
        ('{"currentContext": "default"}', False),
        ("{}", False),
        ("[]", False),
        ("{", False),
    ],
)
def test_the_docker_commands_current_context_names_an_engine(
    tmp_path: Path, config: str, named: bool
) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(config)
    said = named_engine({"HOME": str(tmp_path)})
    assert said.startswith("the docker command's context is far, which is not followed") is named
    assert bool(said) is named
    assert named_engine({"HOME": str(tmp_path), "DOCKER_CONTEXT": "default"}) == ""
    assert named_engine({"HOME": str(tmp_path), "DOCKER_HOST": "tcp://h:1"}).startswith("mend DOCKER_HOST=")


def test_doctor_says_that_a_named_engine_keeps_auto_from_processes(
    nobody_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = describe_host(nobody_home, nobody_home)[0]
    assert said.startswith("runtime: local processes, because no Docker engine answers (")
    monkeypatch.setenv("DOCKER_HOST", "garbage")
    said = describe_host(nobody_home, nobody_home)[0]
    assert said.startswith("runtime: none, because no Docker engine answers (")


def test_importing_the_room_loads_no_third_party_package() -> None:
    code = "import sys, runner.runtimes; print(sorted({'docker', 'requests', 'urllib3'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


@dataclass
class Client:
    """Containers and images as an engine lists them."""

    listed: list[dict[str, Any]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    removed: list[str] = field(default_factory=list)
    timeout: float = 60.0

    def containers(self, all: bool, filters: dict[str, str]) -> list[dict[str, Any]]:  # noqa: A002 - docker-py's name
        return [item for item in self.listed if filters["label"] in item["Labels"]]

    def close(self) -> None:
        """Connections of a fake need no closing."""

    def remove_container(self, container: str, v: bool, force: bool) -> None:
        self.removed.append(container)

    def images(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        assert filters == {"label": "vllm-matrix.image"}
        return [{"Id": "sha256:1", "RepoTags": self.tags}]

    def remove_image(self, ref: str, noprune: bool) -> None:
        if ref in self.used:
            raise api_error(409, "image is being used by running container 1234")
        self.removed.append(ref)


def labelled(name: str, **changes: str) -> dict[str, Any]:
    owner = this_owner()
    marks = {
        RUN: "r1",
        CELL: name,
        OWNER_PID: str(owner.pid),
        OWNER_START: owner.start,
        BOOT_ID: owner.boot_id,
    }
    return {"Id": name, "Labels": marks | changes}


CONTAINERS = [
    labelled("owner-lives"),
    labelled("pid-reused", **{OWNER_START: "1"}),
    labelled("owner-dead", **{OWNER_PID: "4194305"}),
    labelled("before-reboot", **{BOOT_ID: "another", OWNER_HOST: hostname()}),
    labelled("before-reboot-and-before-hosts-were-named", **{BOOT_ID: "another"}),
    labelled("on-another-host", **{BOOT_ID: "another", OWNER_HOST: f"not-{hostname()}"}),
    labelled("in-a-container-that-has-a-name", **{OWNER_PID: "4194305", OWNER_HOST: "0a1b2c3d4e5f"}),
    labelled("no-owner", **{OWNER_PID: ""}),
    {"Id": "foreign", "Labels": {"com.example": "x"}},
]
ORPHANS = [
    "pid-reused",
    "owner-dead",
    "before-reboot",
    "before-reboot-and-before-hosts-were-named",
    "in-a-container-that-has-a-name",
]


def test_only_what_no_living_runner_owns_is_an_orphan() -> None:
    found = find_orphans(connect=lambda: Engine(Client(listed=CONTAINERS)))
    mine = [orphan for orphan in found if orphan.kind is Kind.CONTAINER]
    assert [orphan.id for orphan in mine] == ORPHANS
    assert (mine[0].run, mine[0].cell) == ("r1", "pid-reused")


def test_what_this_runner_starts_names_its_host() -> None:
    marks = this_owner().labels()
    assert marks[OWNER_HOST] == hostname() == os.uname().nodename != ""
    read = Owner.read(marks)
    assert read is not None
    assert read.host == marks[OWNER_HOST]


def test_clean_removes_exactly_the_orphans() -> None:
    client = Client(listed=CONTAINERS)
    done = clean(connect=lambda: Engine(client))
    assert client.removed == ORPHANS
    assert [orphan.problem for orphan in done if orphan.kind is Kind.CONTAINER] == [""] * len(ORPHANS)


def test_clean_removes_what_this_runner_could_not_remove_before_and_no_other_of_its_own() -> None:
    mine = [labelled(name, **this_owner().labels()) for name in ("own-left", "own-runs")]
    client = Client(listed=[*mine, labelled("on-another-host", **{BOOT_ID: "another", OWNER_HOST: "far"})])
    done = clean(
        connect=lambda: Engine(client), unremoved=frozenset({"own-left", "on-another-host", "gone-by-now"})
    )
    assert client.removed == ["own-left"]
    assert [each.id for each in done if each.kind is Kind.CONTAINER] == ["own-left"]


def test_images_go_only_when_asked_and_one_in_use_is_named() -> None:
    client = Client(
        tags=["vllm-matrix/cpu:1", "theirs/on-our-base:1", "vllm-matrix/cheap:2"], used={"vllm-matrix/cpu:1"}
    )
    clean(connect=lambda: Engine(client))
    assert client.removed == []
    done = [
        orphan for orphan in clean(images=True, connect=lambda: Engine(client)) if orphan.kind is Kind.IMAGE
    ]
    assert client.removed == ["vllm-matrix/cheap:2"]
    assert [(orphan.id, bool(orphan.problem)) for orphan in done] == [
        ("vllm-matrix/cheap:2", False),
        ("vllm-matrix/cpu:1", True),
    ]
    assert str(done[1]).startswith("image vllm-matrix/cpu:1: image is being used")


@pytest.mark.docker
def test_a_real_orphan_goes_and_a_foreign_container_stays(
    docker_runtime: Runtime, cheap_image: PreparedImage, tmp_path: Path
) -> None:
    marks = {"orphan": CONTAINERS[2]["Labels"], "mine": CONTAINERS[0]["Labels"], "foreign": {"a": "b"}}
    with connect() as engine:
        made = {
            name: engine.client.create_container(cheap_image.ref, ["sleep", "60"], labels=labels)["Id"]
            for name, labels in marks.items()
        }
        try:
            assert made["orphan"] in [orphan.id for orphan in clean()]
            left = {item["Id"] for item in engine.client.containers(all=True)}
            assert made["orphan"] not in left
            assert {made["mine"], made["foreign"]} <= left
        finally:
            engine.remove(made["mine"])
            engine.remove(made["foreign"])


# ---- the fake ----


class After:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def poll(self, elapsed_s: float) -> Stop | None:
        return Stop.HUNG if elapsed_s >= self.seconds else None


def test_the_fake_plays_its_script(make_spec: Any) -> None:
    passes = FakeCell(out={"junit.xml": "<x/>", "sub/f": "y"}, log="said\n", duration_s=3.0)
    runtime = FakeRuntime(
        {
            "a-*": (FakeCell(fault=Fault.DEVICE, message="gone"), passes),
            "*": FakeCell(hangs=True, exit_code=137),
        }
    )
    assert runtime.run(make_spec("x", name="a-1"), After(100)).fault is Fault.DEVICE
    spec = make_spec("x", name="a-1")
    done = runtime.run(spec, After(100))
    assert (done.exit_code, done.duration_s, done.log_bytes) == (0, 3.0, 5)
    assert (spec.out_dir / "junit.xml").read_text() == "<x/>"
    assert (spec.out_dir / "sub/f").read_text() == "y"
    assert spec.log_path.read_text() == "said\n"
    hung = runtime.run(make_spec("x", name="b", limits=Limits()), After(300))
    assert (hung.stopped, hung.exit_code, hung.duration_s) == (Stop.HUNG, 137, 300.0)
    assert runtime.clock.now_s == 1.0 + 3.0 + 300.0
    assert [spec.name for spec in runtime.ran] == ["a-1", "a-1", "b"]


def test_the_fake_prepares_images_and_fails_those_it_is_told_to(tmp_path: Path) -> None:
    runtime = FakeRuntime({}, images={"bad": Fault.PULL})
    assert runtime.image("good", tmp_path / "log").digest == "fake:good"
    with pytest.raises(PrepareError) as caught:
        runtime.image("bad", tmp_path / "log")
    assert caught.value.fault is Fault.PULL
