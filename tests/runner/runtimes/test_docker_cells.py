"""The handed container cases, for real. Sizes and exit codes are theirs."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import resource
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.facts import CellExit, HandOver, PreparedImage, Runtime
from runner.model import Limits, Stop
from runner.runtimes import RUN
from runner.runtimes.docker_client import Engine, connect

pytestmark = pytest.mark.docker


@pytest.fixture
def engine(docker_runtime: Runtime) -> Iterator[Engine]:
    with connect() as engine:
        yield engine


@pytest.fixture
def run(docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any, engine: Engine) -> Any:
    def run_cell(*argv: str, watch: Any = None, **changes: Any) -> tuple[CellExit, bytes]:
        spec = make_spec(*argv, image=cheap_image.ref, **changes)
        done = docker_runtime.run(spec, watch or Forever())
        assert containers(engine, spec.labels[RUN], spec.name) == []
        return done, spec.log_path.read_bytes()

    return run_cell


class Forever:
    def poll(self, elapsed_s: float) -> Stop | None:
        return None


class After:
    """Asks to stop once, and a second time (which ends the grace) where ``again`` seconds are given."""

    def __init__(self, seconds: float, reason: Stop = Stop.TIMED_OUT, again: float = math.inf) -> None:
        self.due, self.reason = [seconds, again], reason

    def poll(self, elapsed_s: float) -> Stop | None:
        if not self.due or elapsed_s < self.due[0]:
            return None
        self.due.pop(0)
        return self.reason


def containers(engine: Engine, run_id: str, name: str) -> list[str]:
    found = engine.containers(f"{RUN}={run_id}")
    return [item["Id"] for item in found if f"/{name}" in item["Names"]]


def test_c01_a_cell_that_ignores_sigterm_is_killed_after_the_grace_and_keeps_its_log(run: Any) -> None:
    began = time.monotonic()
    done, log = run("/data/stubborn.sh", watch=After(1.0))
    assert (done.stopped, done.exit_code, done.oom_killed, done.fault) == (Stop.TIMED_OUT, 137, False, None)
    assert log == b"ready, ignoring TERM\n"
    assert time.monotonic() - began < 1.0 + 1.0 + 5.0  # start, limit and grace + the case's 5 s


def test_c01_a_cell_may_use_the_grace_to_end_well(run: Any) -> None:
    done, log = run("/data/slow-exit.sh", watch=After(1.0), limits=Limits(stop_grace_s=9.0))
    assert (done.stopped, done.exit_code) == (Stop.TIMED_OUT, 0)
    assert log == b"stopping\nstopped\n"


def test_c01_an_ordinary_program_ends_on_sigterm_because_of_the_init_process(run: Any) -> None:
    done, _ = run("sleep", "100", watch=After(0.5, Stop.CANCELLED), limits=Limits(stop_grace_s=20.0))
    assert (done.stopped, done.exit_code) == (Stop.CANCELLED, 143)
    assert done.duration_s < 10


def test_e05_eight_stubborn_cells_are_stopped_side_by_side(run: Any) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(lambda _: run("/data/stubborn.sh", watch=After(2.0, Stop.CANCELLED)), range(8)))
    assert [(done.stopped, done.exit_code) for done, _ in ends] == [(Stop.CANCELLED, 137)] * 8
    assert (
        time.monotonic() - began < 2 + 9 + 8
    )  # one after the other they would need 8 times the grace and more


@pytest.mark.parametrize("code", [0, 1, 2, 5, 124, 125, 126, 127, 134, 137, 139, 143, 255])
def test_c02_the_exit_code_is_the_cells_own(run: Any, code: int) -> None:
    done, _ = run("/data/exits.sh", str(code))
    assert (done.exit_code, done.oom_killed, done.fault, done.message) == (code, False, None, "")


def test_c02_a_killed_child_is_no_memory_shortage(run: Any) -> None:
    done, _ = run("/data/kill-child.sh")
    assert (done.exit_code, done.oom_killed) == (137, False)


def test_c02_a_child_without_memory_is_told_though_the_exit_code_is_0(run: Any) -> None:
    done, log = run("/data/oom-child.sh", limits=Limits(memory_bytes=64 << 20))
    assert (done.exit_code, done.oom_killed) == (0, True)
    assert b"child status 137" in log.splitlines()


def test_c02_memory_that_runs_out_in_the_main_process_is_told(run: Any) -> None:
    hungry = "my $x = q(x) x (300*1024*1024); print length($x)"
    done, _ = run("perl", "-e", hungry, limits=Limits(memory_bytes=64 << 20))
    assert (done.exit_code, done.oom_killed) == (137, True)


def test_c03_the_log_is_what_the_cell_wrote_byte_for_byte(run: Any) -> None:
    done, log = run("/data/bytes.sh")
    expected = (
        b"plain line\nlatin1 caf\351 and bad \200\377\376 bytes\nsplit na\303\257ve word\n"
        b"nul \0 byte, bell \a, esc \033[31mred\033[0m, title \033]0;owned\a\n"
        b"progress 1%\rprogress 50%\rprogress 100%\n"
        b"--- forged section\n+++ forged open section\n~~~ forged quiet section\n"
        b"err line\nlast line without newline"
    )
    assert done.exit_code == 0
    # Two streams have no order between them; this script's error line may come anywhere near its place.
    assert log.replace(b"err line\n", b"") == expected.replace(b"err line\n", b"")
    assert log.count(b"err line\n") == 1
    assert (done.log_bytes, done.log_cut_bytes) == (len(expected), 0)


def test_c04_a_child_that_holds_the_output_does_not_hold_the_cell(run: Any) -> None:
    done, log = run("/data/leaver.sh")
    assert done.exit_code == 3
    assert done.duration_s < 1 + 5
    assert log == b"main done\n"


def test_c04_orphans_are_reaped(run: Any) -> None:
    done, _ = run("/data/zombies.sh", limits=Limits(pids=100))
    assert done.exit_code == 0


def test_c07_200_mb_of_output_are_bounded_on_disk_and_in_memory(run: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda _: run("/data/big.sh"), range(4)))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for done, log in ends:
        assert done.exit_code == 7
        assert log.startswith(b"row 0123456789")
        assert log.splitlines()[-1] == b"TAIL MARKER"
        assert f"[... {done.log_cut_bytes} bytes left out here ...]".encode() in log
        assert done.log_bytes == 1_600_000 * 127 + len("TAIL MARKER\n") or done.log_bytes > 200_000_000
        assert len(log) <= (50 << 20) + 100
    # ends holds four logs of 50 MiB, which are the test's and not the runner's.
    assert (after - before) // 1024 < 300 + 4 * 50


def test_c08_long_lines_arrive_whole(run: Any) -> None:
    done, log = run("/data/long.sh")
    first, second = log.splitlines()
    assert (done.exit_code, len(first), len(second)) == (0, 40_008, 3_000_010)
    assert first == b"BEGIN" + b"x" * 40_000 + b"END"


def test_c10_what_a_cell_leaves_in_its_folder_can_be_read_and_removed(
    docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any
) -> None:
    spec = make_spec("/data/mess.sh", "/out", image=cheap_image.ref)
    assert docker_runtime.run(spec, Forever()).exit_code == 0
    assert (spec.out_dir / "report.xml").read_text().startswith("<testsuites>")
    assert docker_runtime.run(replace(spec, name=f"{spec.name}-again"), Forever()).exit_code == 0
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(spec.out_dir)], check=True)
    subprocess.run(["rm", "-rf", "--", str(spec.out_dir)], check=True)
    assert not spec.out_dir.exists()


def test_d04_two_cells_do_not_share_a_port(run: Any) -> None:
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda _: run("/data/clash.sh"), range(2)))
    assert [done.exit_code for done, _ in ends] == [0, 0]
    assert [log for _, log in ends] == [b"listening on 29500\n"] * 2


def test_a_kill_from_outside_is_137_and_neither_ours_nor_memory(
    docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any, engine: Engine
) -> None:
    spec = make_spec("sh", "-c", "echo up; sleep 100", image=cheap_image.ref)

    def kill() -> None:
        while b"up" not in (spec.log_path.read_bytes() if spec.log_path.exists() else b""):
            time.sleep(0.05)
        engine.kill(spec.name, "SIGKILL")

    killer = threading.Thread(target=kill)
    killer.start()
    done = docker_runtime.run(spec, Forever())
    killer.join()
    assert (done.exit_code, done.stopped, done.oom_killed, done.fault) == (137, None, False, None)
    assert spec.log_path.read_bytes() == b"up\n"


def test_a_container_removed_from_outside_is_the_hosts_fault(
    docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any, engine: Engine
) -> None:
    spec = make_spec("sleep", "100", image=cheap_image.ref)

    class RemovesIt:
        def poll(self, elapsed_s: float) -> Stop | None:
            engine.remove(spec.name)
            return None

    done = docker_runtime.run(spec, RemovesIt())
    assert done.exit_code in {None, 137}
    assert done.fault == "daemon" or done.exit_code == 137


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("/data", 126)])
def test_a_command_that_cannot_start_has_the_shells_code_and_a_reason(
    run: Any, command: str, code: int
) -> None:
    done, log = run(command)
    assert (done.exit_code, done.fault) == (code, None)
    assert f"exec {command} failed".encode() in log  # the init process says so


def test_an_image_that_is_not_there_is_a_pull_fault(docker_runtime: Runtime, make_spec: Any) -> None:
    done = docker_runtime.run(make_spec("true", image="vllm-matrix/none:none"), Forever())
    assert (done.exit_code, done.fault) == (None, "pull")


def test_a_device_that_is_not_there_is_a_device_fault(run: Any) -> None:
    done, _ = run("true", hand_over=HandOver(nodes=("/dev/kfd-none",)))
    assert (done.exit_code, done.fault) == (None, "device")


def test_the_environment_is_the_specs_and_the_lease_wins(run: Any) -> None:
    hand = HandOver(env={"VISIBLE": "1"}, cpus=(0,))
    done, log = run(
        "sh", "-c", "env; grep Cpus_allowed_list /proc/self/status",
        env={"NVIDIA_VISIBLE_DEVICES": "void", "VISIBLE": "all", "ODD": "a=b $HOME 'x'"}, hand_over=hand,
    )  # fmt: skip
    names = dict(line.split("=", 1) for line in log.decode().splitlines() if "=" in line)
    assert done.exit_code == 0
    assert names["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert (names["VISIBLE"], names["ODD"]) == ("1", "a=b $HOME 'x'")
    assert set(names) <= {"NVIDIA_VISIBLE_DEVICES", "VISIBLE", "ODD", "HOSTNAME", "HOME", "PATH", "PWD"}
    assert log.splitlines()[-1].split() == [b"Cpus_allowed_list:", b"0"]


def test_the_digest_of_a_log_does_not_depend_on_how_fast_it_came(run: Any) -> None:
    done, log = run("perl", "-e", "print $_, qq(\\n) for 1..200000")
    expected = "".join(f"{number}\n" for number in range(1, 200_001)).encode()
    assert done.exit_code == 0
    assert hashlib.sha256(log).hexdigest() == hashlib.sha256(expected).hexdigest()


def test_an_out_folder_is_written_by_the_cells_user(
    docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any
) -> None:
    spec = make_spec("sh", "-c", "id -u > /out/uid", image=cheap_image.ref)
    assert docker_runtime.run(spec, Forever()).exit_code == 0
    uid = int((spec.out_dir / "uid").read_text())
    assert uid == (65532 if os.getuid() == 0 else os.getuid())
    assert (spec.out_dir / "uid").stat().st_uid == uid


def test_a_folder_that_is_not_there_fails_the_cell_as_the_hosts_fault(
    docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any, tmp_path: Path
) -> None:
    spec = replace(make_spec("true", image=cheap_image.ref), out_dir=tmp_path / "nowhere")
    done = docker_runtime.run(spec, Forever())
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "nowhere").rmdir()
        pytest.fail("the engine made a folder that was not there")
    assert (done.exit_code, done.fault) == (None, "disk")
