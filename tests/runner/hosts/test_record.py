"""A recorded host says what the host said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.hosts import RecordedHost, inventory, live, offer, read_health
from runner.hosts.record import CDI_DIRS, record

Shape = Callable[[str], Any]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "name", ["h100", "h100_mig", "b200", "h200", "mi300x", "mi355x", "mixed", "laptop", "none"]
)
def test_a_recording_replays_the_host(shape: Shape, tmp_path: Path, name: str) -> None:
    source = shape(name).source
    found = record(source, tmp_path, {})
    copy = RecordedHost(tmp_path)
    assert inventory(copy) == found == inventory(source)
    assert read_health(found.devices, copy) == read_health(found.devices, source)
    assert offer(copy, found.devices, cdi_dirs=CDI_DIRS) == offer(source, found.devices, cdi_dirs=CDI_DIRS)


def test_this_host_is_recorded_by_one_command(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "runner.hosts.record", str(tmp_path / "here")]
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=True)
    here, copy = inventory(live), inventory(RecordedHost(tmp_path / "here"))
    assert ended.stdout == f"{tmp_path / 'here'}: {len(here.devices)} devices recorded\n"
    assert (copy.hostname, copy.boot_id, copy.cpu.model) == (here.hostname, here.boot_id, here.cpu.model)
    assert (copy.devices, copy.absent) == (here.devices, here.absent)
    again = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (again.returncode, again.stderr) == (2, f"{tmp_path / 'here'}: File exists: name a new folder\n")
