"""What a soak does to a runner, and when: faults meet runners that start, prepare, run cells or finish."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from runner.runtimes.docker_errors import EngineError
from runner.runtimes.labels import CELL
from tests.soak.look import containers_of
from tests.soak.private_engine import PrivateEngine

KILL = ("kill runner", "kill runner", "kill runner")
SIGNALS = ("SIGTERM", "SIGINT", "SIGTERM twice")
CONTAINERS = ("kill container", "remove container")
DAEMON = ("kill daemon", "kill daemon", "kill daemon", "hang daemon")

PHASES = ("starting", "preparing", "running", "finishing", "ended")
DELAYS_S = {"starting": 0.7, "preparing": 0.4, "running": 2.0, "finishing": 0.1}
"""How long after the begin of a phase a fault comes, seconds at most."""
CELLS = 4
PATIENCE_S = 60.0

ALLOWED = {
    "kill container": {"killed"},
    "remove container": {"infra", "killed"},
    "SIGTERM": {"cancelled"},
    "SIGINT": {"cancelled"},
    "SIGTERM twice": {"cancelled"},
    "kill daemon": {"infra"},
    "hang daemon": {"infra"},
}
"""Outcomes other than passed that a fault may have."""


@dataclass(frozen=True)
class Fault:
    """What is done, and in which phase of its runner."""

    kind: str
    phase: str
    delay_s: float

    @property
    def asks(self) -> int:
        """The signal by which it asks the runner to stop; 0 for other faults."""
        return signal.Signals[self.kind.split()[0]] if self.kind in SIGNALS else 0


NOTHING = Fault("nothing", "ended", 0.0)


def draw(rng: random.Random, *, private: bool, spare: bool) -> Fault:
    """A fault at random; with ``spare`` more often none than one."""
    kinds = (*KILL, *SIGNALS, *CONTAINERS, *(DAEMON * 2 if private else ()))
    if spare and rng.random() < 0.6:
        return NOTHING
    kind = rng.choice(kinds)
    # What hits a container needs one.
    phase = (
        "running"
        if kind in CONTAINERS
        else rng.choice(("starting", "preparing", *("running",) * 4, "finishing"))
    )
    return Fault(kind, phase, rng.uniform(0.0, DELAYS_S[phase]))


@dataclass
class Runner:
    """One runner in a process of its own, and what is done to it."""

    process: subprocess.Popen[bytes]
    out: Path
    fault: Fault
    code: int | None = None
    met: str = ""
    struck_at: float = 0.0
    ended_at: float = 0.0
    notes: list[str] = field(default_factory=list)

    def folder(self) -> Path | None:
        """Its run folder, once there is one. An index of earlier runs may lie beside it."""
        found = sorted(path for path in self.out.glob("2*Z-*") if path.is_dir())
        return found[-1] if found else None

    def phase(self) -> str:
        """Where it is, by what it has written."""
        folder = self.folder()
        if self.process.poll() is not None:
            return "ended"
        if folder is None or not (folder / "plan.json").is_file():
            return "starting"
        if (folder / "run.json").is_file():
            return "ended"
        if len(list(folder.glob("cells/*/cell.json"))) == CELLS:
            return "finishing"
        return "running" if (folder / "prepared.json").is_file() else "preparing"


class Striker(threading.Thread):
    """Waits for the moment of one runner's fault and lets it happen."""

    daemon_gate = threading.Lock()

    def __init__(self, runner: Runner, engine: PrivateEngine) -> None:
        super().__init__(daemon=True)
        self._runner = runner
        self._engine = engine
        self.start()

    def run(self) -> None:
        """Strike."""
        runner, fault = self._runner, self._runner.fault
        deadline = time.monotonic() + PATIENCE_S
        while PHASES.index(runner.phase()) < PHASES.index(fault.phase) and time.monotonic() < deadline:
            time.sleep(0.003)
        time.sleep(fault.delay_s)
        if fault.kind in CONTAINERS:
            self._container(fault.kind)
            return
        runner.met, runner.struck_at = runner.phase(), time.monotonic()
        if fault.kind == "kill runner":
            runner.process.kill()
        elif fault.asks:
            runner.process.send_signal(fault.asks)
            if fault.kind == "SIGTERM twice":
                time.sleep(1.2)  # what comes sooner is an echo of the first
                runner.process.send_signal(fault.asks)
        elif fault.kind in DAEMON:
            with self.daemon_gate:
                self._daemon(fault.kind, fault.delay_s)

    def _container(self, kind: str) -> None:
        while self._runner.phase() == "running":
            folder = self._runner.folder()
            found = containers_of(self._engine, {folder.name} if folder else set(), CELL)
            if not found:
                time.sleep(0.01)
                continue
            self._runner.met, self._runner.struck_at = "running", time.monotonic()
            held = random.choice(found)
            with self._engine.connect() as engine:
                try:
                    engine.kill(held, "SIGKILL") if kind == "kill container" else engine.remove(held)
                except EngineError as error:  # it ended by itself, or is being removed
                    self._runner.notes.append(str(error))
            return

    def _daemon(self, kind: str, more_s: float) -> None:
        if kind == "kill daemon":
            self._engine.kill()
            time.sleep(0.1 + more_s / 2)
            self._engine.start()
            return
        pid = self._engine.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0 + 3 * more_s)
        os.kill(pid, signal.SIGCONT)
