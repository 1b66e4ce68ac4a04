"""A runtime whose work ends when the run is stopped, whoever asked for it: cells, recipes, probes and image builds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from runner.errors import PrepareError
from runner.facts import CellExit, CellSpec, PreparedImage, Runtime, Watch
from runner.interrupt import CancelToken, GivenUp, unless_stopped
from runner.model import Fault, Stop

_KEEP_S: Final = 3.0
_END_S: Final = 3.0
"""How long a preparation that was told to end may take to do so, seconds."""


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

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        """Build, pull or find an image. Raises :class:`PrepareError`, also where it was stopped meanwhile.

        What a runtime cannot end is left alone and ends with this program: the engine gives up what nobody reads any
        more, and the next run makes anew what is not complete.
        """
        over = _Over()
        either = _Either(watch or _Over(), self._cancel)
        try:
            return unless_stopped(
                lambda: self._runtime.image(ref, log_path, over), either.poll, over.set, _END_S
            )
        except GivenUp as given:
            raise _given_up(ref, given, log_path) from given

    def keep(self, image: PreparedImage, labels: Mapping[str, str]) -> Callable[[], str]:
        """Keep an image from being pruned. Raises as :meth:`image`.

        It takes milliseconds, so a stop lets it end; what a hung engine makes later is an orphan like others.
        """
        either = _Either(_Over(), self._cancel)
        try:
            return unless_stopped(
                lambda: self._runtime.keep(image, labels), either.poll, lambda: None, _KEEP_S
            )
        except GivenUp as given:
            raise _given_up(image.ref, given) from given

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


class _Over:
    """A watch that says stop once it is set."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set

    def poll(self, elapsed_s: float) -> Stop | None:  # noqa: ARG002 - the protocol's
        return Stop.CANCELLED if self._event.is_set() else None


def _given_up(ref: str, given: GivenUp, log: Path | None = None) -> PrepareError:
    if given.stop is Stop.CANCELLED:
        return PrepareError(f"image {ref}: the run was stopped", Fault.BUILD)
    message = f"image {ref} was not ready after {given.after_s:.0f} s (limits.prepare; log: {log})"
    # A folder or an interpreter is worked on here; everything else comes from a registry.
    fault = Fault.BUILD if Path(ref).exists() else Fault.PULL
    return PrepareError(message, fault)
