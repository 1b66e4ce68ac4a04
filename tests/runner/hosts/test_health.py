"""Whether a device may be used, by its readings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.hosts import Condition, Process, Reading, charges, decide, settle
from runner.hosts.health import MIB

SAMPLES = json.loads((Path(__file__).parent / "data" / "D06-samples.json").read_text())
TOTAL, IDLE = 81_920 * MIB, 500 * MIB


def reading(at_s: float, value: int | str) -> Reading:
    """A reading as the case writes it: MiB, or the tool's words."""
    if value == "[N/A]":
        return Reading(at_s=at_s, total_bytes=TOTAL)
    if isinstance(value, str):
        return Reading(at_s=at_s, total_bytes=TOTAL, problem=value)
    return Reading(at_s=at_s, total_bytes=TOTAL, used_bytes=value * MIB)


def sample(readings: Any) -> list[Reading]:
    if readings == "query tool hangs":
        return [Reading(at_s=10.0, problem="no answer within 10 s", hung=True)]
    if readings == "query tool missing":
        return [Reading(problem="the Python package nvidia-ml-py is not installed", missing=True)]
    return [reading(*each) for each in readings]


@pytest.mark.parametrize("case", SAMPLES, ids=[f"D06 {each['decision']}" for each in SAMPLES])
def test_d06_samples(case: dict[str, Any]) -> None:
    readings = sample(case["readings"])
    decision = decide(readings, idle_bytes=IDLE)
    word, usable, text = {
        "clean after 4 s": (Condition.CLEAN, True, "clean after 4 s"),
        "clean at once": (Condition.CLEAN, True, "clean at once"),
        "dirty": (
            Condition.DIRTY,
            False,
            "dirty: 60000 of 81920 MiB in use by no process that is visible after 60 s",
        ),
        "clean after 58 s or dirty, by the stated limit": (Condition.CLEAN, True, "clean after 58 s"),
        "unknown: use with a remark": (
            Condition.UNKNOWN,
            True,
            "unknown: the device does not tell its used memory; used with a remark",
        ),
        "infra: device not used": (
            Condition.FAULTY,
            False,
            "faulty: the driver says 'Unknown Error'; the device is not used",
        ),
        "unknown after 10 s": (
            Condition.UNKNOWN,
            False,
            "unknown after 10 s: the query does not return, the device is not used",
        ),
        "unknown: CPU cells unaffected": (
            Condition.UNKNOWN,
            True,
            "unknown: the Python package nvidia-ml-py is not installed; used with a remark, CPU cells are unaffected",
        ),
    }[case["decision"]]
    assert (decision.condition, decision.usable, decision.text) == (word, usable, text)


@pytest.mark.parametrize("case", SAMPLES[:4], ids=[f"D06 {each['decision']}" for each in SAMPLES[:4]])
def test_d06_no_reading_before_the_last_decides(case: dict[str, Any]) -> None:
    readings = sample(case["readings"])
    for count in range(1, len(readings)):
        assert decide(readings[:count], idle_bytes=IDLE).condition is Condition.SETTLING


def test_the_limit_is_the_callers() -> None:
    late = sample(SAMPLES[3]["readings"])
    assert decide(late, idle_bytes=IDLE, limit_s=30).condition is Condition.DIRTY


def test_f07_memory_in_use_without_a_process_is_dirty_and_named() -> None:
    held = Reading(device="GPU-cccc", at_s=60, used_bytes=40_000 * MIB, total_bytes=TOTAL)
    decision = decide([held])
    assert not decision.usable
    assert decision.text == "dirty: 40000 of 81920 MiB in use by no process that is visible after 60 s"


def test_a_visible_holder_is_named() -> None:
    process = Process(pid=4711, name="VLLM::EngineCore", used_bytes=39_000 * MIB)
    held = Reading(at_s=60, used_bytes=40_000 * MIB, total_bytes=TOTAL, processes=(process,))
    assert "in use by process 4711 (VLLM::EngineCore) with 39000 MiB" in decide([held]).text


class Clock:
    """Time that passes only by sleeping, and by what a query takes."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("used", "condition", "asked", "waited_s"),
    [
        ([480], Condition.CLEAN, 1, 0.0),
        ([60_000, 20_000, 510], Condition.CLEAN, 3, 4.0),
        ([60_000], Condition.DIRTY, 31, 60.0),
        (["[N/A]"], Condition.UNKNOWN, 1, 0.0),
        ([60_000, "Unknown Error"], Condition.FAULTY, 2, 2.0),
    ],
)
def test_d06_the_wait_is_bounded(used: list[Any], condition: Condition, asked: int, waited_s: float) -> None:
    clock = Clock()
    answers = [reading(0.0, value) for value in used]

    def read() -> Reading:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    decision, readings = settle(read, idle_bytes=IDLE, clock=clock, sleep=clock.sleep)
    assert (decision.condition, len(readings), clock.now - 1000.0) == (condition, asked, waited_s)


def test_d06_a_hanging_query_ends_the_wait() -> None:
    clock = Clock()

    def read() -> Reading:
        clock.now += 10.0
        return Reading(problem="no answer within 10 s", hung=True)

    decision, readings = settle(read, clock=clock, sleep=clock.sleep)
    assert (decision.text, len(readings)) == (
        "unknown after 10 s: the query does not return, the device is not used",
        1,
    )


CLEAN = Reading(device="GPU-1", used_bytes=500 * MIB, total_bytes=TOTAL, errors=3)


@pytest.mark.parametrize(
    ("after", "charged"),
    [
        (CLEAN, ()),
        (replace(CLEAN, used_bytes=1200 * MIB), ()),
        (replace(CLEAN, used_bytes=9_000 * MIB), ("GPU-1: 8500 MiB of device memory not given back",)),
        (replace(CLEAN, errors=5), ("GPU-1: 2 new uncorrected memory errors",)),
        (
            replace(CLEAN, processes=(Process(pid=7, name="python3"),)),
            ("GPU-1: process 7 (python3) is still there",),
        ),
        (replace(CLEAN, used_bytes=None, errors=None), ()),
        (replace(CLEAN, used_bytes=None, problem="GPU is lost"), ("GPU-1: GPU is lost",)),
    ],
)
def test_a_leak_is_charged_to_the_cell_between_two_readings(after: Reading, charged: tuple[str, ...]) -> None:
    assert charges(CLEAN, after) == charged


def test_what_was_there_before_is_not_charged() -> None:
    busy = replace(CLEAN, used_bytes=9_000 * MIB, processes=(Process(pid=7),))
    assert charges(busy, busy) == ()
