"""Probes that hang, crash or are not there. A stand-in for ``pynvml`` plays the faults, in a real child."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.hosts import inventory, live
from runner.hosts.children import ask
from runner.hosts.nvml import read_nvml

FAULTY = """
NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION = 3, 4


class NVMLError(Exception):
    value = 999


"""


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a module named ``pynvml`` where the child finds it first."""
    (tmp_path / "pynvml.py").write_text(FAULTY + text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_an_answer_is_what_the_child_prints() -> None:
    assert ask((sys.executable, "-c", "print('yes')"), 60).text == "yes\n"


def test_a_child_that_hangs_is_killed() -> None:
    answer = ask((sys.executable, "-c", "import time; print('half', flush=True); time.sleep(600)"), 0.5)
    assert (answer.hung, answer.problem, answer.text) == (True, "no answer within 0.5 s", "")


def test_a_child_that_fails_is_named_by_its_last_line() -> None:
    answer = ask((sys.executable, "-c", "raise SystemExit('no such device')"), 60)
    assert (answer.hung, answer.problem) == (False, "no such device")


def test_a_child_that_dies_silently_has_its_code() -> None:
    assert ask((sys.executable, "-c", "raise SystemExit(3)"), 60).problem == "ended with code 3"


def test_a_program_that_is_missing_is_a_reason() -> None:
    assert (
        ask(("no-such-program-here",), 1).problem
        == "no-such-program-here cannot be started: No such file or directory"
    )


def test_d06_nvml_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "import time\n\n\ndef nvmlInit():\n    time.sleep(600)\n")
    answer = read_nvml(1.0)
    assert (answer.hung, answer.problem) == (
        True,
        "NVML gave no answer within 1 s: a GPU or the driver hangs",
    )


def test_nvml_that_does_not_start_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        tmp_path, monkeypatch, "def nvmlInit():\n    raise NVMLError('Driver/library version mismatch')\n"
    )
    assert read_nvml(60).problem == "NVML does not start: Driver/library version mismatch"


def test_d06_a_missing_library_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "raise ImportError\n")
    assert read_nvml(60).problem == "the Python package nvidia-ml-py is not installed"


def test_a_library_that_crashes_the_process_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "import os\n\n\ndef nvmlInit():\n    os.abort()\n")
    assert read_nvml(60).problem == "NVML could not be asked: ended with code -6"


def test_one_lost_gpu_keeps_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        tmp_path,
        monkeypatch,
        "def nvmlInit():\n    pass\n\n\n"
        "def nvmlDeviceGetCount():\n    return 1\n\n\n"
        "def nvmlDeviceGetHandleByIndex(index):\n    raise NVMLError('GPU is lost')\n\n\n"
        "def nvmlSystemGetCudaDriverVersion_v2():\n    return 13000\n\n\n"
        "def nvmlSystemGetDriverVersion():\n    raise NVMLError('Unknown Error')\n\n\n"
        "def nvmlShutdown():\n    pass\n",
    )
    answer = read_nvml(60)
    assert (answer.problem, answer.cuda, answer.driver) == ("", "13.0", "")
    assert [(gpu.index, gpu.uuid, gpu.problem) for gpu in answer.gpus] == [(0, "", "GPU is lost")]


def test_this_host_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs the tests: cores and memory are known, and each platform has devices or a reason."""
    monkeypatch.chdir(tmp_path)
    found = inventory(live)
    assert found.hostname
    assert found.boot_id
    assert found.cpu.cores
    assert found.cpu.memory_bytes > 1 << 28
    for platform in ("cuda", "rocm"):
        devices = [device for device in found.devices if device.platform == platform]
        assert bool(devices) != bool(found.absent.get(platform))
