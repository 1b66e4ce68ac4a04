"""A scripted runtime that ships with the package: tests of what stands above a runtime need no engine and no time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from runner.errors import PrepareError
from runner.facts import CellExit, CellSpec, HandOver, PreparedImage, Watch
from runner.model import Fault, Stop

TICK_S = 0.5
SEES = '"@sees"'
"""In a file of a fake cell's output: what the cell sees, which is what it was handed (``runner/incell/sight.py``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCell:
    """What one cell does. ``out`` maps file names in the output folder to their text; ``log`` is its output.

    :data:`SEES` stands for what it sees. ``hangs`` means it ends only when the watch stops it, then with ``exit_code``.
    ``fault`` is the runtime's own; ``left_behind`` as in :class:`CellExit`.
    """

    exit_code: int | None = 0
    duration_s: float = 1.0
    out: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    oom_killed: bool = False
    hangs: bool = False
    fault: Fault | None = None
    message: str = ""
    left_behind: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class FakeClock:
    """Seconds that pass only when a fake cell runs."""

    now_s: float = 0.0


class FakeRuntime:
    """Runs :class:`FakeCell` by the first pattern (``fnmatch``) that a spec's name matches.

    A sequence of cells under one pattern is used up attempt by attempt; its last one repeats. ``images`` maps a
    reference to the fault its preparation ends in.
    """

    name = "fake"

    def __init__(
        self,
        script: Mapping[str, FakeCell | tuple[FakeCell, ...]],
        *,
        images: Mapping[str, Fault] | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self._script = script
        self._images = images or {}
        self._used: dict[str, int] = {}
        self.clock = clock or FakeClock()
        self.ran: list[CellSpec] = []
        """Every spec in the order in which it was run."""
        self.kept: list[str] = []
        """Images that are kept now."""

    def describe(self) -> str:
        """One line for a person."""
        return "fake (scripted cells, nothing runs)"

    def view(self, source: Path, target: str) -> str:  # noqa: ARG002 - the protocol's: another runtime needs it
        """As the docker runtime: a cell sees a mount at its target."""
        return target

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:  # noqa: ARG002 - protocol
        """An image that needs nothing. Raises :class:`PrepareError` where the script says so."""
        log_path.write_text(f"fake image {ref}\n", encoding="utf-8")
        if ref in self._images:
            message = f"image {ref}: scripted {self._images[ref]} fault"
            raise PrepareError(message, self._images[ref])
        return PreparedImage(ref=ref, digest=f"fake:{ref}", how="fake")

    def keep(self, image: PreparedImage, labels: Mapping[str, str]) -> Callable[[], str]:  # noqa: ARG002 - protocol
        """Note that the image is kept, until the result is called."""
        self.kept.append(image.ref)

        def release() -> str:
            self.kept.remove(image.ref)
            return ""

        return release

    def run(self, spec: CellSpec, watch: Watch) -> CellExit:
        """Play the cell that the script has for this spec. Raises :class:`KeyError` for a name without one."""
        self.ran.append(spec)
        cell = self._cell(spec.name)
        for name, text in cell.out.items():
            target = spec.out_dir / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(SEES, json.dumps(_sees(spec.hand_over))), encoding="utf-8")
        log = cell.log.encode()
        spec.log_path.write_bytes(
            spec.log_filter.feed(log) + spec.log_filter.close() if spec.log_filter else log
        )
        stopped, elapsed = self._pass_time(cell, watch)
        return CellExit(
            exit_code=None if cell.fault else cell.exit_code, duration_s=elapsed, oom_killed=cell.oom_killed,
            stopped=stopped, fault=cell.fault, message=cell.message, log_bytes=len(cell.log.encode()),
            handle=f"fake-{len(self.ran)}", left_behind=cell.left_behind, remarks=cell.remarks,
        )  # fmt: skip

    def _cell(self, name: str) -> FakeCell:
        for pattern, cells in self._script.items():
            if fnmatchcase(name, pattern):
                if isinstance(cells, FakeCell):
                    return cells
                used = self._used.get(pattern, 0)
                self._used[pattern] = used + 1
                return cells[min(used, len(cells) - 1)]
        raise KeyError(name)

    def _pass_time(self, cell: FakeCell, watch: Watch) -> tuple[Stop | None, float]:
        elapsed = 0.0
        while cell.hangs or elapsed < cell.duration_s:
            stop = watch.poll(elapsed)
            if stop is not None:
                return stop, elapsed
            step = TICK_S if cell.hangs else min(TICK_S, cell.duration_s - elapsed)
            elapsed += step
            self.clock.now_s += step
        return None, elapsed


def _sees(handed: HandOver) -> dict[str, Any]:
    cores = list(handed.cpus) or None
    return {"cores": cores, "cpuset": cores, "files": list(handed.nodes), "drivers": {}, "problems": []}
