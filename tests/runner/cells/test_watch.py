import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runner.cells.watch import CellWatch
from runner.interrupt import CancelToken
from runner.model import Limits, Proof, Stop


def watch(folder: Path, *, proof: Proof = Proof.ENGINE, **limits: float) -> CellWatch:
    bounds = Limits(
        start_s=limits.get("start", 50), idle_s=limits.get("idle", 20), total_s=limits.get("total", 100)
    )
    return CellWatch(
        limits=bounds, proof=proof, log=folder / "log", evidence=folder / "evidence", cancel=CancelToken()
    )


def event(folder: Path, **fields: object) -> None:
    with (folder / "evidence").open("a") as file:
        file.write(json.dumps(fields) + "\n")


def test_silence_past_the_idle_limit_is_hung(tmp_path: Path) -> None:
    w = watch(tmp_path)
    assert w.poll(20) is None
    assert w.poll(20.5) is Stop.HUNG
    assert w.why == "no progress for 20 s, in phase start"


def test_a_growing_log_is_progress(tmp_path: Path) -> None:
    w = watch(tmp_path)
    (tmp_path / "log").write_text("a")
    assert w.poll(19) is None
    assert w.poll(39) is None
    assert w.poll(39.5) is Stop.HUNG


def test_heartbeats_count_only_while_cpu_time_is_used(tmp_path: Path) -> None:
    w = watch(tmp_path)
    event(tmp_path, event="heartbeat", cpu_seconds=5.0)
    assert w.poll(10) is None
    event(tmp_path, event="heartbeat", cpu_seconds=5.1)
    assert w.poll(29) is None
    assert w.poll(31) is Stop.HUNG
    event(tmp_path, event="heartbeat", cpu_seconds=9.0)
    assert w.poll(31) is None


def test_an_engine_that_does_not_become_ready_in_time_is_timed_out(tmp_path: Path) -> None:
    w = watch(tmp_path, idle=1000, total=1000)
    event(tmp_path, event="phase", phase="load", state="begin")
    assert w.poll(50) is None
    assert w.poll(51) is Stop.TIMED_OUT
    assert w.why == "engine not ready after the start limit of 50 s, in phase load"


def test_a_ready_engine_is_bound_by_the_total_limit_only(tmp_path: Path) -> None:
    w = watch(tmp_path, idle=1000, total=100)
    event(tmp_path, event="phase", phase="ready", state="end")
    assert w.poll(99) is None
    assert w.poll(101) is Stop.TIMED_OUT
    assert w.why == "still running after the total limit of 100 s, in phase ready"


def test_a_suite_without_engine_proof_has_no_start_limit(tmp_path: Path) -> None:
    w = watch(tmp_path, proof=Proof.TESTS, idle=1000, total=1000)
    assert w.poll(500) is None


def test_a_line_cut_in_two_is_read_once_whole(tmp_path: Path) -> None:
    w = watch(tmp_path, idle=1000, total=1000)
    line = json.dumps({"event": "phase", "phase": "generate", "state": "begin"}) + "\n"
    with (tmp_path / "evidence").open("a") as file:
        file.write(line[:10])
        file.flush()
        assert w.poll(1) is None
        file.write(line[10:])
    assert w.poll(2) is None
    assert w.poll(60) is None


def test_cancellation_wins(tmp_path: Path) -> None:
    w = watch(tmp_path)
    w.cancel.cancel(15)
    assert w.poll(1000) is Stop.CANCELLED


def test_a_phase_past_its_own_limit_is_timed_out(tmp_path: Path) -> None:
    w = watch(tmp_path, idle=1000, total=1000)
    w.limits = replace(w.limits, phase_s={"load": 10.0})
    event(tmp_path, event="phase", phase="load", state="begin")
    assert w.poll(5) is None
    assert w.poll(15) is None
    assert w.poll(15.5) is Stop.TIMED_OUT
    assert w.why == "phase load took longer than its limit of 10 s"


def test_a_phase_that_ended_in_time_is_bound_no_more(tmp_path: Path) -> None:
    w = watch(tmp_path, idle=1000, total=1000, start=1000)
    w.limits = replace(w.limits, phase_s={"load": 10.0})
    event(tmp_path, event="phase", phase="load", state="begin")
    assert w.poll(5) is None
    event(tmp_path, event="phase", phase="load", state="end", seconds=8)
    assert w.poll(13) is None
    assert w.poll(500) is None


