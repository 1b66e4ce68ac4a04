"""The engine calls this program makes, each of them behind the border of :mod:`runner.runtimes.docker_errors`.

The low-level client is used because it costs the least per container. It is not safe to share between threads, so
whoever needs an engine makes one and closes it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, Self, cast

from runner.model import Fault
from runner.runtimes.docker_errors import EngineError, border

LEAST_API = (1, 40)
"""Docker 19.03: the first with device requests."""
LOCAL = "unix:///var/run/docker.sock"
"""Where an engine is looked for that nobody named."""
CALL_S = 60.0
"""Limit on one answer of the engine, seconds; a start under load takes some."""
QUICK_S = 3.0
"""The same for calls that take milliseconds on an engine that is well, so that a hung one does not hold the runner."""
REMOVE_S = 20.0


class Stream(Protocol):
    """The end of a socket that delivers a container's output."""

    def recv(self, size: int, /) -> bytes: ...  # noqa: D102
    def settimeout(self, seconds: float | None, /) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class Engine:
    """One connection to a Docker engine. Every method raises :class:`EngineError` and nothing else of the library."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    @contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """Calls made here must be answered in this time; the connection belongs to one thread."""
        before = self.client.timeout
        self.client.timeout = limit_s
        try:
            with border():
                yield
        finally:
            self.client.timeout = before

    def version(self) -> dict[str, Any]:
        """What the engine says of itself."""
        with border():
            return dict(self.client.version())

    def info(self) -> dict[str, Any]:
        """Facts of the engine's host."""
        with border():
            return dict(self.client.info())

    # ---- containers ----

    def create(self, config: Mapping[str, Any], name: str) -> str:
        """Make a container; the id."""
        with border():
            return str(self.client.create_container_from_config(dict(config), name)["Id"])

    def attach(self, container: str) -> Stream:
        """Output from now on, as frames of 8 bytes of header and a payload. Attach before the start to miss nothing."""
        with border():
            held = self.client.attach_socket(
                container, params={"stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
            )
            return _Attached(held)

    def start(self, container: str) -> None:
        """Start it."""
        with border():
            self.client.start(container)

    def wait(self, container: str, timeout_s: float) -> int | None:
        """The exit code; None where it still runs after ``timeout_s``."""
        try:
            with border():
                return int(self.client.wait(container, timeout=timeout_s)["StatusCode"])
        except EngineError as error:
            if error.timed_out:
                return None
            raise

    def inspect(self, container: str) -> dict[str, Any]:
        """All facts of a container."""
        with self.within(QUICK_S):
            return dict(self.client.inspect_container(container))

    def kill(self, container: str, signal: str) -> None:
        """Send a signal; a container that ended meanwhile is no error."""
        try:
            with self.within(QUICK_S):
                self.client.kill(container, signal)
        except EngineError as error:
            if error.status not in {404, 409}:
                raise

    def remove(self, container: str, limit_s: float = REMOVE_S) -> None:
        """Remove it, running or not, with its anonymous volumes."""
        with self.within(limit_s):
            self.client.remove_container(container, v=True, force=True)

    def logs(self, container: str) -> Iterator[bytes]:
        """The output the engine kept, from its start and on to its end."""
        with border():
            yield from self.client.logs(container, stdout=True, stderr=True, stream=True, follow=True)

    def out_of_memory(self, container: str, since: str, until: str) -> bool:
        """Whether the engine saw an ``oom`` event of it between two of its own times (RFC 3339)."""
        filters = {"container": container, "event": "oom"}
        with border():
            return any(
                True for _ in self.client.events(since=since, until=until, filters=filters, decode=True)
            )

    def containers(self, label: str) -> list[dict[str, Any]]:
        """All containers with a label, running or not."""
        with border():
            return list(self.client.containers(all=True, filters={"label": label}))

    # ---- images ----

    def image(self, ref: str) -> dict[str, Any] | None:
        """All facts of a local image; None where there is none."""
        try:
            with border():
                return dict(self.client.inspect_image(ref))
        except EngineError as error:
            if error.status == 404:
                return None
            raise

    def images(self, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Local images by filter."""
        with border():
            return list(self.client.images(filters=dict(filters)))

    def remove_image(self, ref: str) -> None:
        """Remove a tag, or an image with what only it needed."""
        with border():
            self.client.remove_image(ref, noprune=False)

    def pull(self, ref: str) -> Iterator[dict[str, Any]]:
        """Pull; the entries of the stream."""
        with border():
            yield from self.client.pull(ref, stream=True, decode=True)

    def build(self, **options: Any) -> Iterator[dict[str, Any]]:
        """Build with the classic builder; the entries of the stream."""
        with border():
            yield from self.client.build(decode=True, **options)

    def build_network(self) -> str | None:
        """The network of build steps: the engine's own bridge (None), or the host's where the engine has none."""
        with border():
            names = {network["Name"] for network in self.client.networks(names=["bridge"])}
        return None if "bridge" in names else "host"

    def load_root(self, tar: str, tag: str, changes: list[str]) -> None:
        """Make an image of a file system in a tar file."""
        repository, _, version = tag.rpartition(":")
        with border():
            self.client.import_image_from_file(tar, repository=repository, tag=version, changes=changes)


class _Attached:
    """Keeps the answer alive whose socket is read; docker-py gives a wrapper without time limits."""

    def __init__(self, held: Any) -> None:
        self._held = held
        self._socket = getattr(held, "_sock", held)

    def recv(self, size: int) -> bytes:
        return cast("bytes", self._socket.recv(size))

    def settimeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        response = getattr(self._held, "_response", None)
        for part in (response, self._held, self._socket):
            if part is not None:
                part.close()


def connect(timeout_s: float = CALL_S, version: str = "auto") -> Engine:
    """A connection to the engine that ``DOCKER_HOST`` names, or the local one. Raises :class:`EngineError`."""
    _knock(os.environ.get("DOCKER_HOST") or LOCAL, timeout_s)
    with border():
        from docker import APIClient
        from docker.utils import kwargs_from_env

        known = kwargs_from_env(environment=dict(os.environ))
        return Engine(APIClient(version=version, timeout=int(timeout_s), **known))


def _knock(host: str, timeout_s: float) -> None:
    """Fail early where nobody listens: without loading the library, which also leaves its failed socket open."""
    if not host.startswith("unix://"):
        return
    path = host.removeprefix("unix://")
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(timeout_s)
            door.connect(path)
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise EngineError(message, fault=Fault.DAEMON) from error
