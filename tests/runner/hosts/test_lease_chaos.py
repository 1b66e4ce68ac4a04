"""Lease owners killed at random instants; the long form is ``benchmarks/lease_chaos.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("seed", [11, 12])
def test_f07_kills_never_give_two_holders_and_never_lose_a_device(seed: int) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks" / "lease_chaos.py"), "--kills", "20", "--seed", str(seed)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    seen = json.loads(ended.stdout)
    assert (seen["kills"], seen["double_holds"], seen["lost"], seen["died_by_themselves"]) == (
        20,
        0,
        False,
        0,
    )
    assert seen["acquired"] > 0
