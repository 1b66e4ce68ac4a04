"""The docker runtime: each cell in a fresh, hardened container of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner.errors import PrepareError, UsageError
from runner.facts import CellExit, CellSpec, PreparedImage, Watch
from runner.model import Fault, Stop
from runner.runtimes import docker_image, docker_keep
from runner.runtimes.docker_break import Breaker
from runner.runtimes.docker_cell import SYSTEM, Clock, Ended, Waiter, container
from runner.runtimes.docker_client import LEAST_API, Engine, connect
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.docker_log import LogReader
from runner.runtimes.docker_oom import KernelCount, out_of_memory
from runner.runtimes.docker_spec import Hardening, container_config
from runner.runtimes.labels import this_owner
from runner.runtimes.log import CappedLog

PROBE_S = 3.0
"""How long an engine may take to answer before it counts as absent, seconds."""
CELL_UID = 65532
"""User of a cell where the runner itself is root: nobody on common systems, and not the host's "nobody"."""


@dataclass(slots=True)
class _Known:
    """What is known of a cell on the way, for the case that the engine fails."""

    began: float
    handle: str = ""
    stopped: Stop | None = None
    remarks: tuple[str, ...] = ()


class DockerRuntime:
    """Runs cells in containers. ``root`` is the project's folder, ``cache`` takes build contexts and base images."""

    name = "docker"

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        *,
        root: Path,
        cache: Path,
        detail: str = "",
        clock: Clock = SYSTEM,
    ) -> None:
        self._make_engine = make_engine
        self._root = root
        self._cache = cache
        self._detail = detail
        self._clock = clock
        self._owner = this_owner()
        self._ids: dict[
            str, str
        ] = {}  # of kept images: a name may be taken from them, or moved to another image
        self.hardening = Hardening()

    def describe(self) -> str:
        """One line for a person."""
        return f"docker ({self._detail})" if self._detail else "docker"

    def view(self, source: Path, target: str) -> str:  # noqa: ARG002 - the protocol's: another runtime needs it
        """A cell sees a mount at its target."""
        return target

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        """Build, pull or find an image. Raises :class:`runner.errors.PrepareError`."""
        with Breaker(watch) as breaker:
            return docker_image.prepare(
                lambda: breaker.on(self._make_engine()),
                ref, root=self._root, cache=self._cache, log_path=log_path, watch=watch,
            )  # fmt: skip

    def keep(self, image: PreparedImage, labels: Mapping[str, str]) -> Callable[[], str]:
        """Keep an image from being pruned. Raises :class:`runner.errors.PrepareError`."""
        held_id = image.id or image.digest
        try:
            with self._make_engine() as engine:
                held = docker_keep.hold(
                    engine, held_id, {**labels, **self._owner.labels()}, cell_user(), self._clock
                )
        except EngineError as error:
            message = f"image {image.ref} cannot be kept from being pruned: {error}"
            raise PrepareError(message, Fault.PULL if error.status == 404 else error.fault) from error
        self._ids[image.ref] = held_id

        def release() -> str:
            try:
                with self._make_engine() as engine:
                    return docker_keep.let_go(engine, held, self._clock)
            except EngineError as error:
                return f"container {held[:12]}, which kept image {image.ref}, is left behind: {error}"

        return release

    def run(self, spec: CellSpec, watch: Watch) -> CellExit:
        """Run a cell to its end and remove its container."""
        spec = replace(spec, image=self._ids.get(spec.image, spec.image))
        known = _Known(began=self._clock.now())
        leftovers: list[str] = []
        try:
            log = CappedLog(spec.log_path, spec.limits.log_bytes, spec.log_filter)
        except OSError as error:
            return self._fault(known, f"cannot write {spec.log_path}: {error.strerror}", Fault.DISK)
        try:
            give_folders(spec)
            config = container_config(
                spec, user=cell_user(), labels=self._owner.labels(), hardening=self.hardening
            )
            with (
                self._make_engine() as engine,
                container(engine, config, spec.name, leftovers, self._clock) as known.handle,
            ):
                done = self._run_created(engine, spec, watch, log, known)
        except EngineError as error:
            done = self._fault(known, str(error), error.fault)
        except OSError as error:
            done = self._fault(known, f"{error.filename}: {error.strerror}", Fault.DISK)
        finally:
            log_remarks = _close(log)
        return replace(
            done, log_bytes=log.taken_bytes, log_cut_bytes=log.cut_bytes,
            left_behind=bool(leftovers), remarks=(*done.remarks, *leftovers, *log_remarks),
        )  # fmt: skip

    def _run_created(
        self, engine: Engine, spec: CellSpec, watch: Watch, log: CappedLog, known: _Known
    ) -> CellExit:
        held = known.handle
        known.began = self._clock.now()
        reader = LogReader(self._make_engine, held, log, self.hardening.log_bytes)
        reader.attach(engine)
        kernel = KernelCount(held)
        waiter = Waiter(engine, held, self._clock, kernel.read)
        try:
            engine.start(held)
            ended = waiter.until_end(watch, spec.limits.stop_grace_s, spec.stop_signal)
        finally:
            known.stopped = waiter.stopping
            known.remarks = reader.finish()
        return self._exit(known, ended, out_of_memory(engine, held, ended.state, kernel))

    def _exit(self, known: _Known, ended: Ended, oom: bool) -> CellExit:
        remarks = known.remarks
        if ended.outage and ended.stopped is None and ended.exit_code in {137, 143, 255}:
            message = f"the Docker engine went away ({ended.outage}) and container {known.handle[:12]} ended with it"
            return self._fault(known, message, Fault.DAEMON)
        if ended.outage:
            remarks = (*remarks, f"the Docker engine did not answer for a while: {ended.outage}")
        return CellExit(
            exit_code=ended.exit_code,
            duration_s=self._since(known),
            oom_killed=oom,
            stopped=ended.stopped,
            message=str(ended.state.get("Error") or ""),
            handle=known.handle,
            remarks=remarks,
        )

    def _fault(self, known: _Known, message: str, fault: Fault) -> CellExit:
        return CellExit(
            exit_code=None,
            duration_s=self._since(known),
            stopped=known.stopped,
            fault=fault,
            message=message,
            handle=known.handle,
            remarks=known.remarks,
        )

    def _since(self, known: _Known) -> float:
        return self._clock.now() - known.began


