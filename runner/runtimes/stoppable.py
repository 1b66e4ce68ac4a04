"""A runtime whose work ends when the run is stopped, whoever asked for it: cells, recipes, probes and image builds."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from runner.errors import PrepareError
from runner.facts import CellExit, CellSpec, PreparedImage, Runtime, Watch
from runner.interrupt import CancelToken
from runner.model import Fault, Stop

_LOOK_S: Final = 0.2


class Stoppable:
    """Hands everything on to another runtime and looks at the token meanwhile."""

    def __init__(self, runtime: Runtime, cancel: CancelToken) -> None:
        self._runtime = runtime
        self._cancel = cancel
        self.name = runtime.name

    def describe(self) -> str:
        """One line for a person."""
        return self._runtime.describe()

    def view(self, source: Path, target: str) -> str:
        """The path under which a cell sees a host path."""
        return self._runtime.view(source, target)

    def image(self, ref: str, log_path: Path) -> PreparedImage:
        """Build, pull or find an image. Raises :class:`PrepareError`, also where the run is stopped meanwhile.

        A build that is left alone ends with this program: the engine gives up what nobody reads any more, and the next
        run makes anew what is not complete.
        """
        done: list[PreparedImage | BaseException] = []

        def work() -> None:
            try:
                done.append(self._runtime.image(ref, log_path))
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that asked
                done.append(error)

        thread = threading.Thread(target=work, name=f"image-{ref}", daemon=True)
        thread.start()
        while thread.is_alive() and not self._cancel.cancelled():
            thread.join(_LOOK_S)
        if not done:
            message = f"image {ref}: the run was stopped"
            raise PrepareError(message, Fault.BUILD)
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]

    def run(self, spec: CellSpec, watch: Watch) -> CellExit:
        """Run to the end or until the run is stopped."""
        return self._runtime.run(spec, _Either(watch, self._cancel))


class _Either:
    """A watch that also looks at the token; one that looks itself (:mod:`runner.cells.watch`) has the first word."""

    def __init__(self, watch: Watch, cancel: CancelToken) -> None:
        self._watch = watch
        self._cancel = cancel
        self._said = False

    def poll(self, elapsed_s: float) -> Stop | None:
        said = self._watch.poll(elapsed_s)
        if said is None and self._cancel.cancelled() and not self._said:
            said = Stop.CANCELLED
        self._said = self._said or said is not None
        return said
