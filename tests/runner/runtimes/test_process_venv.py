"""Venvs from pins, for real but without an index: the one package is a wheel made here."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.errors import PrepareError
from runner.model import Fault, Stop
from runner.runtimes import helper
from runner.runtimes.process import ProcessRuntime
from runner.runtimes.process_tree import marked
from runner.runtimes.process_venv import MARKER


def wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessRuntime:
    (tmp_path / "images/tiny").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "pinned", "1.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return ProcessRuntime(root=tmp_path, cache=tmp_path / "cache")


def pins(runtime_root: Path, text: str, dockerfile: str = "") -> None:
    (runtime_root / "images/tiny/requirements.txt").write_text(text)
    (runtime_root / "images/tiny/Dockerfile").write_text(dockerfile)


def test_a_venv_holds_the_pins_and_is_made_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    pins(tmp_path, "pinned==1.5\n")
    made = runtime.image("images/tiny", tmp_path / "log")
    again = runtime.image("images/tiny", tmp_path / "log")
    assert (made.how, again.how) == ("venv", "venv (cached)")
    assert (again.ref, again.digest, again.python) == (made.ref, made.digest, made.python)
    said = subprocess.run(
        [made.python, "-c", "import pinned; print(pinned.VERSION)"], capture_output=True, check=True
    )
    assert said.stdout == b"1.5\n"
    assert "pinned==1.5" in (Path(made.ref) / MARKER).read_text().splitlines()
    # A venv that was never finished is made anew, not used.
    (Path(made.ref) / MARKER).unlink()
    (Path(made.ref) / "bin/python3").unlink()
    third = runtime.image("images/tiny", tmp_path / "log")
    assert (third.how, third.digest) == ("venv", made.digest)


def test_a_pin_that_is_nowhere_fails_with_its_name_and_leaves_nothing(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    pins(tmp_path, "pinned==9.9\n")
    with pytest.raises(PrepareError, match=r"venv for images/tiny .*pinned==9\.9") as caught:
        runtime.image("images/tiny", tmp_path / "log")
    assert caught.value.fault is Fault.BUILD
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    assert "pinned==9.9" in (tmp_path / "log").read_text()


def test_no_cuda_build_takes_the_place_of_a_missing_cpu_torch(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    wheel(tmp_path / "wheels", "torch", "2.13.0")  # what the public index would offer
    pins(tmp_path, "torch==2.13.0+cpu\n")
    with pytest.raises(
        PrepareError, match=r"torch==2\.13\.0\+cpu is not in pip's package index.*PIP_FIND_LINKS"
    ) as caught:
        runtime.image("images/tiny", tmp_path / "log")
    assert caught.value.fault is Fault.BUILD


def test_a_disk_that_is_too_small_is_said_before(runtime: ProcessRuntime, tmp_path: Path) -> None:
    pins(tmp_path, "pinned==1.5\n", "LABEL vllm-matrix.venv-bytes=9000000000000000\n")
    with pytest.raises(PrepareError, match=r"venv for images/tiny needs 8,381,903.2 GiB free") as caught:
        runtime.image("images/tiny", tmp_path / "log")
    assert caught.value.fault is Fault.DISK


class Once:
    """Says stop as soon as something is so."""

    def __init__(self, so: Callable[[], bool]) -> None:
        self.so = so

    def poll(self, elapsed_s: float) -> Stop | None:
        return Stop.TIMED_OUT if self.so() else None


def test_an_index_that_never_answers_is_not_waited_for(
    runtime: ProcessRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        pins(tmp_path, "pinned==1.5\n")
        asked = Once(lambda: bool(select.select([silent], [], [], 0)[0]))
        with pytest.raises(PrepareError, match="the venv for images/tiny could not be made"):
            runtime.image("images/tiny", tmp_path / "log", asked)
    assert "Looking in links" in (tmp_path / "log").read_text()
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    assert [mark for _, mark in marked() if mark.startswith(f"{os.getpid()}:")] == []


def test_a_helper_is_ended_with_all_it_started(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        begun = Once(lambda: "begun" in (tmp_path / "log").read_text())
        assert helper.call(["sh", "-c", "setsid sleep 600 & echo begun; sleep 600"], log, begun) == 143
        assert helper.call(["sh", "-c", "exit 7"], log) == 7
    assert [mark for _, mark in marked() if mark.startswith(f"{os.getpid()}:")] == []


def test_an_interpreter_by_path_is_taken_as_it_is(runtime: ProcessRuntime, tmp_path: Path) -> None:
    pins(tmp_path, "pinned==1.5\n")
    venv = runtime.image("images/tiny", tmp_path / "log")
    found = runtime.image(venv.python, tmp_path / "log")
    assert (found.how, found.ref, found.python) == ("as found", venv.ref, venv.python)
    assert found.base.startswith("Python 3.")


def test_an_image_of_a_registry_is_refused_with_the_reason(runtime: ProcessRuntime, tmp_path: Path) -> None:
    with pytest.raises(PrepareError, match=r"team/app:v1 .*process runtime cannot use images of a registry"):
        runtime.image("team/app:v1", tmp_path / "log")


def test_the_cells_of_a_venv_find_it_first(runtime: ProcessRuntime, tmp_path: Path) -> None:
    from runner.facts import CellSpec
    from runner.model import Limits
    from runner.runtimes.process import cell_environment

    (tmp_path / "venv/bin").mkdir(parents=True)
    spec = CellSpec(
        name="n",
        image=str(tmp_path / "venv"),
        argv=("x",),
        out_dir=tmp_path,
        log_path=tmp_path / "l",
        limits=Limits(),
    )
    environment = cell_environment(spec, tmp_path, "mark")
    assert environment["PATH"].split(os.pathsep)[0] == str(tmp_path / "venv/bin")
    assert environment["VIRTUAL_ENV"] == str(tmp_path / "venv")