def find_docker(*, root: Path, cache: Path) -> DockerRuntime:
    """The docker runtime, if an engine answers within 3 s. Raises :class:`EngineError` or :class:`UsageError`."""
    with connect(timeout_s=PROBE_S) as engine:
        facts, chosen = engine.version(), engine.client.api_version
    api = str(facts.get("ApiVersion", "0.0"))
    if tuple(int(part) for part in re.findall(r"\d+", api)[:2]) < LEAST_API:
        least = ".".join(map(str, LEAST_API))
        message = f"the Docker engine speaks API {api}, this program needs {least} or later: update the engine or use --runtime process"
        raise UsageError(message)
    detail = (
        f"engine {facts.get('Version', '?')}, API {chosen}, {facts.get('Os', '?')}/{facts.get('Arch', '?')}"
    )
    return DockerRuntime(lambda: connect(version=chosen), root=root, cache=cache, detail=detail)


def cell_user() -> str:
    """Who a cell runs as: the runner's own user, or an unprivileged one where that is root."""
    return f"{CELL_UID}:{CELL_UID}" if os.getuid() == 0 else f"{os.getuid()}:{os.getgid()}"


def give_folders(spec: CellSpec) -> None:
    """Make the folders that a cell may write to its user's, with what lies in them. Raises :class:`OSError`."""
    if os.getuid() != 0:
        return
    for folder in filter(None, (spec.out_dir, spec.cache_dir)):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, CELL_UID, CELL_UID, follow_symlinks=False)


def _close(log: CappedLog) -> tuple[str, ...]:
    try:
        log.close()
    except OSError as error:
        return (f"the log's end could not be written: {error.strerror}",)
    return ()
