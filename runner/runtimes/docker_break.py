"""Ends pulls and builds whose answers only come in their own time: their sockets are shut from another thread.

An engine gives up a build or pull whose client has gone (moby: the request's context is cancelled), so that is also how
it is told to stop.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any, Final, Self

from runner.facts import Watch
from runner.runtimes.docker_client import Engine

LOOK_S: Final = 0.2


class Breaker:
    """Asks a watch while its block runs; once that says stop, no answer of an engine that was given here goes on."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self._answers: list[Any] = []
        self._over = threading.Event()
        self._broken = False

    def on(self, engine: Engine) -> Engine:
        """The same engine, whose answers can be broken off."""
        hooks = getattr(engine.client, "hooks", None)
        if isinstance(hooks, dict):  # requests' own: called with each answer as soon as its headers are there
            hooks.setdefault("response", []).append(self._note)
        return engine

    def __enter__(self) -> Self:
        if self._watch is not None:
            threading.Thread(target=self._look, args=(self._watch,), name="breaker", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _note(self, answer: Any, **_: object) -> None:
        self._answers.append(answer)
        if self._broken:
            _shut(answer)

    def _look(self, watch: Watch) -> None:
        waited_s = 0.0
        while not self._over.wait(LOOK_S):
            waited_s += LOOK_S
            if watch.poll(waited_s) is not None:
                self._broken = True
                for answer in list(self._answers):
                    _shut(answer)
                return


def _shut(answer: Any) -> None:
    """Shut the socket of an answer that is still being read: closing it would leave the reader waiting (socket(7))."""
    with suppress(AttributeError, OSError):
        held: socket.socket = answer.raw._fp.fp.raw._sock  # noqa: SLF001 - as docker-py finds it, no public way
        held.shutdown(socket.SHUT_RDWR)
