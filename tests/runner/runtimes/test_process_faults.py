"""A host that fails under the process runtime: no descriptors, no threads, no cores, processes that do not end."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from runner.facts import CellExit, HandOver
from runner.model import Fault, Stop
from runner.runtimes import process_running
from runner.runtimes.process import ProcessRuntime
from runner.runtimes.process_tree import CellTree, marked


class After:
    """Asks to stop after a time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def poll(self, elapsed_s: float) -> Stop | None:
        return Stop.TIMED_OUT if elapsed_s >= self.seconds else None


@pytest.fixture
def start(tmp_path: Path, make_spec: Any) -> Any:
    runtime = ProcessRuntime(root=tmp_path, cache=tmp_path / "cache")

    def run_cell(*argv: str, after_s: float = 0.0, **changes: Any) -> CellExit:
        return runtime.run(make_spec(*argv, **changes), After(after_s))

    return run_cell


@pytest.fixture
def run(start: Any) -> Any:
    def run_and_look(*argv: str, **changes: Any) -> tuple[CellExit, list[int]]:
        return start(*argv, **changes), running()

    return run_and_look


def running() -> list[int]:
    """Processes of cells that this test process has started."""
    return [seen.pid for seen, mark in marked() if f"test-{os.getpid()}" in mark.split(":")]


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """So many descriptors and no more, of which those that are open now are none."""
    held: list[int] = []
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = os.open("/dev/null", os.O_RDONLY)
    try:
        # Below the limit all numbers are taken, but for the last ones.
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(top, 64) + 64, before[1]))
        with suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(count):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for number in (*held, top):
            os.close(number)


def test_with_any_number_of_descriptors_nothing_is_left_running(start: Any) -> None:
    """At each number another step of the way fails: log, port, folder, pipe, process descriptor, look at /proc."""
    ends: list[CellExit] = []
    for count in itertools.takewhile(lambda _: not ends or ends[-1].fault, range(30)):
        with free_descriptors(count):
            ends.append(start("sleep", "300"))
        assert running() == [], count
    assert len(ends) > 5
    assert {(done.exit_code, done.fault) for done in ends} == {(None, Fault.DAEMON), (143, None)}
    assert (ends[-1].stopped, ends[-1].left_behind) == (Stop.TIMED_OUT, False)
    assert [done.message for done in ends if "None" in done.message] == []


def test_a_process_whose_guard_fails_is_ended(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", none_left)
    done, left = run("sleep", "300")
    assert left == []
    assert (done.exit_code, done.fault, done.left_behind) == (None, Fault.DAEMON, False)


def test_a_process_whose_output_no_thread_can_read_is_ended(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: Any) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", none_left)
    done, left = run("sleep", "300")
    assert left == []
    assert (done.exit_code, done.fault, done.left_behind) == (None, Fault.DAEMON, False)
    assert "Resource temporarily unavailable" in done.message


def test_a_core_that_the_host_took_away_is_its_fault_and_not_the_images(run: Any) -> None:
    """The kernel's own refusal: no such core can be in a cpuset."""
    done, _ = run("true", hand_over=HandOver(cpus=(8191,)))
    assert (done.exit_code, done.fault) == (None, Fault.DAEMON)
    assert done.message == "cannot start true: Invalid argument"


@pytest.mark.parametrize("number", [11, 12, 24], ids=["EAGAIN", "ENOMEM", "EMFILE"])
def test_a_fork_that_the_host_refuses_is_its_fault(
    run: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    done, _ = run("true")
    assert (done.exit_code, done.fault) == (None, Fault.DAEMON)


def test_a_private_folder_that_is_gone_is_not_taken_for_a_program_that_is_not_there(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def gone(**_: Any) -> Iterator[str]:
        yield str(tmp_path / "gone")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", gone)
    done, _ = run("true")
    assert (done.exit_code, done.fault) == (None, Fault.DISK)


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [("#!/no/such/interpreter\n", 0o755, 127), ("\0\0\0\0", 0o755, 127), ("#!/bin/sh\n", 0o644, 126)],
    ids=["ENOENT", "ENOEXEC", "EACCES"],
)
def test_a_program_that_cannot_be_executed_is_the_images(
    run: Any, tmp_path: Path, text: str, mode: int, code: int
) -> None:
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(mode)
    done, _ = run(str(program))
    assert (done.exit_code, done.fault, done.left_behind) == (code, None, False)


def test_a_fault_of_the_watch_ends_the_cell(make_spec: Any, tmp_path: Path) -> None:
    class Broken:
        def poll(self, elapsed_s: float) -> Stop | None:
            raise OSError(5, "Input/output error", "evidence.jsonl")

    done = ProcessRuntime(root=tmp_path, cache=tmp_path).run(make_spec("sleep", "300"), Broken())
    assert (done.exit_code, done.fault, done.left_behind) == (None, Fault.DISK, False)
    assert done.message == "evidence.jsonl: Input/output error"


def test_processes_that_outlive_sigkill_are_left_behind(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an uninterruptible sleep (state D): the signal is sent and nothing comes of it."""
    monkeypatch.setattr(process_running, "KILL_S", 0.2)
    monkeypatch.setattr("runner.runtimes.process_tree.send", lambda *_: True)
    child = "import os, time\nif os.fork() == 0:\n os.setsid()\n time.sleep(300)"
    done, left = run("python3", "-c", child, after_s=9.0)
    try:
        assert len(left) == 1
        assert (done.exit_code, done.fault, done.left_behind) == (0, None, True)
        assert any(f"still alive 0.2 s after SIGKILL: {left[0]}" in remark for remark in done.remarks)
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def test_where_nobody_can_look_something_may_be_left(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(*_: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(CellTree, "end", blind)
    done, left = run("true", after_s=9.0)
    assert left == []
    assert (done.exit_code, done.left_behind) == (0, True)
    assert any("cannot tell whether" in remark for remark in done.remarks)
