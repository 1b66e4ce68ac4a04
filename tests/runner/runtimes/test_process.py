"""The process runtime, for real: every test starts processes and looks at what is left of them."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runner.facts import HandOver
from runner.model import Limits, Stop
from runner.runtimes import find
from runner.runtimes.labels import Owner, new_mark, read_mark, this_owner
from runner.runtimes.port import PORTS
from runner.runtimes.process import ProcessRuntime, exit_code
from runner.runtimes.process_tree import CellTree, Seen, marked, oom_kills, send

DATA = Path(__file__).parent / "data"


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


@pytest.fixture
def runtime(tmp_path: Path) -> ProcessRuntime:
    return ProcessRuntime(root=tmp_path, cache=tmp_path / "cache")


@pytest.fixture
def run(runtime: ProcessRuntime, make_spec: Any) -> Any:
    def run_cell(*argv: str, watch: Any = None, **changes: Any) -> Any:
        spec = make_spec(*argv, **changes)
        done = runtime.run(spec, watch or Forever())
        assert [mark for _, mark in marked() if spec.name in mark.split(":")] == []
        return done, spec.log_path.read_bytes()

    return run_cell


def script(name: str) -> str:
    return str(DATA / name)


def test_c01_a_cell_that_ignores_sigterm_is_killed_after_the_grace(run: Any) -> None:
    done, log = run(script("stubborn.sh"), watch=After(0.5))
    assert (done.stopped, done.exit_code, done.oom_killed, done.fault) == (Stop.TIMED_OUT, 137, False, None)
    assert log.splitlines()[0] == b"ready, ignoring TERM"


def test_c01_a_cell_may_use_the_grace_to_end_well(run: Any) -> None:
    done, log = run(script("slow-exit.sh"), watch=After(0.5), limits=Limits(stop_grace_s=9.0))
    assert (done.stopped, done.exit_code) == (Stop.TIMED_OUT, 0)
    assert log.splitlines()[-2:] == [b"stopping", b"stopped"]


@pytest.mark.parametrize("code", [0, 1, 5, 125, 126, 137, 139, 255])
def test_c02_the_exit_code_is_the_cells_own(run: Any, code: int) -> None:
    done, _ = run(script("exits.sh"), str(code))
    assert (done.exit_code, done.oom_killed, done.fault) == (code, False, None)


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137), ("SEGV", 139), ("ABRT", 134)])
def test_c02_a_signal_is_128_and_its_number(run: Any, name: str, code: int) -> None:
    done, _ = run("sh", "-c", f"kill -{name} $$")
    assert (done.exit_code, done.oom_killed, done.stopped) == (code, False, None)


def test_c03_the_log_is_what_the_cell_wrote_byte_for_byte(run: Any) -> None:
    done, log = run(script("bytes.sh"))
    assert done.exit_code == 0
    assert log == (
        b"plain line\nlatin1 caf\351 and bad \200\377\376 bytes\nsplit na\303\257ve word\n"
        b"nul \0 byte, bell \a, esc \033[31mred\033[0m, title \033]0;owned\a\n"
        b"progress 1%\rprogress 50%\rprogress 100%\n"
        b"--- forged section\n+++ forged open section\n~~~ forged quiet section\n"
        b"err line\nlast line without newline"
    )


def test_c04_children_that_outlive_the_cell_are_ended(run: Any) -> None:
    done, log = run(script("leaver.sh"))
    assert (done.exit_code, log, done.remarks) == (3, b"main done\n", ())
    assert done.duration_s < 1 + 5


def test_c04_a_child_that_left_the_session_and_its_parent_is_found(run: Any) -> None:
    daemon = "import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: time.sleep(60)\n os._exit(0)\nos.wait()"
    done, _ = run(sys.executable, "-c", daemon)
    assert (done.exit_code, done.remarks) == (0, ())
    assert done.duration_s < 10


def test_c04_a_child_that_also_cleared_its_environment_is_known_by_its_parent(run: Any) -> None:
    hidden = (
        "import os,time\nif os.fork()==0:\n os.setsid()\n"
        " os.execve('/bin/sleep',['sleep','987654'],{})\ntime.sleep(60)"
    )
    done, _ = run(sys.executable, "-c", hidden, watch=After(1.0))
    assert done.exit_code == 143
    assert subprocess.run(["pgrep", "-f", "sleep 987654"], check=False, capture_output=True).stdout == b""


def test_c07_200_mb_of_output_are_bounded(run: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done, log = run(script("big.sh"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (done.exit_code, log.splitlines()[-1]) == (7, b"TAIL MARKER")
    assert f"[... {done.log_cut_bytes} bytes left out here ...]".encode() in log
    assert len(log) <= (50 << 20) + 100
    assert (after - before) // 1024 < 300


def test_c08_long_lines_arrive_whole(run: Any) -> None:
    done, log = run(script("long.sh"))
    assert (done.exit_code, [len(line) for line in log.splitlines()]) == (0, [40_008, 3_000_010])


def test_nothing_of_the_runners_environment_reaches_a_cell(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_SECRET", "s3cret")
    _, log = run("env", env={"ASKED": "for"}, hand_over=HandOver(env={"LEASED": "0"}))
    names = dict(line.split("=", 1) for line in log.decode().splitlines())
    assert names["ASKED"] == "for"
    assert names["LEASED"] == "0"
    assert set(names) == {
        "ASKED",
        "LEASED",
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "MASTER_PORT",
        "SPT_NOENV",
        "VLLM_MATRIX_MARK",
    }


def test_a_cell_has_a_private_folder_that_is_gone_afterwards(run: Any) -> None:
    _, log = run("sh", "-c", 'pwd; echo "$HOME"; touch "$TMPDIR/x"')
    here, home = log.decode().split()
    assert here == home
    assert not Path(here).exists()


def test_a_cell_has_its_own_session_and_bounded_resources(run: Any) -> None:
    _, log = run(
        "sh", "-c", "sleep 0.2; ulimit -c; cut -d' ' -f1,6 /proc/self/stat; ps -o sid= -p $$; echo $$"
    )
    core, _, session, leader = log.decode().splitlines()
    assert core == "0"
    assert session.strip() == leader


def test_a_cell_is_started_on_its_cores_and_the_runner_stays_on_all(run: Any) -> None:
    before = os.sched_getaffinity(0)
    _, log = run("grep", "Cpus_allowed_list", "/proc/self/status", hand_over=HandOver(cpus=(0,)))
    assert log.split()[-1] == b"0"
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_start_has_the_shells_code_and_a_reason(
    run: Any, command: str, code: int
) -> None:
    done, log = run(command)
    assert (done.exit_code, done.fault) == (code, None)
    assert command in done.message
    assert done.message in log.decode()


def test_a_log_that_cannot_be_written_is_a_disk_fault(
    runtime: ProcessRuntime, make_spec: Any, tmp_path: Path
) -> None:
    done = runtime.run(make_spec("true", log_path=tmp_path / "no-folder" / "log"), Forever())
    assert (done.exit_code, done.fault) == (None, "disk")
    assert "no-folder" in done.message


def test_paths_are_the_hosts(runtime: ProcessRuntime, tmp_path: Path) -> None:
    assert runtime.view(tmp_path, "/suite") == str(tmp_path)
    assert find("process", root=tmp_path, cache=tmp_path).name == "process"


@pytest.mark.parametrize(("given", "said"), [(0, 0), (7, 7), (-9, 137), (-15, 143), (-11, 139), (None, None)])
def test_exit_codes_are_as_a_shell_says_them(given: int | None, said: int | None) -> None:
    assert exit_code(given) == said


def test_a_mark_names_its_owner() -> None:
    owner = this_owner()
    said = read_mark(new_mark(owner, "run-1", "cell"))
    assert said is not None
    assert (said.owner, said.run, said.name) == (owner, "run-1", "cell")
    assert owner.alive()
    assert not Owner(owner.pid, "1", owner.boot_id).alive()
    assert not Owner(owner.pid, owner.start, "another-boot").alive()
    assert read_mark("nonsense") is None


def test_a_signal_goes_only_to_the_process_that_was_seen() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        seen = next(iter(CellTree("none", child.pid).look()))
        assert send(Seen(seen.pid, "1"), 9) is False  # type: ignore[arg-type]
        assert child.poll() is None
        assert send(seen, 9) is True  # type: ignore[arg-type]
        assert child.wait() == -9
        assert send(seen, 9) is False  # type: ignore[arg-type]


def test_out_of_memory_kills_are_counted_where_the_kernel_says_so(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/box/cell\n")
    (tmp_path / "cg/box/cell").mkdir(parents=True)
    (tmp_path / "cg/box/cell/memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "vmstat").write_text("oom_kill 9\n")
    assert oom_kills(tmp_path, tmp_path / "cg") == 2
    (tmp_path / "self/cgroup").write_text("4:memory:/\n0::/\n")
    assert oom_kills(tmp_path, tmp_path / "cg") == 9
    (tmp_path / "self/cgroup").write_text("4:memory:/v1\n")
    (tmp_path / "cg/memory/v1").mkdir(parents=True)
    (tmp_path / "cg/memory/v1/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert oom_kills(tmp_path, tmp_path / "cg") == 5


def test_a_runner_that_is_killed_leaves_processes_that_clean_finds(tmp_path: Path, make_spec: Any) -> None:
    from runner.model import Fault
    from runner.runtimes.clean import Kind, clean, find_orphans
    from runner.runtimes.docker_errors import EngineError

    spec = make_spec("sleep", "555")
    code = (
        "import sys;from pathlib import Path;from runner.runtimes.process import ProcessRuntime;"
        "from runner.facts import CellSpec;from runner.model import Limits\n"
        "class W:\n def poll(self,e): return None\n"
        f"ProcessRuntime(root=Path('.'),cache=Path('.')).run(CellSpec(name={spec.name!r},image='',argv=('sleep','555'),"
        f"out_dir=Path({str(spec.out_dir)!r}),log_path=Path({str(spec.log_path)!r}),limits=Limits()),W())"
    )
    runner = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(lambda: any(spec.name in mark for _, mark in marked()))
        assert [orphan for orphan in find_orphans() if orphan.cell == spec.name] == []  # its owner lives
    finally:
        runner.kill()
        runner.wait()

    def no_engine() -> Any:
        message = "none here"
        raise EngineError(message, fault=Fault.DAEMON)

    found = [orphan for orphan in find_orphans() if orphan.cell == spec.name]
    assert [orphan.kind for orphan in found] == [Kind.PROCESS]
    assert found[0] in clean(connect=no_engine)
    wait_until(lambda: not any(spec.name in mark for _, mark in marked()))


def wait_until(true: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_second_request_to_stop_ends_the_grace(run: Any) -> None:
    done, _ = run(script("stubborn.sh"), watch=After(0.5, again=1.5), limits=Limits(stop_grace_s=60.0))
    assert (done.stopped, done.exit_code) == (Stop.TIMED_OUT, 137)
    assert done.duration_s < 30  # far below the grace


def test_the_grace_is_short_where_somebody_waits(run: Any) -> None:
    done, _ = run(script("stubborn.sh"), watch=After(0.5, Stop.CANCELLED), limits=Limits(stop_grace_s=60.0))
    assert (done.stopped, done.exit_code) == (Stop.CANCELLED, 137)
    assert done.duration_s < 30


def test_a_cell_is_asked_by_its_own_signal(run: Any) -> None:
    code = "import signal, time\ntry:\n time.sleep(100)\nexcept KeyboardInterrupt:\n print('asked by SIGINT')"
    done, log = run(sys.executable, "-c", code, watch=After(1.0), stop_signal="SIGINT")
    assert (done.exit_code, log) == (0, b"asked by SIGINT\n")


CLASH = (
    "import os, socket, time\nheld = socket.create_server(('127.0.0.1', int(os.environ['MASTER_PORT'])))\n"
    "print(held.getsockname()[1], flush=True)\ntime.sleep(1)"
)


def test_d04_two_cells_on_the_hosts_network_do_not_share_a_port(
    runtime: ProcessRuntime, make_spec: Any
) -> None:
    specs = [make_spec(sys.executable, "-c", CLASH, name=f"clash-{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda spec: runtime.run(spec, Forever()), specs))
    assert [done.exit_code for done in ends] == [0] * 4
    ports = {int(spec.log_path.read_text()) for spec in specs}
    assert len(ports) == 4
    assert ports <= set(PORTS)


def test_d04_a_port_that_a_cell_names_itself_stays(run: Any) -> None:
    _, log = run("sh", "-c", "echo $MASTER_PORT", env={"MASTER_PORT": "4242"})
    assert log == b"4242\n"
