"""A real process that says what it sees, judged against what it leased; a hand-over that pins nothing is found."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner import codec
from runner.cells import CellWork, run_cell
from runner.facts import HandOver, PreparedImage
from runner.interrupt import CancelToken
from runner.machine import Given
from runner.model import Cell, CellSettings, Culprit, Limits, Outcome, PlanEntry, Status, Suite
from runner.records import CellRecord, Prepared
from runner.runtimes import find

PROGRAM = """\
import pathlib, sys
from incell.evidence import Evidence
out = pathlib.Path(sys.argv[1])
evidence = Evidence(out / "evidence.jsonl")
evidence.start({})
evidence.write("engine", name="vllm", version="0.32.0", platform="CpuPlatform", device_type="cpu", tp=1)
evidence.write("rank", rank=0, world_size=1, layers=[], visible_devices=0)
evidence.end()
(out / "junit.xml").write_text('<testsuites><testsuite name="s"><testcase classname="c" name="t"/></testsuite></testsuites>')
"""
EVERY = tuple(sorted(os.sched_getaffinity(0)))


@dataclass
class Held:
    hand_over: HandOver
    given: Given | None
    device_ids: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def after(self) -> tuple[str, ...]:
        return ()

    def abandon(self, handle: str) -> None:
        raise AssertionError


@dataclass
class Host:
    """A host that pins a cell to ``pins`` and says that it gave it ``cores``."""

    pins: tuple[int, ...]
    cores: tuple[int, ...]

    @contextlib.contextmanager
    def lease(self, entry: PlanEntry, avoid: tuple[str, ...] = ()) -> Iterator[Held]:
        yield Held(
            HandOver(how="cores", cpus=self.pins), Given(platform="cpu", how="cores", cores=self.cores)
        )

    def blame(
        self, entry: PlanEntry, device_ids: tuple[str, ...], cause: str, *, lasts: bool, closes: bool
    ) -> bool:
        raise AssertionError


def run(tmp_path: Path, host: Host) -> CellRecord:
    suite = tmp_path / "suite"
    suite.mkdir()
    settings = CellSettings(
        image="image",
        suite=Suite(path="suite", command=(sys.executable, "-c", PROGRAM, "{out}")),
        limits=Limits(),
        devices=0,
    )
    entry = PlanEntry(cell=Cell.of({"platform": "cpu", "tp": "1"}), status=Status.PLANNED, settings=settings)
    labels: Mapping[str, str] = {}
    work = CellWork(
        runtime=find("process", root=tmp_path, cache=tmp_path / "cache"),
        prepared=Prepared(images={"image": PreparedImage(ref=sys.prefix, digest="d", how="venv")}),
        root=tmp_path,
        run_id="r",
        labels=lambda _: labels,
        hosting=host,
        cancel=CancelToken(),
        infra_retries=0,
        repeat=1,
        until_fail=False,
        expect_engine=None,
        note=lambda _: None,
    )
    return run_cell(entry, tmp_path / "cell", work)


def test_a_cell_on_its_core_passes_and_the_record_says_what_it_was_given_and_saw(tmp_path: Path) -> None:
    record = run(tmp_path, Host(pins=EVERY[-1:], cores=EVERY[-1:]))
    assert record.verdict.outcome is Outcome.PASSED, record.verdict
    attempt = codec.loads(codec.dumps(record), CellRecord).attempts[0]
    assert attempt.given == Given(platform="cpu", how="cores", cores=EVERY[-1:])
    assert attempt.evidence is not None
    assert attempt.evidence.sight is not None
    assert attempt.evidence.sight.cores == EVERY[-1:]


@pytest.mark.skipif(len(EVERY) < 2, reason="this host has one core: a cell cannot see another one")
def test_a_hand_over_that_does_not_pin_is_found_by_the_cell_itself(tmp_path: Path) -> None:
    record = run(tmp_path, Host(pins=(), cores=EVERY[:1]))
    assert (record.verdict.outcome, record.verdict.culprit) == (Outcome.UNPROVEN, Culprit.HOST)
    assert record.verdict.cause.startswith("the cell sees cores ")
    assert record.verdict.cause.endswith(f"by its affinity, it was given core {EVERY[0]}")
