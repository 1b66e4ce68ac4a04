"""The shell scripts: what can be tried without taking this host's engine away from whoever uses it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPTS / name), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | environment,
    )


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_parses_and_says_what_it_is_for(path: Path) -> None:
    assert subprocess.run(["bash", "-n", str(path)], check=False, capture_output=True).stderr == b""
    lines = path.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1].startswith("# ")
    assert any(line.startswith("# usage: ") for line in lines[:6])
    assert os.access(path, os.X_OK)


@pytest.mark.parametrize("name", ["engine-start.sh", "engine-stop.sh", "debootstrap-base.sh"])
def test_a_script_without_its_argument_says_its_usage(name: str) -> None:
    done = run(name)
    assert done.returncode != 0
    assert f"usage: {name}" in done.stderr


def test_stopping_what_was_never_started_does_nothing(tmp_path: Path) -> None:
    done = run("engine-stop.sh", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"engine-stop: no engine of {tmp_path} is running\n")


def test_stopping_leaves_a_process_alone_that_has_the_number_of_a_dead_engine(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "dockerd.pid").write_text(f"{other.pid}\n")
        (tmp_path / "containerd.pid").write_text("4194305\n")
        done = run("engine-stop.sh", str(tmp_path))
        assert done.returncode == 0
        assert other.poll() is None
        other.kill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.docker
def test_an_engine_that_answers_is_left_as_it_is(tmp_path: Path) -> None:
    done = run("engine-start.sh", str(tmp_path / "state"))
    assert done.returncode == 0
    assert "answers already: nothing to do" in done.stdout
    assert not (tmp_path / "state").exists()


def test_a_debootstrap_that_fails_leaves_nothing_and_names_the_setting(tmp_path: Path) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    for name, says in (
        ("id", "echo 0"),
        ("debootstrap", "exit 9"),
        ("apt-get", "exit 1"),
        ("apt-config", "exit 1"),
    ):
        (fake / name).write_text(f"#!/bin/sh\n{says}\n")
        (fake / name).chmod(0o755)
    path = f"{fake}:{os.environ['PATH']}"
    out = tmp_path / "root.tar"
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    done = run("debootstrap-base.sh", str(out), PATH=path, DEBIAN_KEYRING=str(keyring), TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert f"keyring {keyring}" in done.stdout
    assert "set DEBIAN_MIRROR" in done.stderr
    assert not out.exists()
