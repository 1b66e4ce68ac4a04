"""The Dockerfiles for CUDA and ROCm, built on a stand-in: the image for CPU has vLLM where the official ones have it.

What this shows: the files build, on a base with pytest and on one without; what is built runs as an unprivileged cell,
finds pytest and vLLM, and is no larger than its base by more than pytest. What it cannot show: the official bases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.facts import PreparedImage, Runtime
from runner.model import Limits, Stop
from runner.runtimes.docker_client import Engine, connect

PROJECT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.docker, pytest.mark.engine, pytest.mark.timeout(1500)]
MOST_BYTES = 20 << 20
WITHOUT = """\
ARG BASE={base}
FROM ${{BASE}}
USER root
RUN python3 -m pip uninstall --yes --quiet pytest pluggy iniconfig
"""


class Never:
    def poll(self, elapsed_s: float) -> Stop | None:
        return None


@pytest.fixture
def engine(docker_runtime: Runtime) -> Iterator[Engine]:
    with connect() as engine:
        yield engine


@pytest.mark.parametrize(("platform", "with_pytest"), [("cuda", False), ("rocm", True)])
def test_the_dockerfile_builds_on_a_stand_in_and_adds_no_more_than_pytest(
    docker_runtime: Runtime, engine: Engine, make_spec: Any, tmp_path: Path, platform: str, with_pytest: bool
) -> None:
    base = docker_runtime.image("images/cpu", tmp_path / "base.log").ref
    made: list[PreparedImage] = []
    try:
        if not with_pytest:
            made.append(build(docker_runtime, tmp_path / "bare", WITHOUT.format(base=base)))
            base = made[0].ref
        text = (PROJECT / "images" / platform / "Dockerfile").read_text()
        text = re.sub(r"^ARG BASE=.*$", f"ARG BASE={base}", text, flags=re.MULTILINE)
        # The room that an official base takes is not needed for one that is here already.
        text = re.sub(r"build-bytes=\d+", "build-bytes=1000000000", text)
        image = build(docker_runtime, tmp_path / platform, text)
        made.append(image)
        assert (image.how, image.python) == ("built", "python3")
        assert image.base.startswith(f"{base} sha256:")

        ours, theirs = engine.image(image.ref), engine.image(base)
        assert ours is not None
        assert theirs is not None
        assert ours["Size"] - theirs["Size"] < MOST_BYTES
        assert ours["Config"]["User"] == "65532:65532"
        assert not ours["Config"]["Entrypoint"]

        code = "import os, pytest, vllm; print(pytest.__file__, os.getuid(), os.path.exists('/host'))"
        limits = Limits(memory_bytes=4 << 30, pids=512)
        spec = make_spec("python3", "-c", code, image=image.ref, limits=limits)
        done = docker_runtime.run(spec, Never())
        last = spec.log_path.read_text().splitlines()[-1]
        assert done.exit_code == 0, last
        where = "/opt/venv/lib/python3.11/site-packages" if with_pytest else "/opt/suite"
        assert last == f"{where}/pytest/__init__.py 65532 False"
    finally:
        for image in reversed(made):
            engine.remove_image(image.ref)


def build(runtime: Runtime, folder: Path, text: str) -> PreparedImage:
    folder.mkdir()
    (folder / "Dockerfile").write_text(text)
    return runtime.image(str(folder), folder.with_suffix(".log"))
