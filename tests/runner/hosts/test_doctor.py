"""What a person is told to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.hosts import HostOffer, Reading, describe, inventory, offer, problems, read_health
from runner.hosts.nvml import Nvml

Shape = Callable[[str], Any]


@pytest.mark.parametrize("name", ["h100", "b200", "h200", "mi300x", "laptop", "none"])
def test_a_good_host_has_no_problem(shape: Shape, name: str) -> None:
    source = shape(name).source
    found = inventory(source)
    given = offer(source, found.devices, cdi_dirs=("/etc/cdi",))
    assert problems(found, offer=given, readings=read_health(found.devices, source)) == ()


def test_the_page_for_a_person(shape: Shape) -> None:
    words = "amd avx2 avx512_bf16 avx512_vnni avx512f x86_64 zen"
    assert describe(inventory(shape("mi300x").source))[:2] == (
        f"cpu   AMD EPYC 9575F 64-Core Processor, 128 cores, 1024.0 GiB: {words}",
        "rocm  0 GPU-abcd000000000000: AMD Instinct MI300X, gfx942, 192.0 GiB, 0000:05:00.0, NUMA 0",
    )
    assert describe(inventory(shape("mi300x").source))[-1] == "note: the ROCm path has never run on hardware"
    assert describe(inventory(shape("none").source))[-2:] == (
        "cuda  none: no NVIDIA driver on this host (no /proc/driver/nvidia, no /dev/nvidiactl)",
        "rocm  none: no AMD driver on this host (no /dev/kfd)",
    )


def test_a_slice_says_whose_it_is(shape: Shape) -> None:
    assert describe(inventory(shape("h100_mig").source))[1].endswith(
        "slice 0 of GPU-00000000-1111-4222-8333-000000000000"
    )


def test_slices_and_an_empty_mig_gpu_are_explained(shape: Shape) -> None:
    found = problems(inventory(shape("h100_mig").source))
    assert len(found) == 2
    assert "nvidia-smi mig -cgi" in found[0]
    assert found[1].startswith("cuda: 3 devices, but one cell gets 1 at most")


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        ("the Python package nvidia-ml-py is not installed", "pip install nvidia-ml-py"),
        ("NVML does not start: Driver/library version mismatch", "reboot"),
        ("NVML gave no answer within 10 s: a GPU or the driver hangs", "dmesg"),
    ],
)
def test_a_reason_has_its_remedy(fresh: Shape, problem: str, remedy: str) -> None:
    host = fresh("h100")
    host.nvml(Nvml(problem=problem))
    (line,) = problems(inventory(host.source))
    assert line.startswith(f"cuda: {problem}: ")
    assert remedy in line


def test_a_variable_that_hides_everything_is_a_problem(shape: Shape) -> None:
    (line,) = problems(inventory(shape("h100").source, {"CUDA_VISIBLE_DEVICES": ""}))
    assert line.startswith('cuda: CUDA_VISIBLE_DEVICES="" hides every device: unset the variable')


def test_each_device_without_a_way_into_a_container_is_named(shape: Shape) -> None:
    found = problems(inventory(shape("h200").source), offer=HostOffer())
    assert [line.partition(" cannot")[0] for line in found] == [
        "GPU-22020000-0000-4000-8000-000000000000",
        "GPU-64ba0000-0000-4000-8000-000000000001",
    ]
    assert all("install the NVIDIA container toolkit" in line for line in found)


def test_a_dirty_device_is_named_with_its_holder(shape: Shape) -> None:
    held = Reading(device="GPU-1", used_bytes=40_000 << 20, total_bytes=81_920 << 20)
    (line,) = problems(inventory(shape("none").source), readings={"GPU-1": held})
    assert line.startswith("GPU-1: dirty: 40000 of 81920 MiB in use by no process that is visible")


def test_an_unreadable_boot_id_is_a_problem(host: Any) -> None:
    (line,) = problems(inventory(host.source))
    assert line.startswith("the kernel's boot id cannot be read")
