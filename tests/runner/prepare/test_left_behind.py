"""A probe whose container cannot be removed: nobody gets its device before a clean-up has shown it to be free."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import PrepareError
from runner.facts import HandOver, PreparedImage
from runner.hosts import Assigner, HostOffer, Leases
from runner.machine import CpuFacts, Inventory
from runner.prepare.jobs import Job, run_job
from runner.runtimes import FakeCell, FakeRuntime

IMAGE = PreparedImage(ref="i", digest="d", how="fake")
LEFT = FakeCell(left_behind=True, remarks=("container f00d is left behind: no answer",))


def job(folder: Path, hand_over: HandOver) -> Job:
    return Job(
        name="probe", tools=folder, argv=("x",), out_dir=folder, log_path=folder / "log", hand_over=hand_over
    )


def test_the_core_of_such_a_probe_is_not_leased_again(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "leases")
    gives = Assigner(
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts(cores=(0,), memory_bytes=1 << 34)),
        leases=leases,
        offer=HostOffer(),
        containers=True,
        jobs=1,
        cancelled=lambda: False,
        clean_up=lambda: None,
    )
    with gives.probe("cpu") as handed:
        run_job(FakeRuntime({"*": FakeCell()}), IMAGE, job(tmp_path, handed))
    assert leases.orphans() == ()
    with pytest.raises(PrepareError, match="container f00d is left behind"), gives.probe("cpu") as handed:
        run_job(FakeRuntime({"*": LEFT}), IMAGE, job(tmp_path, handed))
    assert len(leases.orphans()) == 1
    assert leases.unremoved == {"fake-1"}, "its own waiting runner tries again to remove it"


def test_a_job_without_devices_counts_although_its_container_stays(tmp_path: Path) -> None:
    assert run_job(FakeRuntime({"*": LEFT}), IMAGE, job(tmp_path, HandOver())).left_behind
