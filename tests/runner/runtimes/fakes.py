"""A Docker engine's client that misbehaves on demand: below the border, so that every test crosses it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from docker.errors import APIError, NotFound
from requests import Response
from requests.exceptions import ConnectionError as Unreachable
from requests.exceptions import ReadTimeout

from runner.runtimes.docker_cell import Clock


def api_error(status: int, text: str) -> APIError:
    response = Response()
    response.status_code = status
    return (NotFound if status == 404 else APIError)(text, response=response, explanation=text)


def frame(data: bytes, kind: int = 1) -> bytes:
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


class ScriptedStream:
    """The attached output: pieces, exceptions to raise, and silence that lasts until it is closed."""

    def __init__(self, *pieces: bytes | Exception, endless: bool = False) -> None:
        self._pieces = list(pieces)
        self._endless = endless
        self.closed = False

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def recv(self, size: int) -> bytes:
        if self._pieces:
            piece = self._pieces.pop(0)
            if isinstance(piece, Exception):
                raise piece
            assert len(piece) <= size
            return piece
        if self._endless:
            threading.Event().wait(0.05)
            raise TimeoutError
        return b""

    def close(self) -> None:
        self.closed = True


class FakeTime:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> Clock:
        return Clock(now=lambda: self.now_s, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class FakeClient:
    """The part of ``docker.APIClient`` that the runtime uses. ``waits`` and ``inspects`` script the next answers."""

    stream: Any = field(default_factory=ScriptedStream)
    exit_code: int = 0
    waits: list[Exception | None] = field(default_factory=list)
    inspects: list[Exception | None] = field(default_factory=list)
    always: Callable[[str], Exception | None] = lambda call: None
    creates: list[Exception | None] = field(default_factory=list)
    removes: list[Exception | None] = field(default_factory=list)
    holders: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept_log: list[bytes | Exception] = field(default_factory=list)
    time: FakeTime = field(default_factory=FakeTime)
    running: bool = True
    timeout: float = 60.0
    calls: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    id = "f00d" * 16

    def _call(self, name: str, script: list[Exception | None] | None = None) -> None:
        self.calls.append(name)
        error = self.always(name) or (script.pop(0) if script else None)
        if error is not None:
            if isinstance(error, ReadTimeout):
                self.time.sleep(0.5)
            raise error

    def close(self) -> None:
        """Connections of a fake need no closing."""

    def create_container_from_config(self, config: dict[str, Any], name: str) -> dict[str, str]:
        self._call(f"create {name}", self.creates)
        self.config = config
        return {"Id": self.id}

    def attach_socket(self, container: str, params: dict[str, int]) -> Any:
        self._call("attach")
        if isinstance(self.stream, Exception):
            raise self.stream
        return self.stream

    def start(self, container: str) -> None:
        self._call("start")

    def wait(self, container: str, timeout: float) -> dict[str, Any]:
        self._call("wait", self.waits)
        if self.running:
            self.running = False
        return {"StatusCode": self.exit_code}

    def inspect_container(self, container: str) -> dict[str, Any]:
        self._call(f"inspect {container}", self.inspects)
        if container in self.holders:
            return self.holders[container]
        if not container.startswith("f00d"):
            raise api_error(404, f"No such container: {container}")
        return {
            "Id": self.id,
            "State": {
                "Running": self.running, "Status": "running" if self.running else "exited",
                "ExitCode": self.exit_code, "OOMKilled": False, "Error": "",
                "StartedAt": "2020-01-01T00:00:00Z", "FinishedAt": "2020-01-01T00:00:01Z",
            },
        }  # fmt: skip

    def kill(self, container: str, signal: str) -> None:
        self._call(f"kill {signal}")
        self.running, self.exit_code = False, 143 if signal == "SIGTERM" else 137

    def remove_container(self, container: str, v: bool, force: bool) -> None:
        self._call(f"remove {container}", self.removes)
        assert v
        assert force

    def logs(self, container: str, **options: Any) -> Iterator[bytes]:
        self._call("logs")
        for piece in self.kept_log:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def events(self, **options: Any) -> Iterator[dict[str, Any]]:
        self._call("events")
        return iter(())


def read_timeout(_: str = "") -> Exception:
    return ReadTimeout("Read timed out. (read timeout=60)")


def chunked_timeout() -> Exception:
    """docker/docker-py#1966: a time limit that comes as a connection error."""
    return Unreachable("UnixHTTPConnectionPool(host='localhost', port=None): Read timed out.")


def refused() -> Exception:
    return Unreachable("('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))")
