"""An engine that breaks, hangs, lies or goes away while a cell runs (field cases F01, F02, F09)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.facts import CellExit
from runner.model import Fault, Limits, Stop
from runner.runtimes import RUN
from runner.runtimes.docker import DockerRuntime
from runner.runtimes.docker_cell import STOP_TRIES, TRIES, remove
from runner.runtimes.docker_client import Engine
from tests.runner.runtimes.fakes import (
    FakeClient,
    FakeTime,
    ScriptedStream,
    api_error,
    chunked_timeout,
    frame,
    read_timeout,
    refused,
)

DATA = Path(__file__).parent / "data"


class After:
    """Asks to stop once, and a second time (which ends the grace) where ``again`` seconds are given."""

    def __init__(
        self, seconds: float | None = None, reason: Stop = Stop.TIMED_OUT, again: float = math.inf
    ) -> None:
        self.due, self.reason = [math.inf if seconds is None else seconds, again], reason

    def poll(self, elapsed_s: float) -> Stop | None:
        if not self.due or elapsed_s < self.due[0]:
            return None
        self.due.pop(0)
        return self.reason


Run = Callable[..., tuple[CellExit, bytes]]


@pytest.fixture
def run(tmp_path: Path, make_spec: Any) -> Run:
    def run_cell(client: FakeClient, watch: After | None = None, **changes: Any) -> tuple[CellExit, bytes]:
        runtime = DockerRuntime(
            lambda: Engine(client), root=tmp_path, cache=tmp_path, clock=client.time.clock()
        )
        spec = make_spec("true", image="cheap", **changes)
        done = runtime.run(spec, watch or After())
        return done, spec.log_path.read_bytes()

    return run_cell


def test_f01_two_broken_waits_and_a_container_that_is_fine(run: Run) -> None:
    client = FakeClient(waits=[read_timeout(), chunked_timeout()])
    done, _ = run(client)
    assert (done.exit_code, done.fault, done.stopped) == (0, None, None)
    after_break = [client.calls[at + 1][:7] for at, call in enumerate(client.calls) if call == "wait"]
    assert after_break == ["inspect"] * 3
    assert client.calls[-1] == f"remove {client.id}"


def test_f01_a_wait_that_always_breaks_ends_at_the_limit_by_our_own_clock(run: Run) -> None:
    client = FakeClient()
    client.always = lambda call: read_timeout() if call == "wait" else None
    done, _ = run(client, After(30.0))
    assert (done.stopped, done.fault, done.exit_code) == (Stop.TIMED_OUT, None, 143)
    assert 30 <= client.time.now_s < 40
    assert "kill SIGTERM" in client.calls
    assert "kill SIGKILL" not in client.calls


def test_f01_a_wait_that_breaks_at_once_is_no_busy_loop(run: Run) -> None:
    client = FakeClient()
    client.always = lambda call: refused() if call == "wait" else None
    done, _ = run(client, After(30.0))
    assert (done.stopped, done.fault) == (Stop.TIMED_OUT, None)
    assert client.calls.count("wait") <= 2 * 30 / 0.5


def test_f01_a_daemon_that_is_gone_is_infra_after_bounded_tries_and_names_the_container(run: Run) -> None:
    client = FakeClient()
    client.always = lambda call: refused() if call.split()[0] in {"wait", "inspect", "remove"} else None
    done, _ = run(client)
    assert (done.exit_code, done.fault, done.handle) == (None, Fault.DAEMON, client.id)
    assert client.id in done.message
    assert client.calls.count("wait") == TRIES
    assert client.time.now_s < 60
    assert any(client.id[:12] in remark and "left behind" in remark for remark in done.remarks)
    assert done.left_behind


def test_a_daemon_that_is_gone_while_stopping_does_not_hold_the_runner(run: Run) -> None:
    client = FakeClient()

    def gone(call: str) -> Exception | None:
        stopping = "kill SIGTERM" in client.calls
        return refused() if stopping else read_timeout() if call == "wait" else None

    client.always = gone
    done, _ = run(client, After(5.0, Stop.CANCELLED))
    assert (done.fault, done.stopped) == (Fault.DAEMON, Stop.CANCELLED)
    assert client.calls[client.calls.index("kill SIGTERM") :].count("wait") <= STOP_TRIES
    assert client.time.now_s < 5 + 9


def test_a_restart_of_the_daemon_that_took_the_container_along_is_infra(run: Run) -> None:
    client = FakeClient(waits=[refused(), refused()], inspects=[refused()], exit_code=137)
    done, _ = run(client)
    assert (done.exit_code, done.fault) == (None, Fault.DAEMON)
    assert "went away" in done.message


def test_a_restart_of_the_daemon_that_left_the_container_alone_is_a_remark(run: Run) -> None:
    client = FakeClient(waits=[refused()], inspects=[refused()], exit_code=1)
    done, _ = run(client)
    assert (done.exit_code, done.fault) == (1, None)
    assert any("did not answer for a while" in remark for remark in done.remarks)


def test_a_process_that_survives_sigkill_is_said_with_the_container(run: Run) -> None:
    client = FakeClient()
    client.always = lambda call: read_timeout() if call == "wait" else None
    client.kill = lambda container, signal: client.calls.append(f"kill {signal}")  # type: ignore[method-assign]
    done, _ = run(client, After(2.0), limits=Limits(stop_grace_s=3.0))
    assert (done.exit_code, done.fault, done.stopped) == (None, Fault.DAEMON, Stop.TIMED_OUT)
    assert client.id in done.message
    assert [call for call in client.calls if call.startswith("kill")] == ["kill SIGTERM", "kill SIGKILL"]


# ---- F02 ----

CONFLICTS = {row["expect"]: row for row in json.loads((DATA / "name-conflict.json").read_text())}


def conflict(row: dict[str, Any]) -> Exception:
    return api_error(*row["raises"])


def test_f02_a_name_held_by_a_stranger_is_left_alone_and_the_cell_takes_another(run: Run) -> None:
    row = CONFLICTS["holder untouched; other name or infra"]
    client = FakeClient(creates=[conflict(row)])
    client.holders["cell-a"] = {"Id": row["holder"]["id"], "Config": {"Labels": row["holder"]["labels"]}}
    done, _ = run(client, name="cell-a", labels={RUN: "THIS"})
    assert (done.exit_code, done.fault) == (0, None)
    assert "remove aaaa" not in client.calls
    names = [call.split()[1] for call in client.calls if call.startswith("create")]
    assert names[0] == "cell-a"
    assert names[1].startswith("cell-a-")


def test_f02_a_name_held_by_our_own_container_is_freed_and_tried_once_more(run: Run) -> None:
    row = CONFLICTS["bbbb removed, one more try"]
    client = FakeClient(creates=[conflict(row)])
    client.holders["cell-a"] = {"Id": "bbbb", "Config": {"Labels": {RUN: "THIS"}}}
    done, _ = run(client, name="cell-a", labels={RUN: "THIS"})
    assert (done.exit_code, done.fault) == (0, None)
    assert client.calls[:4] == ["create cell-a", "inspect cell-a", "remove bbbb", "create cell-a"]


def test_f02_a_name_held_by_our_tool_but_another_run_is_left_alone(run: Run) -> None:
    client = FakeClient(creates=[api_error(409, "Conflict. The container name is already in use")])
    client.holders["cell-a"] = {"Id": "bbbb", "Config": {"Labels": {RUN: "ANOTHER"}}}
    run(client, name="cell-a", labels={RUN: "THIS"})
    assert "remove bbbb" not in client.calls


def test_f02_a_create_without_an_answer_leaves_no_container_behind(run: Run) -> None:
    client = FakeClient(creates=[read_timeout()])
    client.holders["cell-a"] = {"Id": "made-after-all", "Config": {"Labels": {RUN: "THIS"}}}
    done, _ = run(client, name="cell-a", labels={RUN: "THIS"})
    assert (done.exit_code, done.fault) == (None, Fault.DAEMON)
    assert client.calls[-1] == "remove made-after-all"


@pytest.mark.parametrize(
    ("expect", "tries", "problem"),
    [
        ("treated as removed", 1, ""),
        ("force, bounded", 2, ""),
        (
            "a few tries, then a named leftover; the verdict of the cell stays",
            4,
            "container f00df00df00d is left behind",
        ),
    ],
)
def test_f02_removal(expect: str, tries: int, problem: str) -> None:
    client = FakeClient(removes=[conflict(CONFLICTS[expect])] * (tries if problem else 1))
    said = remove(Engine(client), client.id, client.time.clock())
    assert said.startswith(problem) if problem else said == ""
    assert client.calls.count(f"remove {client.id}") == tries


def test_f02_a_container_that_cannot_be_removed_holds_its_devices_whatever_the_cell_did(run: Run) -> None:
    client = FakeClient(removes=[api_error(500, "driver failed to remove root filesystem")] * 4)
    done, _ = run(client)
    assert (done.exit_code, done.fault, done.left_behind) == (0, None, True)
    assert any("left behind" in remark for remark in done.remarks)


def test_a_log_whose_end_is_not_written_leaves_nothing_on_the_devices(run: Run) -> None:
    class Full:
        def feed(self, data: bytes) -> bytes:
            return data

        def close(self) -> bytes:
            raise OSError(28, "No space left on device")

    done, _ = run(FakeClient(), log_filter=Full())
    assert (done.exit_code, done.left_behind) == (0, False)
    assert done.remarks[-1] == "the log's end could not be written: No space left on device"


def test_f02_removal_already_in_progress_is_waited_for() -> None:
    row = next(
        row
        for row in json.loads((DATA / "name-conflict.json").read_text())
        if "in progress" in row["raises"][1]
    )
    client = FakeClient(removes=[conflict(row)], inspects=[None, None, api_error(404, "No such container")])
    assert remove(Engine(client), client.id, client.time.clock()) == ""
    assert client.calls == [f"remove {client.id}"] + [f"inspect {client.id}"] * 3


def test_f02_a_container_that_did_not_start_is_removed(run: Run) -> None:
    client = FakeClient()
    client.always = lambda call: (
        api_error(500, "nvidia-container-cli: unknown device") if call == "start" else None
    )
    done, _ = run(client)
    assert (done.exit_code, done.fault) == (None, Fault.DEVICE)
    assert client.calls[-1] == f"remove {client.id}"


# ---- F09 ----


def test_f09_a_log_stream_that_never_ends_does_not_hold_the_cell(run: Run) -> None:
    stream = ScriptedStream(frame(b"one\n") + frame(b"two\n"), frame(b"three\n"), endless=True)
    began = time.monotonic()
    done, log = run(FakeClient(stream=stream))
    assert time.monotonic() - began < 5
    assert (done.exit_code, done.fault, log) == (0, None, b"one\ntwo\nthree\n")
    assert any("may be incomplete" in remark for remark in done.remarks)


def test_f09_a_log_that_cannot_be_read_is_said_with_the_reason(run: Run) -> None:
    reason = "configured logging driver does not support reading"
    client = FakeClient(stream=api_error(500, reason), kept_log=[api_error(500, reason)])
    done, log = run(client)
    assert (done.exit_code, done.fault, log) == (0, None, b"")
    assert any(reason in remark for remark in done.remarks)


def test_f09_a_stream_that_breaks_is_read_again_without_doubled_lines(run: Run) -> None:
    stream = ScriptedStream(frame(b"one\n"), ConnectionResetError("stream broke"))
    client = FakeClient(stream=stream, kept_log=[b"one\n", b"two\n", b"three\n"])
    done, log = run(client)
    assert (done.exit_code, log.splitlines()) == (0, [b"one", b"two", b"three"])
    assert any("read again" in remark for remark in done.remarks)


def test_f09_a_stream_that_breaks_twice_is_read_a_third_time(run: Run) -> None:
    stream = ScriptedStream(frame(b"one\n"), ConnectionResetError("stream broke"))
    client = FakeClient(stream=stream, kept_log=[b"on", b"e\ntwo\n", ConnectionResetError("again")])
    original = client.logs

    def second_time_whole(container: str, **options: Any) -> Any:
        if client.calls.count("logs"):
            client.kept_log = [b"one\ntwo\n", b"three\n"]
        return original(container, **options)

    client.logs = second_time_whole  # type: ignore[method-assign]
    _, log = run(client)
    assert log == b"one\ntwo\nthree\n"


def test_f09_after_more_output_than_the_engine_keeps_the_gap_is_said(run: Run) -> None:
    big = b"x" * 60_000
    stream = ScriptedStream(*[frame(big)] * 200, ConnectionResetError("stream broke"))
    client = FakeClient(stream=stream, kept_log=[b"only the end\n"])
    done, log = run(client)
    assert len(log) == 200 * len(big)
    assert any("incomplete" in remark for remark in done.remarks)
    assert "logs" not in client.calls


@pytest.mark.parametrize("cut", [1, 3, 7, 8, 9, 11, 1000])
def test_frames_may_be_cut_anywhere(run: Run, cut: int) -> None:
    whole = frame("naïve ".encode()) + frame(b"") + frame(b"err\n", kind=2) + frame(bytes(range(256)))
    stream = ScriptedStream(*[whole[at : at + cut] for at in range(0, len(whole), cut)])
    _, log = run(FakeClient(stream=stream))
    assert log == "naïve err\n".encode() + bytes(range(256))


def test_times_of_the_fake_engine_pass_without_waiting() -> None:
    fake = FakeTime()
    fake.clock().sleep(1000.0)
    assert fake.clock().now() == 1000.0


class Deaf(FakeClient):
    """A container that only SIGKILL ends."""

    def wait(self, container: str, timeout: float) -> dict[str, Any]:
        self._call("wait", self.waits)
        if self.running:
            self.time.sleep(timeout)
            raise read_timeout()
        return {"StatusCode": self.exit_code}

    def kill(self, container: str, signal: str) -> None:
        self.calls.append(f"kill {signal} at {self.time.now_s:g}")
        if signal == "SIGKILL":
            self.running, self.exit_code = False, 137


@pytest.mark.parametrize(
    ("watch", "killed_at"),
    [(After(2.0), 62.0), (After(2.0, Stop.CANCELLED), 6.0), (After(2.0, Stop.CANCELLED, again=3.0), 3.0)],
    ids=["the grace of the file", "somebody waits", "asked twice"],
)
def test_how_long_the_grace_is(run: Run, watch: After, killed_at: float) -> None:
    client = Deaf()
    done, _ = run(client, watch, limits=Limits(stop_grace_s=60.0), stop_signal="SIGINT")
    kills = [call for call in client.calls if call.startswith("kill")]
    assert kills[0].startswith("kill SIGINT at 2")
    assert float(kills[1].removeprefix("kill SIGKILL at ")) == pytest.approx(killed_at, abs=0.6)
    assert done.exit_code == 137
