"""After a fault of the host a cell is tried again on another device where there is one, by what the fault means."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.cells import CellWork, run_cell
from runner.facts import PreparedImage
from runner.hosts import Assigner, HostOffer, Leases, Reading
from runner.interrupt import CancelToken
from runner.machine import CpuFacts, Device, Inventory
from runner.model import Cell, CellSettings, Fault, Limits, Outcome, PlanEntry, Proof, Status, Suite
from runner.records import CellRecord, Prepared
from runner.runtimes import FakeCell, FakeRuntime

A, B = "GPU-aaaa", "GPU-bbbb"
REPORT = '<testsuites><testsuite name="s"><testcase classname="c" name="t"/></testsuite></testsuites>'
GREEN = FakeCell(out={"junit.xml": REPORT})


def host(folder: Path, *names: str) -> Assigner:
    devices = tuple(Device(platform="cuda", index=index, id=name) for index, name in enumerate(names))
    gives = Assigner(
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts(cores=(0,)), devices=devices),
        leases=Leases(folder / "leases"),
        offer=HostOffer(toolkit=True),
        containers=True,
        jobs=1,
        cancelled=lambda: False,
        clean_up=lambda: None,
    )
    gives.health = lambda asked: {
        each.id: Reading(device=each.id, used_bytes=0, total_bytes=1) for each in asked
    }
    return gives


def run(folder: Path, gives: Assigner, first: FakeCell, name: str = "a", retries: int = 1) -> CellRecord:
    (folder / "suite").mkdir(exist_ok=True)
    suite = Suite(path="suite", proof=Proof.TESTS, command=("true",))
    settings = CellSettings(image="i", suite=suite, limits=Limits(), devices=1)
    cell = Cell.of({"platform": "cuda", "case": name})
    work = CellWork(
        runtime=FakeRuntime({"*": (first, GREEN)}),
        prepared=Prepared(images={"i": PreparedImage(ref="i", digest="d", how="built")}),
        root=folder,
        run_id="r",
        labels=lambda _: {},
        hosting=gives,
        cancel=CancelToken(),
        infra_retries=retries,
        repeat=1,
        until_fail=False,
        expect_engine=None,
        note=lambda _: None,
    )
    return run_cell(PlanEntry(cell=cell, status=Status.PLANNED, settings=settings), folder / name, work)


def tried(record: CellRecord) -> list[tuple[Outcome, str]]:
    return [(each.verdict.outcome, ",".join(each.device_ids)) for each in record.attempts]


def says(line: str) -> FakeCell:
    return FakeCell(exit_code=1, log=f"{line}\n")


TWINS = ("RuntimeError: No CUDA GPUs are available", "RuntimeError: No HIP GPUs are available")


@pytest.mark.parametrize("line", TWINS)
def test_f05_no_visible_device_is_tried_on_another_one_and_its_device_is_used_no_more(
    tmp_path: Path, line: str
) -> None:
    gives = host(tmp_path, A, B)
    assert tried(run(tmp_path, gives, says(line))) == [(Outcome.INFRA, A), (Outcome.PASSED, B)]
    assert tried(run(tmp_path, gives, GREEN, "b")) == [(Outcome.PASSED, B)]


@pytest.mark.parametrize("line", TWINS)
def test_f05_where_no_other_device_is_there_it_is_not_tried_again(tmp_path: Path, line: str) -> None:
    record = run(tmp_path, host(tmp_path, A), says(line))
    assert tried(record) == [(Outcome.INFRA, A)]
    assert record.verdict.cause == line


def test_f05_a_fault_that_closes_the_host_is_not_tried_again_nor_is_another_cell(tmp_path: Path) -> None:
    gives = host(tmp_path, A, B)
    closed = FakeCell(exit_code=None, fault=Fault.DEVICE, message='could not select device driver "cdi"')
    assert tried(run(tmp_path, gives, closed)) == [(Outcome.INFRA, A)]
    after = run(tmp_path, gives, GREEN, "b", retries=0)
    assert tried(after) == [(Outcome.INFRA, "")]
    assert "no cuda cell is tried on this host any more" in after.verdict.cause


def test_a_cell_that_could_not_be_removed_is_left_to_the_next_clean_up(tmp_path: Path) -> None:
    gives = host(tmp_path, A, B)
    left = FakeCell(exit_code=None, fault=Fault.DAEMON, message="connection aborted", left_behind=True)
    assert tried(run(tmp_path, gives, left)) == [(Outcome.INFRA, A), (Outcome.PASSED, B)]
    assert gives.leases.unremoved == {"fake-1"}


@pytest.mark.parametrize(
    "first",
    [
        says("Failed to initialize NVML: Unknown Error"),
        FakeCell(exit_code=None, fault=Fault.DAEMON, message="something new happened"),
    ],
    ids=["a new container may mend it", "nothing is known of it"],
)
def test_any_other_fault_goes_elsewhere_where_it_can_and_else_again_on_the_same(
    tmp_path: Path, first: FakeCell
) -> None:
    assert tried(run(tmp_path, host(tmp_path, A, B), first)) == [(Outcome.INFRA, A), (Outcome.PASSED, B)]
    alone = tmp_path / "alone"
    alone.mkdir()
    assert tried(run(alone, host(alone, A), first)) == [(Outcome.INFRA, A), (Outcome.PASSED, A)]
