"""Cells for tests of both runtimes, and watches that end them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.facts import CellSpec, Mount
from runner.model import Limits, Stop
from runner.runtimes import CELL, RUN

DATA = Path(__file__).parent / "data"
_NUMBERS = itertools.count()

MakeSpec = Callable[..., CellSpec]


@dataclass
class Patience:
    """A watch that ends a cell after a time, or never; it remembers when it was asked."""

    after_s: float | None = None
    reason: Stop = Stop.TIMED_OUT
    asked: list[float] = field(default_factory=list)
    said: bool = False

    def poll(self, elapsed_s: float) -> Stop | None:
        self.asked.append(elapsed_s)
        due = self.after_s is not None and elapsed_s >= self.after_s and not self.said
        self.said = self.said or due
        return self.reason if due else None


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    def make(*argv: str, image: str = "", **changes: Any) -> CellSpec:
        number = next(_NUMBERS)
        out = tmp_path / f"out-{number}"
        out.mkdir()
        values: dict[str, Any] = {
            "name": f"vllm-matrix-test-{os.getpid()}-{number}",
            "out_dir": out,
            "log_path": tmp_path / f"log-{number}",
            "labels": {RUN: f"test-{os.getpid()}", CELL: f"cell-{number}"},
            "limits": Limits(stop_grace_s=1.0, memory_bytes=256 << 20, pids=128),
            "mounts": (Mount(source=DATA, target="/data"),),
        }
        return CellSpec(image=image, argv=argv, **(values | changes))

    return make
