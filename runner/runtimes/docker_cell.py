"""One container from create to removal. Every path out of here removes it or names it as left behind."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from runner.facts import Watch
from runner.model import Fault, Stop
from runner.runtimes import labels
from runner.runtimes.docker_client import QUICK_S, REMOVE_S, Engine
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.stopping import KILL_S, TICK_S, grace

TRIES: Final = 8
"""Calls in a row that an engine may leave unanswered: with their pauses about half a minute."""
STOP_TRIES: Final = 3
"""The same while stopping: a person or a CI waits."""
_REMOVE_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests need none."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


SYSTEM: Final = Clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A container that no longer runs. ``state`` is the engine's own record of it."""

    exit_code: int
    state: Mapping[str, Any]
    stopped: Stop | None = None
    outage: str = ""


@contextmanager
def container(
    engine: Engine, config: Mapping[str, Any], name: str, leftovers: list[str], clock: Clock = SYSTEM
) -> Iterator[str]:
    """A created container that is gone afterwards; one that could not be removed is named in ``leftovers``."""
    held = create(engine, config, name, clock)
    tries = _REMOVE_TRIES
    try:
        yield held
    except EngineError as error:
        tries = 1 if error.status is None else tries  # an engine that is gone is not waited for a second time
        raise
    finally:
        problem = remove(engine, held, clock, tries)
        if problem:
            leftovers.append(problem)


def create(engine: Engine, config: Mapping[str, Any], name: str, clock: Clock = SYSTEM) -> str:
    """Make a container of this name, or of a longer one where somebody else has it. Raises :class:`EngineError`."""
    try:
        return engine.create(config, name)
    except EngineError as error:
        if error.status is None:
            # No answer does not mean not made: what has our labels under this name is this very container.
            _remove_ours(engine, config, name, clock)
            raise
        if error.status != 409:
            raise
    if _remove_ours(engine, config, name, clock):
        return engine.create(config, name)
    # Held by somebody else: left alone, the cell takes a name of its own.
    return engine.create(config, f"{name}-{secrets.token_hex(4)}")


def _remove_ours(engine: Engine, config: Mapping[str, Any], name: str, clock: Clock) -> bool:
    try:
        holder = engine.inspect(name)
    except EngineError as error:
        return error.status == 404
    theirs = (holder.get("Config") or {}).get("Labels") or {}
    ours = config["Labels"]
    if not ours.get(labels.RUN) or theirs.get(labels.RUN) != ours[labels.RUN]:
        return False
    return remove(engine, holder["Id"], clock) == ""


def remove(engine: Engine, held: str, clock: Clock = SYSTEM, tries: int = _REMOVE_TRIES) -> str:
    """Remove a container, running or not. "" when it is gone, otherwise one line that names it and says why."""
    problem = ""
    for attempt in range(tries):
        try:
            engine.remove(held, REMOVE_S if tries > 1 else QUICK_S)
        except EngineError as error:
            if error.status == 404:
                return ""
            problem = f"container {held[:12]} is left behind: {error}"
            in_progress = error.status == 409 and "already in progress" in str(error)
            if in_progress and _gone(engine, held, clock):
                return ""
        else:
            return ""
        clock.sleep(0.25 * 2**attempt)
    return problem


def _gone(engine: Engine, held: str, clock: Clock, tries: int = 20) -> bool:
    for _ in range(tries):
        try:
            engine.inspect(held)
        except EngineError as error:
            return error.status == 404
        clock.sleep(TICK_S / 2)
    return False


class Waiter:
    """Waits for a container by our own clock: no call to the engine is trusted to return or to tell the truth."""

    def __init__(
        self, engine: Engine, held: str, clock: Clock = SYSTEM, on_tick: Callable[[], None] = lambda: None
    ) -> None:
        self._engine = engine
        self._held = held
        self._clock = clock
        self._on_tick = on_tick
        self._breaks = 0
        self._outage = ""
        self.stopping: Stop | None = None
        """Set once the watch has asked to stop, also where stopping then failed."""

    def until_end(self, watch: Watch, grace_s: float, signal: str = "SIGTERM") -> Ended:
        """Wait, asking the watch, and stop the container when it says so. Raises :class:`EngineError`."""
        begin = self._clock.now()
        while True:
            state = self._look(TICK_S)
            if state is not None:
                return self._ended(state)
            self._on_tick()
            stop = watch.poll(self._clock.now() - begin)
            if stop is not None:
                self.stopping = stop
                return self._stop(
                    lambda: watch.poll(self._clock.now() - begin) is not None, signal, grace(stop, grace_s)
                )

    def _stop(self, hurried: Callable[[], bool], graceful: str, grace_s: float) -> Ended:
        # Not the engine's own "stop": its answer comes after the grace and runs into the library's read limit.
        for signal, limit_s in ((graceful, grace_s), ("SIGKILL", KILL_S)):
            try:
                self._engine.kill(self._held, signal)
            except EngineError as error:
                self._count(error)
            deadline = self._clock.now() + limit_s
            while True:
                state = self._look(min(TICK_S, max(deadline - self._clock.now(), 0.05)))
                if state is not None:
                    return self._ended(state)
                if self._clock.now() >= deadline or (signal == graceful and hurried()):
                    break
        message = f"container {self._held} is alive {KILL_S:g} s after SIGKILL"
        raise EngineError(message, fault=Fault.DAEMON)

    def _look(self, limit_s: float) -> Mapping[str, Any] | None:
        """The state of an ended container; None while it runs or the engine does not say."""
        began = self._clock.now()
        # A wait that breaks says nothing about the container: it is looked at each time.
        with suppress(EngineError):
            self._engine.wait(self._held, limit_s)
        try:
            state = self._engine.inspect(self._held)["State"]
        except EngineError as error:
            self._count(error)
            return None
        self._breaks = 0
        if not state["Running"] and state["Status"] != "created":
            return dict(state)
        if self._clock.now() - began < limit_s / 2:
            self._clock.sleep(limit_s)  # a wait that returns or breaks at once must not become a busy loop
        return None

    def _count(self, error: EngineError) -> None:
        if error.status == 404:
            message = f"container {self._held} was removed by somebody else while it ran"
            raise EngineError(message, fault=Fault.DAEMON, status=404) from error
        self._breaks += 1
        self._outage = str(error)
        if self._breaks >= (STOP_TRIES if self.stopping else TRIES):
            message = f"the Docker engine does not answer ({error}); container {self._held} may still run"
            raise EngineError(message, fault=Fault.DAEMON) from error
        self._clock.sleep(min(0.25 * 2**self._breaks, 0.5 if self.stopping else 6.0))

    def _ended(self, state: Mapping[str, Any]) -> Ended:
        return Ended(
            exit_code=int(state["ExitCode"]), state=state, stopped=self.stopping, outage=self._outage
        )
