"""A cell's first proof: what it sees is what it leased, in both kinds of runtime, for every platform."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from runner import codec
from runner.facts import Evidence
from runner.machine import Given, Sight
from runner.model import Culprit, Expectation, Outcome
from runner.verdict import judge, read_evidence
from tests.runner.verdict.factory import EVIDENCE, RANKS, facts, failing

A, B = "GPU-137cd091-5fe5-7f57-006a-239016b3f084", "GPU-aaaaaaaa-5fe5-7f57-006a-239016b3f084"
CPU = Given(platform="cpu", how="cores", cores=(0, 2), contained=True)
CPU_SIGHT = Sight(cores=(0, 2), cpuset=(0, 2))
CUDA = Given(platform="cuda", how="nodes", devices=(A,), files=("/dev/nvidia3",), contained=True)
CUDA_SIGHT = Sight(cores=(0, 1), cpuset=(0, 1), files=("/dev/nvidia3",), drivers={"cuda": (A,)})
ROCM = Given(
    platform="rocm", how="kfd", devices=("GPU-00f1",), files=("/dev/dri/renderD129",), contained=True
)
ROCM_SIGHT = Sight(files=("/dev/dri/renderD129", "/dev/kfd"), drivers={"rocm": ("GPU-00f1",)})


def as_process(given: Given) -> Given:
    return replace(given, how="process", contained=False)


SOUND: dict[str, tuple[Given, Sight]] = {
    "cores in a container": (CPU, CPU_SIGHT),
    "cores of a process: its control group is the host's": (
        as_process(CPU),
        replace(CPU_SIGHT, cpuset=(0, 1, 2, 3)),
    ),
    "cores where control groups say nothing": (CPU, replace(CPU_SIGHT, cpuset=None)),
    "a process on cores sees files of devices that no driver counts for it": (
        as_process(CPU),
        replace(CPU_SIGHT, files=("/dev/nvidia0", "/dev/nvidia1"), drivers={"cuda": ()}),
    ),
    "one GPU": (CUDA, CUDA_SIGHT),
    "NVIDIA's render node beside its GPU": (
        CUDA,
        replace(CUDA_SIGHT, files=("/dev/dri/renderD128", "/dev/nvidia3")),
    ),
    "a process on one of two GPUs": (
        as_process(CUDA),
        replace(CUDA_SIGHT, files=("/dev/nvidia3", "/dev/nvidia4")),
    ),
    "a slice": (
        replace(CUDA, devices=(A.replace("GPU", "MIG"),)),
        replace(CUDA_SIGHT, drivers={"cuda": (A.upper(),)}),
    ),
    "two GPUs in another order": (
        replace(CUDA, devices=(A, B)),
        replace(CUDA_SIGHT, drivers={"cuda": (B, A)}),
    ),
    "a driver that told the host no identity: counted": (replace(CUDA, devices=("pci-0000:17:00.0",)), CUDA_SIGHT),
    "one Instinct": (ROCM, ROCM_SIGHT),
    "a process on one of two Instincts": (
        as_process(ROCM),
        replace(ROCM_SIGHT, files=("/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd")),
    ),
    "a process on a GPU of a host that has an Instinct": (
        as_process(CUDA),
        replace(CUDA_SIGHT, drivers={"cuda": (A,), "rocm": ("GPU-00f1",)}),
    ),
    "a first partition whose siblings are hidden": (replace(ROCM, devices=("GPU-00f1/0",)), ROCM_SIGHT),
}  # fmt: skip

WRONG: dict[str, tuple[Given, Sight, str]] = {
    "more cores": (
        CPU,
        replace(CPU_SIGHT, cores=(0, 1, 2)),
        "the cell sees cores 0-2 by its affinity, it was given cores 0,2",
    ),
    "fewer cores": (
        CPU,
        replace(CPU_SIGHT, cores=(2,)),
        "the cell sees core 2 by its affinity, it was given",
    ),
    "other cores": (as_process(CPU), replace(CPU_SIGHT, cores=(1, 3)), "sees cores 1,3 by its affinity"),
    "a wider control group": (
        CPU,
        replace(CPU_SIGHT, cpuset=(0, 1, 2, 3)),
        "the cell sees cores 0-3 by its control group, it was given cores 0,2",
    ),
    "a GPU in a CPU container": (
        CPU,
        replace(CPU_SIGHT, files=("/dev/nvidia0", "/dev/nvidia1")),
        "the cell sees /dev/nvidia0, /dev/nvidia1, it was given no device",
    ),
    "an Instinct in a CPU container": (
        CPU,
        replace(CPU_SIGHT, files=("/dev/kfd",)),
        "the cell sees /dev/kfd, it was given no device",
    ),
    "a GPU in a CPU process": (
        as_process(CPU),
        replace(CPU_SIGHT, drivers={"cuda": (A,)}),
        f"the cell sees {A} of platform cuda, it was given no device",
    ),
    "a foreign GPU": (
        CUDA,
        replace(CUDA_SIGHT, drivers={"cuda": (B,)}),
        f"the cell sees {B}, it was given {A}",
    ),
    "one GPU too many": (
        CUDA,
        replace(CUDA_SIGHT, drivers={"cuda": (A, B)}),
        f"the cell sees {A}, {B}, it was given {A}",
    ),
    "one GPU too few": (
        replace(CUDA, devices=(A, B)),
        CUDA_SIGHT,
        f"the cell sees {A}, it was given {A}, {B}",
    ),
    "no GPU": (
        CUDA,
        replace(CUDA_SIGHT, drivers={"cuda": ()}),
        f"the cell sees no device, it was given {A}",
    ),
    "a whole GPU in place of its slice": (
        replace(CUDA, devices=("MIG-11111111-5fe5-7f57-006a-239016b3f084",)),
        CUDA_SIGHT,
        f"the cell sees {A}, it was given MIG-11111111",
    ),
    "the other vendor beside a GPU": (
        CUDA,
        replace(CUDA_SIGHT, files=("/dev/dri/renderD128", "/dev/kfd", "/dev/nvidia3")),
        f"the cell sees /dev/kfd, it was given {A}",
    ),
    "a driver that counts the other vendor beside a GPU": (
        CUDA,
        replace(CUDA_SIGHT, drivers={"cuda": (A,), "rocm": ("GPU-00f1",)}),
        f"the cell sees GPU-00f1 of platform rocm, it was given {A}",
    ),
    "a GPU in a cuda cell that leased none": (
        replace(CUDA, devices=(), files=()),
        CUDA_SIGHT,
        f"the cell sees {A} of platform cuda, it was given no device",
    ),
    "two where a driver told the host no identity of one": (
        replace(CUDA, devices=("pci-0000:17:00.0",)),
        replace(CUDA_SIGHT, drivers={"cuda": (A, B)}),
        f"the cell sees {A}, {B}, it was given pci-0000:17:00.0",
    ),
    "another render node": (
        ROCM,
        Sight(files=("/dev/dri/renderD130", "/dev/kfd"), drivers={"rocm": ("GPU-00f1",)}),
        "the cell sees /dev/dri/renderD130, /dev/kfd, it was given /dev/kfd, /dev/dri/renderD129",
    ),
    "another partition": (
        replace(ROCM, devices=("GPU-00f1/1",)),
        replace(ROCM_SIGHT, drivers={"rocm": ("GPU-00f1/2",)}),
        "the cell sees GPU-00f1/2, it was given GPU-00f1/1",
    ),
    "NVIDIA's GPU beside an Instinct": (
        ROCM,
        replace(ROCM_SIGHT, files=(*ROCM_SIGHT.files, "/dev/nvidia0")),
        "the cell sees /dev/nvidia0, it was given GPU-00f1",
    ),
}

SILENT: dict[str, tuple[Given, Sight | None, str]] = {
    "nothing": (CPU, None, "the evidence does not say which devices and cores the cell sees"),
    "no cores": (CPU, Sight(), "the cell does not say which cores it sees; it was given cores 0,2"),
    "the other vendor's driver alone": (
        CUDA,
        replace(CUDA_SIGHT, drivers={"rocm": ()}),
        f"the cell cannot say which devices it sees (no device file and no driver); it was given {A}",
    ),
    "no driver": (
        CUDA,
        replace(CUDA_SIGHT, drivers={}, problems=("NVIDIA's driver: no answer within 30 s",)),
        f"the cell cannot say which devices it sees (NVIDIA's driver: no answer within 30 s); it was given {A}",
    ),
}


def judged(given: Given, sight: Sight | None, **more: Any) -> Any:
    """A cell that is good in every other respect, on the platform of what it was given."""
    words = {
        "cuda": ("NvmlCudaPlatform", "cuda"),
        "rocm": ("RocmPlatform", "cuda"),
        "cpu": ("CpuPlatform", "cpu"),
    }
    platform, device_type = words[given.platform]
    ranks = tuple(replace(rank, visible_devices=len(given.devices)) for rank in RANKS)
    evidence = replace(EVIDENCE, platform=platform, device_type=device_type, ranks=ranks, sight=sight)
    axes = {"platform": given.platform, "dtype": "bfloat16", "tp": "2"}
    good = replace(facts(), axes=axes, given=given, evidence=evidence, expect=Expectation())
    return judge(replace(good, **more))


@pytest.mark.parametrize(("given", "sight"), SOUND.values(), ids=SOUND)
def test_a_cell_that_sees_what_it_leased_passes(given: Given, sight: Sight) -> None:
    verdict = judged(given, sight)
    assert (verdict.outcome, verdict.remarks) == (Outcome.PASSED, ())


@pytest.mark.parametrize(("given", "sight", "cause"), WRONG.values(), ids=WRONG)
def test_a_cell_that_sees_more_less_or_other_proves_nothing_and_its_host_is_to_blame(
    given: Given, sight: Sight, cause: str
) -> None:
    verdict = judged(given, sight)
    assert (verdict.outcome, verdict.culprit) == (Outcome.UNPROVEN, Culprit.HOST)
    assert cause in verdict.cause


@pytest.mark.parametrize(("given", "sight", "cause"), SILENT.values(), ids=SILENT)
def test_a_suite_that_does_not_say_what_it_sees_proves_nothing(
    given: Given, sight: Sight | None, cause: str
) -> None:
    verdict = judged(given, sight)
    assert (verdict.outcome, verdict.culprit, verdict.cause) == (Outcome.UNPROVEN, Culprit.TEST, cause)


@pytest.mark.parametrize("counted", [0, 2])
def test_a_rank_that_counts_other_devices_than_were_given_is_named(counted: int) -> None:
    ranks = (replace(RANKS[0], visible_devices=counted), replace(RANKS[1], visible_devices=1))
    evidence = replace(EVIDENCE, platform="RocmPlatform", device_type="cuda", ranks=ranks, sight=ROCM_SIGHT)
    verdict = judged(ROCM, ROCM_SIGHT, evidence=evidence)
    assert (verdict.outcome, verdict.culprit) == (Outcome.UNPROVEN, Culprit.HOST)
    assert verdict.cause == f"rank 0 sees {counted} devices, the cell was given GPU-00f1"


def test_a_cell_that_fails_beside_a_wrong_sight_stays_failed_and_says_both() -> None:
    verdict = judged(CPU, replace(CPU_SIGHT, cores=(0, 1)), report=failing("test_answers"))
    assert verdict.outcome is Outcome.FAILED
    assert "test_answers" in verdict.cause
    assert "the cell sees cores 0-1 by its affinity, it was given cores 0,2" in verdict.remarks


@pytest.mark.parametrize("evidence", [EVIDENCE, replace(EVIDENCE, sight=CPU_SIGHT)], ids=["old", "new"])
def test_where_no_lease_is_known_a_cell_is_judged_as_before(evidence: Evidence) -> None:
    assert judge(replace(facts(), evidence=evidence)).green


def test_evidence_of_an_older_run_loads_without_a_sight() -> None:
    old = codec.dumps(replace(EVIDENCE, sight=None)).replace(b'"sight": null,', b"")
    assert b"sight" not in old
    assert codec.loads(old, Evidence) == EVIDENCE


def test_the_first_event_is_read_and_parts_of_a_wrong_type_are_left_out() -> None:
    sees = {"cores": [0, 2], "cpuset": None, "files": ["/dev/kfd", 3], "drivers": {"cuda": [A], "x": 1}}
    evidence = read_evidence([json.dumps({"t": 1.0, "event": "start", "sees": sees})])
    assert evidence.sight == Sight(cores=(0, 2), files=("/dev/kfd",), drivers={"cuda": (A,)})
    assert read_evidence(['{"event": "start", "sees": [1]}']).sight is None
    assert read_evidence(['{"event": "start", "sees": {"cores": [-1]}}']).sight == Sight()
    torn = read_evidence(['{"event": "start", "sees": {"cores": [0, "1"], "drivers": 3}}'])
    assert torn.sight == Sight()
