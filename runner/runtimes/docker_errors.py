"""The one border where exceptions of the docker and requests packages become ours.

docker-py raises its own classes, those of requests (``wait`` ends in a ``ReadTimeout`` or, for chunked answers, in a
``ConnectionError`` around a urllib3 timeout: docker/docker-py#1966), and bare ``OSError`` or ``ValueError`` from
streams that break in the middle. Nothing outside this module needs to know any of them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from runner.model import Fault

# Words of engine, OCI runtime and registries, most telling first: (pattern, fault, whether trying again can help).
_WORDS: tuple[tuple[str, Fault, bool], ...] = (
    (r"no space left on device|disk quota exceeded|not enough free space", Fault.DISK, False),
    (
        r"could not select device driver|CDI device injection failed|unresolvable CDI|nvidia-container-cli",
        Fault.DEVICE,
        False,
    ),
    (
        r"gathering device information|adding custom device|cannot set both Count and DeviceIDs",
        Fault.DEVICE,
        False,
    ),
    (r"toomanyrequests|rate limit", Fault.PULL, True),
    (
        r"unexpected HTTP status: 5\d\d|TLS handshake timeout|i/o timeout|connection re(fused|set)|EOF$",
        Fault.NETWORK,
        True,
    ),
    (
        r"no such host|temporary failure in name resolution|network is unreachable|Client\.Timeout|context deadline",
        Fault.NETWORK,
        True,
    ),
    (r"x509|certificate", Fault.NETWORK, False),
    (r"unauthorized|access denied|denied:|authentication required|no basic auth", Fault.PULL, False),
    (
        r"manifest|repository .*not found|does not exist|no such image|invalid reference|platform",
        Fault.PULL,
        False,
    ),
)

# user:password@ in an address, and the values of headers and parameters that carry credentials.
_SECRETS = re.compile(
    r"(?i)(?<=://)[^/@\s\"]+(?=@)|(?<=authorization: )\S+(?: \S+)?|(?<=bearer )\S+|(?<=token=)[^&\s\"]+|(?<=password=)[^&\s\"]+"
)


class EngineError(Exception):
    """An engine call that failed. ``status`` is the HTTP status, None where there was no answer."""

    def __init__(
        self,
        message: str,
        *,
        fault: Fault,
        status: int | None = None,
        timed_out: bool = False,
        again: bool = False,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.status = status
        self.timed_out = timed_out
        self.again = again
        """Whether the same call may succeed later."""


@lru_cache(maxsize=1)
def foreign() -> tuple[type[Exception], ...]:
    """The exception classes that the docker package lets through."""
    from http.client import HTTPException

    from docker.errors import DockerException, StreamParseError
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    return (
        DockerException,
        StreamParseError,
        RequestException,
        HTTPError,
        HTTPException,
        OSError,
        ValueError,
    )


@contextmanager
def border() -> Iterator[None]:
    """Turn every foreign exception into an :class:`EngineError`."""
    try:
        yield
    except foreign() as error:
        raise translate(error) from error


def translate(error: Exception) -> EngineError:
    """What a foreign exception means. Total: what is not known by name or words is the daemon's fault."""
    status = getattr(error, "status_code", None)
    text = one_line(getattr(error, "explanation", None) or str(error) or type(error).__name__)
    if _is_timeout(error):
        return EngineError(f"no answer in time: {text}", fault=Fault.DAEMON, timed_out=True, again=True)
    if status is None:
        # No answer of the engine: words such as "connection refused" speak of the engine itself, not of a registry.
        fault = Fault.DISK if getattr(error, "errno", None) == errno.ENOSPC else Fault.DAEMON
        return EngineError(f"{type(error).__name__}: {text}", fault=fault, again=isinstance(error, OSError))
    fault, again = _from_words(text)
    return EngineError(f"{text} (HTTP {status})", fault=fault, status=status, again=again)


def from_stream(message: str) -> EngineError:
    """An error entry inside a pull or build stream: the call itself did not raise."""
    text = one_line(message)
    fault, again = _from_words(text)
    return EngineError(text, fault=fault, again=again)


def _from_words(text: str) -> tuple[Fault, bool]:
    for pattern, fault, again in _WORDS:
        if re.search(pattern, text, re.IGNORECASE):
            return fault, again
    return Fault.DAEMON, False


def _is_timeout(error: BaseException) -> bool:
    from requests.exceptions import Timeout
    from urllib3.exceptions import TimeoutError as PoolTimeout

    if isinstance(error, (Timeout, PoolTimeout, TimeoutError)):
        return True
    return any(isinstance(inner, BaseException) and _is_timeout(inner) for inner in error.args) or (
        "read timed out" in str(error).lower()
    )


def one_line(text: str, limit: int = 300) -> str:
    """A message as one line without credentials."""
    line = _SECRETS.sub("***", " ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."
