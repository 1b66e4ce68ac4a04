"""The border: no exception of docker or requests gets past it, and each becomes the right fault."""

from __future__ import annotations

import inspect
import json
from http.client import IncompleteRead
from io import BytesIO
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests.exceptions
import urllib3
import urllib3.exceptions

from runner.model import Fault
from runner.runtimes.docker_errors import EngineError, border, from_stream, one_line, translate
from tests.runner.runtimes.fakes import api_error

DATA = Path(__file__).parent / "data"


def exceptions_of(module: Any) -> list[type[Exception]]:
    found = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, Exception)]
    return [kind for kind in found if not issubclass(kind, Warning) and kind.__module__ == module.__name__]


ARGUMENTS: dict[type[Exception], tuple[Any, ...]] = {
    requests.exceptions.JSONDecodeError: ("no JSON", "text", 0),
    urllib3.exceptions.IncompleteRead: (7, 7),
    urllib3.exceptions.InvalidChunkLength: (urllib3.HTTPResponse(BytesIO()), b"7"),
}


def made(kind: type[Exception]) -> Exception:
    """An instance; where its constructor wants more than a message, with as many words as it wants."""
    if kind in ARGUMENTS or not inspect.isfunction(kind.__init__):
        return kind(*ARGUMENTS.get(kind, ("said so",)))
    wanted = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return kind(
        *[
            "said so"
            for item in wanted
            if item.kind == item.POSITIONAL_OR_KEYWORD and item.default is item.empty
        ]
    )


FOREIGN = sorted(
    {*exceptions_of(docker.errors), *exceptions_of(requests.exceptions), *exceptions_of(urllib3.exceptions)},
    key=lambda kind: (kind.__module__, kind.__name__),
)


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_exception_class_of_the_libraries_is_translated(kind: type[Exception]) -> None:
    error = made(kind)
    with pytest.raises(EngineError) as caught, border():
        raise error
    assert isinstance(caught.value.fault, Fault)
    assert caught.value.__cause__ is error


def test_there_are_classes_to_translate() -> None:
    assert docker.errors.APIError in FOREIGN
    assert requests.exceptions.ReadTimeout in FOREIGN
    assert len(FOREIGN) > 60


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), IncompleteRead(b""), ValueError("no JSON")])
def test_streams_that_break_in_the_middle_are_translated(error: Exception) -> None:
    with pytest.raises(EngineError) as caught, border():
        raise error
    assert (caught.value.fault, caught.value.status) == (Fault.DAEMON, None)


def test_errors_of_our_own_code_pass() -> None:
    with pytest.raises(KeyError), border():
        raise KeyError


def test_a_time_limit_is_known_in_either_form() -> None:
    plain = requests.exceptions.ReadTimeout("x")
    inner = urllib3.exceptions.ReadTimeoutError(None, "", "Read timed out.")  # type: ignore[arg-type]
    assert [translate(error).timed_out for error in (plain, requests.exceptions.ConnectionError(inner))] == [
        True,
        True,
    ]
    assert translate(requests.exceptions.ConnectionError("refused")).timed_out is False


DEVICE_ROWS = [row for row in json.loads((DATA / "device-errors.json").read_text()) if "status" in row]


@pytest.mark.parametrize("row", DEVICE_ROWS, ids=lambda row: row["text"][:40])
def test_f05_a_device_error_at_the_start_is_a_device_fault(row: dict[str, Any]) -> None:
    assert translate(api_error(row["status"], row["text"])).fault is Fault.DEVICE


PULL_ROWS = json.loads((DATA / "pull-errors.json").read_text())


@pytest.mark.parametrize("row", PULL_ROWS, ids=lambda row: str(row.get("text", "stream"))[:40])
def test_f06_which_pull_errors_are_worth_another_try(row: dict[str, Any]) -> None:
    error = (
        from_stream(row["stream"][-1]["error"])
        if "stream" in row
        else translate(api_error(row["status"], row["text"]))
    )
    assert error.again is row["retry"].startswith(("yes", "later"))
    assert error.fault in {Fault.PULL, Fault.NETWORK, Fault.DISK}
    assert (error.fault is Fault.DISK) == ("space" in str(error))


def test_no_space_is_the_disks_fault_wherever_it_is_said() -> None:
    assert translate(api_error(500, "write /var/lib: no space left on device")).fault is Fault.DISK
    assert translate(OSError(28, "No space left on device")).fault is Fault.DISK


def test_an_engine_that_does_not_answer_is_not_taken_for_the_network() -> None:
    assert translate(requests.exceptions.ConnectionError("Connection refused")).fault is Fault.DAEMON


@pytest.mark.parametrize(
    "secret",
    [
        "Get https://user:hunter2@images.invalid/v2/: denied",
        "Authorization: Bearer hunter2",
        "https://images.invalid/token?token=hunter2&x=1",
    ],
)
def test_f06_credentials_do_not_reach_a_message(secret: str) -> None:
    assert "hunter2" not in one_line(secret)
    assert "***" in one_line(secret)


def test_a_message_is_one_bounded_line() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert len(one_line("x" * 1000)) == 300
