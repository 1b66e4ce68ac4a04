"""A runner of local processes is killed: the next start ends all that its cells left, and nothing of anybody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.model import Fault, Outcome
from runner.runtimes.clean import Kind, clean, find_orphans
from runner.runtimes.docker_client import Engine
from runner.runtimes.docker_errors import EngineError
from runner.runtimes.labels import (
    BOOT_ID,
    INITIAL,
    MARK,
    OWNER_PID,
    OWNER_START,
    RUN,
    Owner,
    homes,
    namespace,
    new_mark,
    owner_of_home,
    start_time,
    this_owner,
)
from runner.runtimes.process_tree import CellTree
from tests.runner.cells.program import Program

FAMILY = """\
version: 1
suite: {path: "{project}/tests/runner/runtimes/data", proof: tests, command: [python3, "{suite}/family.py", "{out}"]}
axes: {platform: [cpu], case: [a, b]}
platforms: {cpu: {image: "IMAGE"}}
limits: {total: 5m}
"""
NEXT = FAMILY.replace('[python3, "{suite}/family.py", "{out}"]', '["true"]')


def pids_of(program: Program) -> list[int]:
    found = program.folder.glob("reports/*/cells/*/attempt-*/out/pids.txt")
    return [int(word) for path in found for word in path.read_text().split()]


def start(folder: Path, text: str, *options: str) -> Program:
    folder.mkdir()
    return Program.start(folder, text.replace("IMAGE", sys.prefix), "--runtime", "process", *options)


def alive(pid: int) -> bool:
    return start_time(pid) != ""


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a mark, whose owner lives: this test."""
    mark = new_mark(this_owner(), "some-run", "some-cell")
    with subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark}) as process:
        yield process
        process.kill()


def test_what_a_killed_runner_of_processes_left_goes_with_the_next_start_and_nothing_else(
    tmp_path: Path, foreign: subprocess.Popen[bytes]
) -> None:
    killed = start(tmp_path / "killed", FAMILY, "--jobs", "2")
    neighbour = start(tmp_path / "neighbour", FAMILY, "-k", "case=a")
    killed.until(lambda: len(pids_of(killed)) == 10)
    neighbour.until(lambda: len(pids_of(neighbour)) == 5)
    owner = killed.process.pid
    killed.process.kill()
    assert killed.end() == -signal.SIGKILL
    families = pids_of(killed), pids_of(neighbour)
    try:
        assert all(map(alive, families[0]))
        following = start(tmp_path / "next", NEXT, "-k", "case=a")
        following.end()
        assert [pid for pid in families[0] if alive(pid)] == []
        assert list(Path(tempfile.gettempdir()).glob(f"vllm-matrix-cell-{owner}.*")) == []
        assert [pid for pid in families[1] if not alive(pid)] == []
        assert alive(foreign.pid)
        neighbour.signal_group(signal.SIGTERM)
        assert neighbour.end() == 143
        assert [record.verdict.outcome for record in neighbour.run().records] == [Outcome.CANCELLED]
        assert [pid for pid in families[1] if alive(pid)] == []
    finally:
        for pid in families[0] + families[1]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_session_whose_leader_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """A process with the mark of a dead owner, started in a session of somebody who has no mark."""
    mine = this_owner()
    mark = new_mark(Owner(mine.pid, "1", mine.boot_id, mine.namespace), "dead-run", tmp_path.name)
    script = f"env {MARK}={mark} sleep 600 & sleep 600 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        neighbour = int(leader.stdout.readline())
        # Not cleaned here but by CellTree alone, as any runner of this host would: others may do it before.
        assert CellTree(mark, None).end(5.0) == set()
        assert (alive(leader.pid), alive(neighbour)) == (True, True)
        os.killpg(leader.pid, signal.SIGKILL)


def no_engine() -> Engine:
    message = "none here"
    raise EngineError(message, fault=Fault.DAEMON)


def test_the_private_folder_of_a_dead_owner_goes_and_that_of_a_living_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = this_owner()
    dead = Owner(mine.pid, "1", mine.boot_id, mine.namespace)
    names = {"mine": homes(mine) + "x", "dead": homes(dead) + "x", "other": "vllm-matrix-cell-mine"}
    for name in names.values():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    found = [each for each in clean(connect=no_engine) if each.kind is Kind.FOLDER]
    assert [each.id for each in found] == [str(tmp_path / names["dead"])]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names["mine"], names["other"]])


def test_a_private_folder_names_its_owner() -> None:
    assert owner_of_home(homes(this_owner()) + "abc_1") == this_owner()
    assert owner_of_home("cell-abc") is None


def test_a_private_folder_leaves_room_for_the_sockets_of_an_engine() -> None:
    """vLLM names a socket by a UUID in it, and a socket's path has 107 characters at most (unix(7))."""
    widest = Owner(4_194_304, "9" * 10, "fc6255bf-d2c3-4c4b-86d1-124692da71f9", "4026531836")
    assert len(f"/tmp/{homes(widest)}abcdefgh/{'f' * 36}") <= 107


def test_an_owner_in_another_process_namespace_of_this_boot_is_not_taken_for_dead() -> None:
    mine = this_owner()
    assert mine.namespace == namespace() != ""
    elsewhere = Owner(4194305, "1", mine.boot_id, "17")
    assert not Owner(4194305, "1", "an-earlier-boot", "17").alive()
    assert Owner.read(elsewhere.labels()) == elsewhere
    before = {RUN: "r", OWNER_PID: "1", OWNER_START: "1", BOOT_ID: mine.boot_id}
    assert Owner.read(before) == Owner(1, "1", mine.boot_id)
    assert not any(each.id == str(os.getpid()) for each in find_orphans())


def processes(folder: Path, own: str, others: dict[str, str]) -> Path:
    """What /proc says of process namespaces."""
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text("this-boot\n")
    for pid, number in {"self": own, **others}.items():
        (folder / pid / "ns").mkdir(parents=True)
        (folder / pid / "ns/pid").symlink_to(f"pid:[{number}]")
    return folder


def test_an_owner_that_cannot_be_looked_at_is_not_taken_for_dead(tmp_path: Path) -> None:
    proc = processes(tmp_path, "16", {"7": "16", "8": "16"})
    (
        proc / "7/stat"
    ).mkdir()  # for root, whom no permission keeps from reading, an error that is no "gone" either
    assert [Owner(pid, "1", "this-boot", "16").alive(proc) for pid in (7, 8, 9)] == [True, False, False]


def test_the_hosts_own_namespace_sees_whether_another_has_died(tmp_path: Path) -> None:
    owner = Owner(1, "1", "this-boot", "17")
    inside = processes(tmp_path / "inside", "16", {"1": "16"})
    with_it = processes(tmp_path / "with", INITIAL, {"1": INITIAL, "40": "17"})
    without = processes(tmp_path / "without", INITIAL, {"1": INITIAL, "40": "18"})
    assert [owner.alive(each) for each in (inside, with_it, without)] == [True, True, False]