def test_the_start_of_a_cell_has_a_limit_until_anything_reports(tmp_path: Path) -> None:
    w = watch(tmp_path, proof=Proof.TESTS, idle=1000, total=1000)
    w.limits = replace(w.limits, phase_s={"start": 30.0})
    assert w.poll(30) is None
    assert w.poll(31) is Stop.TIMED_OUT
    assert w.why == "phase start took longer than its limit of 30 s"


def test_the_start_is_over_with_the_first_event(tmp_path: Path) -> None:
    w = watch(tmp_path, proof=Proof.TESTS, idle=1000, total=1000)
    w.limits = replace(w.limits, phase_s={"start": 30.0})
    event(tmp_path, event="start", schema=1)
    assert w.poll(20) is None
    assert w.poll(100) is None


class Hands:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_only_a_second_request_ends_the_grace_of_the_first(tmp_path: Path) -> None:
    hands = Hands()
    w = watch(tmp_path)
    w.cancel = CancelToken(hands)
    w.cancel.cancel(15)
    assert [w.poll(1), w.poll(2), w.poll(200)] == [Stop.CANCELLED, None, None]
    hands.now_s = 3.0
    w.cancel.cancel(15)
    assert w.poll(201) is Stop.CANCELLED


def test_a_request_to_stop_ends_the_grace_of_a_hung_cell(tmp_path: Path) -> None:
    w = watch(tmp_path)
    assert [w.poll(20.5), w.poll(21)] == [Stop.HUNG, None]
    w.cancel.cancel(2)
    assert w.poll(21.5) is Stop.CANCELLED
    assert w.why == "no progress for 20 s, in phase start"


@pytest.mark.parametrize("used", ["NaN", "Infinity", "1e300", "1" + "0" * 400, "true", '"9"', "[" * 200_000])
def test_heartbeats_that_lie_are_no_progress_and_no_crash(tmp_path: Path, used: str) -> None:
    w = watch(tmp_path)
    for second in (5, 10, 15, 20):
        with (tmp_path / "evidence").open("a") as file:
            file.write(f'{{"event": "heartbeat", "cpu_seconds": {used}}}\n')
        assert w.poll(second) is None
    assert w.poll(20.5) is Stop.HUNG


@pytest.mark.parametrize("kind", ["folder", "link", "dead link", "loop", "pipe", "device", "file as folder"])
def test_what_a_cell_puts_in_the_place_of_its_evidence_is_nobody_elses_fault(
    tmp_path: Path, kind: str
) -> None:
    w = watch(tmp_path)
    target = tmp_path / "target"
    target.write_text(json.dumps({"event": "phase", "phase": "load", "state": "begin"}) + "\n")
    if kind == "folder":
        (tmp_path / "evidence").mkdir()
        (tmp_path / "evidence" / "x").write_text("x")
    elif kind == "pipe":
        os.mkfifo(tmp_path / "evidence")
    elif kind == "file as folder":
        w.evidence = target / "evidence"
    else:
        to = {"link": str(target), "dead link": "nowhere", "loop": "evidence", "device": "/dev/zero"}[kind]
        (tmp_path / "evidence").symlink_to(to)
    assert [w.poll(second) for second in (5, 10, 20)] == [None, None, None]
    assert w.poll(20.5) is Stop.HUNG
    assert w.why == "no progress for 20 s, in phase start"


def test_evidence_that_is_huge_is_read_in_parts_and_not_kept(tmp_path: Path) -> None:
    w = watch(tmp_path)
    with (tmp_path / "evidence").open("wb") as file:
        file.truncate(1 << 40)
    for second in range(1, 20):
        assert w.poll(second) is None
        assert len(w._rest) <= 1 << 20
    assert w._offset == 19 << 20
    assert w.poll(20.5) is Stop.HUNG


def test_a_line_too_long_to_keep_is_no_event_and_the_next_one_is(tmp_path: Path) -> None:
    w = watch(tmp_path, idle=1000, total=1000)
    (tmp_path / "evidence").write_text("x" * (2 << 20) + "\n")
    event(tmp_path, event="phase", phase="load", state="begin")
    for second in range(1, 5):
        assert w.poll(second) is None
    assert w.poll(51) is Stop.TIMED_OUT
    assert w.why.endswith("in phase load")
