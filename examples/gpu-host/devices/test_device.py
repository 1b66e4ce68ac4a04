"""Cells that only hold devices: what they lease is theirs, and what they leave behind is noticed. No engine, no model.

WHAT says what a cell does: `quick` takes memory and gives it back; `hold` keeps it until it is ended; `leak` leaves a
child behind that holds memory and has nothing left by which it could be found: no parent, no environment, no session.
"""
# ruff: noqa: S101, T201

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

GIB = 1 << 30
HOLD_S = 300

LEAKER = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
import torch
held = torch.ones(3 << 30, dtype=torch.uint8, device="cuda:0")
torch.cuda.synchronize()
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(float(sys.argv[2]))
"""


def test_sees_its_devices_and_no_others() -> None:
    """As many devices as the cell leased."""
    import torch

    cell = json.loads(Path(os.environ["MATRIX_CELL"]).read_text())
    assert torch.cuda.device_count() == int(cell["axes"]["tp"])


def test_takes_memory() -> None:
    """4 GiB on each of them."""
    import torch

    held = [
        torch.ones(4 * GIB, dtype=torch.uint8, device=f"cuda:{i}") for i in range(torch.cuda.device_count())
    ]
    assert all(int(each[-1]) == 1 for each in held)
    for index in range(torch.cuda.device_count()):
        print(torch.cuda.get_device_properties(index).uuid)
    if os.environ["WHAT"] == "hold":
        print("holding", flush=True)
        time.sleep(HOLD_S)


def test_leaves_a_child() -> None:
    """Only where the cell says `leak`."""
    if os.environ["WHAT"] != "leak":
        return
    seconds = "90"
    note = Path(os.environ["MATRIX_OUT"]) / "leaker.pid"
    kept = {
        name: os.environ[name] for name in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES") if name in os.environ
    }
    subprocess.run([sys.executable, "-c", LEAKER, str(note), seconds], env=kept, check=True, close_fds=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   start_new_session=True)  # fmt: skip
    deadline = time.monotonic() + 60
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert note.exists(), "the child did not get its memory"
