"""What a cell is given: cores that no other cell has, devices that are healthy, and the facts that its sight is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.errors import PrepareError
from runner.hosts import Assigner, HostOffer, Leases, Reading, assign
from runner.machine import CpuFacts, Device, Given, Inventory
from runner.model import Cell, CellSettings, Limits, PlanEntry, Status, Suite


def entry(tp: int) -> PlanEntry:
    cell = Cell.of({"platform": "cpu", "tp": str(tp)})
    settings = CellSettings(image="x", suite=Suite(), limits=Limits(), devices=0)
    return PlanEntry(cell=cell, status=Status.PLANNED, settings=settings)


def assigner(folder: Path, cores: tuple[int, ...], *, jobs: int, containers: bool = True) -> Assigner:
    return Assigner(
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts(cores=cores, memory_bytes=1 << 34)),
        leases=Leases(folder),
        offer=HostOffer(),
        containers=containers,
        jobs=jobs,
        cancelled=lambda: False,
        clean_up=lambda: None,
    )


@pytest.mark.parametrize("containers", [True, False], ids=["container", "process"])
def test_two_cells_at_once_have_disjoint_cores_and_are_told_so(tmp_path: Path, containers: bool) -> None:
    gives = assigner(tmp_path, (0, 1), jobs=2, containers=containers)
    with gives.lease(entry(1)) as first, gives.lease(entry(1)) as second:
        assert first.given == Given(platform="cpu", how="cores", cores=(0,), contained=containers)
        assert second.given == Given(platform="cpu", how="cores", cores=(1,), contained=containers)
        assert (first.hand_over.cpus, second.hand_over.cpus) == ((0,), (1,))


@pytest.mark.parametrize(
    ("tp", "jobs", "cores", "given"),
    [(1, 1, 2, 2), (1, 2, 2, 1), (2, 2, 2, 2), (1, 1, 16, 4), (2, 1, 16, 8), (1, 8, 16, 2), (4, 1, 6, 4)],
)
def test_how_many_cores_a_cell_gets(tmp_path: Path, tp: int, jobs: int, cores: int, given: int) -> None:
    gives = assigner(tmp_path, tuple(range(cores)), jobs=jobs)
    assert gives.needs(entry(tp)) == {"core": given}
    with gives.lease(entry(tp)) as held:
        assert held.given is not None
        assert held.given.cores == tuple(range(given))


def test_waiting_for_what_another_holds_has_a_limit_where_one_is_given(tmp_path: Path) -> None:
    gives = assigner(tmp_path, (0,), jobs=1)
    limits = Limits(phase_s={"prepare": 0.1})
    waits = replace(entry(1), settings=replace(entry(1).settings, limits=limits))
    with (
        gives.lease(entry(1)),
        pytest.raises(PrepareError, match=r"became free within its limit \(limits\.phases\.prepare\)"),
        gives.lease(waits),
    ):
        raise AssertionError


def test_more_ranks_than_cores_can_never_be_given(tmp_path: Path) -> None:
    with (
        pytest.raises(PrepareError, match="needs 4 cores of 2"),
        assigner(tmp_path, (0, 1), jobs=1).lease(entry(4)),
    ):
        raise AssertionError


A, B, C = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc")
GPUS = tuple(
    Device(platform="cuda", index=index, id=each, nodes=(f"/dev/nvidia{index}",))
    for index, each in enumerate((A, B, C))
)
CDI_OFF = 'could not select device driver "cdi" with capabilities: []'


def on_gpus(folder: Path, readings: Mapping[str, Reading] | None = None) -> Assigner:
    found = readings or {}
    clean = {each.id: Reading(device=each.id, used_bytes=0, total_bytes=1 << 36) for each in GPUS}
    gives = assigner(folder, (0, 1), jobs=4)
    gives.inventory = Inventory(
        hostname="h", boot_id="b", cpu=CpuFacts(cores=(0, 1), memory_bytes=1 << 34), devices=GPUS
    )
    gives.offer = HostOffer(toolkit=True)
    gives.health = lambda devices: {each.id: found.get(each.id, clean[each.id]) for each in devices}
    return gives


def gpu_entry(tp: int = 1) -> PlanEntry:
    cell = Cell.of({"platform": "cuda", "tp": str(tp)})
    settings = CellSettings(image="x", suite=Suite(), limits=Limits(), devices=tp)
    return PlanEntry(cell=cell, status=Status.PLANNED, settings=settings)


def ids(gives: Assigner, tp: int = 1) -> tuple[str, ...]:
    with gives.lease(gpu_entry(tp)) as held:
        return held.device_ids


def blame(gives: Assigner, *names: str, lasts: bool = False, closes: bool = False) -> bool:
    return gives.blame(gpu_entry(), names, CDI_OFF, lasts=lasts, closes=closes)


def why_not(gives: Assigner, tp: int = 1) -> str:
    with pytest.raises(PrepareError) as error, gives.lease(gpu_entry(tp)):
        raise AssertionError
    return str(error.value)


def test_a_cell_is_told_the_identities_and_files_of_its_devices(tmp_path: Path) -> None:
    with on_gpus(tmp_path).lease(gpu_entry(2)) as held:
        assert held.given == Given(
            platform="cuda",
            how="nvidia-runtime",
            devices=(A, B),
            files=("/dev/nvidia0", "/dev/nvidia1"),
            contained=True,
        )


def test_d06_another_device_is_taken_where_one_is_not_healthy(tmp_path: Path) -> None:
    broken = {
        A: Reading(device=A, problem="Unknown Error"),
        C: Reading(device=C, problem="it hangs", hung=True),
    }
    gives = on_gpus(tmp_path, broken)
    assert ids(gives) == (B,)
    words = why_not(gives, 2)
    assert "needs 2 devices of one kind, and one cell gets 1 here at most" in words
    assert f"device {A} is set aside: faulty: the driver says 'Unknown Error'" in words
    assert f"device {C} is set aside: unknown" in words
    assert ids(gives) == (B,)


def test_f05_after_a_fault_of_the_host_no_other_gpu_cell_is_tried_and_cpu_cells_go_on(
    tmp_path: Path,
) -> None:
    gives = on_gpus(tmp_path)
    assert not blame(gives, *ids(gives), lasts=True, closes=True), "another try here makes no sense"
    assert why_not(gives) == f"platform=cuda,tp=1: no cuda cell is tried on this host any more: {CDI_OFF}"
    with gives.lease(entry(1)) as held:
        assert held.given is not None
        assert held.given.cores == (0,)


def test_f05_a_fault_of_one_device_sets_that_one_aside(tmp_path: Path) -> None:
    gives = on_gpus(tmp_path)
    assert blame(gives, A, lasts=True)
    assert ids(gives, 2) == (B, C)
    assert blame(gives, B, lasts=True)
    assert not blame(gives, C, lasts=True), "no device is left for another try"


def test_f05_what_a_new_container_may_mend_is_tried_again(tmp_path: Path) -> None:
    gives = on_gpus(tmp_path)
    assert blame(gives, A)
    assert ids(gives) == (A,)
    assert blame(gives, A)
    assert ids(gives) == (B,)


def avoiding(gives: Assigner, *avoid: str, tp: int = 1) -> tuple[str, ...]:
    with gives.lease(gpu_entry(tp), avoid) as held:
        return held.device_ids


def test_another_try_goes_to_another_device_where_one_is_free(tmp_path: Path) -> None:
    gives = on_gpus(tmp_path)
    assert avoiding(gives, A) == (B,)
    assert avoiding(gives, A, tp=2) == (B, C)
    assert avoiding(gives, A, B, tp=2) == (A, B), "no other two are there"
    with gives.lease(gpu_entry(2), (A,)) as held:
        assert held.device_ids == (B, C)
        assert avoiding(gives, A) == (A,), "the others are taken"


def test_a_cell_does_not_wait_for_ever_for_what_its_own_runner_could_not_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assign, "OWN_LEFT_S", 0.0)
    monkeypatch.setattr(assign, "POLL_S", 0.01)
    gives = on_gpus(tmp_path)
    with gives.lease(gpu_entry(2)) as held:
        held.abandon("a1")
    assert ids(gives) == (C,)
    assert why_not(gives, 2) == (
        "platform=cuda,tp=2: needs 2 devices of one kind, and one cell gets 1 here at most;"
        f" an earlier cell could not be removed and may use {A}, {B}"
    )
    with gives.lease(entry(2)) as held:
        held.abandon("a1")
    with pytest.raises(
        PrepareError, match=r"needs 1 cores of 0; .* may use GPU-aaaa, GPU-bbbb, core 0, core 1"
    ):
        gives.lease(entry(1)).__enter__()


def test_faults_of_cores_set_no_device_aside(tmp_path: Path) -> None:
    gives = on_gpus(tmp_path)
    blame(gives, "core 0", lasts=True, closes=True)
    blame(gives, lasts=True, closes=True)
    assert ids(gives, 3) == (A, B, C)
