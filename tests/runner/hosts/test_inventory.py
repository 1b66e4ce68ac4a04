"""What each kind of host says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.codec import dumps, loads
from runner.hosts import facts, inventory, of_platform, read_health
from runner.hosts.amd import gfx_name
from runner.hosts.nvml import Nvml, NvmlGpu, pci_address
from runner.machine import Inventory

Shape = Callable[[str], Any]


def test_h100_devices_have_identity_place_and_fabric(shape: Shape) -> None:
    found = inventory(shape("h100").source)
    device = found.devices[3]
    assert (device.platform, device.index, device.id) == (
        "cuda",
        3,
        "GPU-00000003-1111-4222-8333-000000000003",
    )
    assert (device.name, device.capability, device.memory_bytes) == ("NVIDIA H100 80GB HBM3", "9.0", 80 << 30)
    assert (device.nodes, device.pci, device.numa_node) == (("/dev/nvidia3",), "0000:4a:00.0", 0)
    assert {(link.kind, link.count) for link in device.links} == {("nvswitch", 18)}
    assert len(device.links) == 7
    assert found.drivers == {"cuda": "580.95.05 (CUDA 13.0)"}
    assert found.absent == {"rocm": "no AMD driver on this host (no /dev/kfd)"}
    assert (found.hostname, found.boot_id) == ("host-7", "b0075555-0000-4000-8000-000000000000")


def test_mig_slices_stand_for_their_gpu_and_an_uncut_one_is_named(shape: Shape) -> None:
    found = inventory(shape("h100_mig").source)
    first, second, whole = found.devices
    assert (first.id, first.parent, first.slot) == (
        "MIG-dddd0001-1111-4222-8333-000000000001",
        "GPU-00000000-1111-4222-8333-000000000000",
        0,
    )
    assert second.slot == 1
    assert first.memory_bytes == 40 << 30
    assert first.nodes == ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13")
    assert second.nodes == ("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22")
    assert (whole.parent, whole.nodes) == ("", ("/dev/nvidia1",))
    assert len(found.remarks) == 1
    assert found.remarks[0].startswith("GPU-00000002-1111-4222-8333-000000000002 is left out: MIG is on")


def test_recorded_h200_pair_is_joined_by_nvswitch(shape: Shape) -> None:
    found = inventory(shape("h200").source)
    assert [device.memory_bytes for device in found.devices] == [150754820096, 150754820096]
    assert [[(link.kind, link.count) for link in device.links] for device in found.devices] == [
        [("nvswitch", 18)]
    ] * 2
    assert found.drivers["cuda"] == "580.159.04 (CUDA 13.0)"


def test_mi300x_devices_come_from_the_topology(shape: Shape) -> None:
    found = inventory(shape("mi300x").source)
    assert len(found.devices) == 8
    device = found.devices[5]
    assert (device.platform, device.index, device.id) == ("rocm", 5, "GPU-abcd000000000005")
    assert (device.name, device.gfx, device.capability) == ("AMD Instinct MI300X", "gfx942", None)
    assert (device.memory_bytes, device.nodes, device.numa_node) == (192 << 30, ("/dev/dri/renderD168",), 1)
    assert device.pci == "0000:2a:00.0"
    assert {link.kind for link in device.links} == {"xgmi"}
    assert found.drivers == {"rocm": "6.12.12"}


def test_mi355x_partitions_share_a_parent_and_differ_in_identity(shape: Shape) -> None:
    found = inventory(shape("mi355x").source)
    assert [device.id for device in found.devices] == [
        "GPU-feed000000000000/0",
        "GPU-feed000000000000/1",
        "GPU-feed000000000001/0",
        "GPU-feed000000000001/1",
    ]
    assert [device.parent for device in found.devices] == ["GPU-feed000000000000"] * 2 + [
        "GPU-feed000000000001"
    ] * 2
    assert [link.kind for link in found.devices[0].links] == ["partition", "xgmi", "xgmi"]
    assert found.devices[0].gfx == "gfx950"


def test_product_name_of_the_board_wins(fresh: Shape) -> None:
    host = fresh("mi300x")
    host.file("/sys/class/drm/renderD128/device/product_name", "AMD Instinct MI300X OAM\n")
    assert inventory(host.source).devices[0].name == "AMD Instinct MI300X OAM"


def test_a_render_node_that_is_not_here_is_not_granted(fresh: Shape) -> None:
    host = fresh("mi300x")
    (host.root / "dev/dri/renderD144").unlink()
    found = inventory(host.source)
    assert [device.nodes[0] for device in found.devices][:3] == [
        "/dev/dri/renderD128",
        "/dev/dri/renderD136",
        "/dev/dri/renderD152",
    ]
    assert [device.index for device in found.devices] == list(range(7))
    assert found.remarks == (
        "0000:47:00.0 is left out: its render node /dev/dri/renderD144 is not here (granted to another?)",
    )


def test_a_topology_without_kfd_says_what_to_hand_over(fresh: Shape) -> None:
    host = fresh("mi300x")
    (host.root / "dev/kfd").unlink()
    assert "/dev/kfd is not here" in inventory(host.source).absent["rocm"]


def test_mixed_host_has_both_platforms(shape: Shape) -> None:
    found = inventory(shape("mixed").source)
    assert [device.name for device in of_platform(found, "cuda")] == ["NVIDIA A100-PCIE-40GB", "NVIDIA L4"]
    assert [device.gfx for device in of_platform(found, "rocm")] == ["gfx90a"]
    assert found.absent == {}


def test_without_nvml_the_drivers_files_name_the_devices(fresh: Shape) -> None:
    host = fresh("h100")
    (host.root / "nvml.json").unlink()
    host.nvml(Nvml(problem="the Python package nvidia-ml-py is not installed"))
    for minor, pci in ((4, "0000:1A:00.0"), (6, "0000:2A:00.0"), (9, "0000:3A:00.0")):
        host.file(
            f"/proc/driver/nvidia/gpus/{pci}/information",
            f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 42\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\n",
        )
    found = inventory(host.source)
    assert [(device.id, device.nodes, device.pci) for device in found.devices] == [
        ("GPU-4", ("/dev/nvidia4",), "0000:1a:00.0"),
        ("GPU-6", ("/dev/nvidia6",), "0000:2a:00.0"),
    ], "a GPU whose node is not here was given to another container"
    assert found.devices[0].capability is None
    assert found.remarks[0].startswith("the Python package nvidia-ml-py is not installed: GPUs are known by")
    assert found.drivers == {"cuda": "580.95.05"}
    assert "capability" not in facts(found, "cuda")


def test_a_uuid_that_the_driver_hides_gives_way_to_the_address(fresh: Shape) -> None:
    host = fresh("laptop")
    host.nvml(Nvml(problem="NVML does not start: Driver/library version mismatch"))
    information = (
        "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 0\n"
    )
    host.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", information)
    assert [device.id for device in inventory(host.source).devices] == ["pci-0000:01:00.0"]


def test_a_hanging_nvml_is_a_reason(fresh: Shape) -> None:
    host = fresh("h100")
    host.nvml(Nvml(problem="NVML gave no answer within 10 s: a GPU or the driver hangs", hung=True))
    found = inventory(host.source)
    assert found.devices == ()
    assert found.absent["cuda"] == "NVML gave no answer within 10 s: a GPU or the driver hangs"


def test_a_lost_gpu_is_left_out_with_its_reason_and_the_others_stay(fresh: Shape) -> None:
    host = fresh("laptop")
    good = host.source.nvml().gpus[0]
    host.nvml(Nvml(gpus=(good, NvmlGpu(index=1, uuid="", problem="GPU is lost"))))
    found = inventory(host.source)
    assert [device.id for device in found.devices] == [good.uuid]
    assert found.remarks == ("GPU 1 is left out: GPU is lost (see dmesg for Xid lines; it may need a reset)",)


def test_a_host_without_anything_has_reasons_and_no_devices(shape: Shape) -> None:
    found = inventory(shape("none").source)
    assert found.devices == ()
    assert found.absent["cuda"].startswith("no NVIDIA driver on this host")
    assert found.absent["rocm"].startswith("no AMD driver on this host")


def test_an_empty_tree_raises_nothing(host: Any) -> None:
    found = inventory(host.source)
    assert (found.hostname, found.boot_id, found.devices, found.cpu.cores) == ("", "", (), (0,))


@pytest.mark.parametrize(
    "name", ["h100", "h100_mig", "b200", "h200", "mi300x", "mi355x", "mixed", "laptop", "none"]
)
def test_an_inventory_survives_json(shape: Shape, name: str) -> None:
    found = inventory(shape(name).source)
    assert loads(dumps(found), Inventory) == found


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90402, "gfx942"),
        (90500, "gfx950"),
        (90010, "gfx90a"),
        (90008, "gfx908"),
        (110000, "gfx1100"),
        (120001, "gfx1201"),
    ],
)
def test_gfx_names(version: int, name: str) -> None:
    assert gfx_name(version) == name


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:17:00.0", "0000:17:00.0"),
        ("00000001:AB:00.0", "0001:ab:00.0"),
        ("00010000:17:00.0", "10000:17:00.0"),
        ("", ""),
    ],
)
def test_pci_addresses_are_written_as_sysfs_does(bus_id: str, address: str) -> None:
    assert pci_address(bus_id) == address


def test_facts_of_the_cpu_are_words(shape: Shape) -> None:
    found = facts(inventory(shape("mi300x").source), "cpu")
    assert found["zen"] is True
    assert "amx" not in found
    assert (found["cores"], found["memory_gib"]) == (128, 1024.0)


def test_facts_of_accelerators(shape: Shape) -> None:
    assert facts(inventory(shape("h100").source), "cuda") == {
        "devices": 8,
        "capability": "9.0",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_gib": 80.0,
    }
    assert facts(inventory(shape("mi300x").source), "rocm") == {
        "devices": 8,
        "name": "AMD Instinct MI300X",
        "gfx": "gfx942",
        "memory_gib": 192.0,
    }
    assert facts(inventory(shape("none").source), "cuda") == {}


def test_facts_of_differing_devices_are_those_of_the_least(shape: Shape) -> None:
    assert facts(inventory(shape("mixed").source), "cuda") == {
        "devices": 2,
        "capability": "8.0",
        "memory_gib": 23.0,
    }


def test_capabilities_compare_as_numbers(fresh: Shape) -> None:
    host = fresh("b200")
    big = host.source.nvml()
    host.nvml(Nvml(gpus=(big.gpus[0], NvmlGpu(index=1, uuid="GPU-9", minor=1, capability="9.0"))))
    assert facts(inventory(host.source), "cuda")["capability"] == "9.0"


def test_health_of_a_whole_host_in_one_reading(fresh: Shape) -> None:
    host = fresh("mi300x")
    host.file("/sys/class/kfd/kfd/proc/4711/vram_40002", "42949672960\n")
    host.file("/sys/class/kfd/kfd/proc/4711/vram_40003", "0\n")
    host.file("/proc/4711/comm", "VLLM::EngineCore\n")
    found = inventory(host.source)
    readings = read_health(found.devices, host.source)
    first, second = (readings[device.id] for device in found.devices[:2])
    assert (first.used_bytes, first.total_bytes, first.errors) == (300 << 20, 192 << 30, 0)
    assert [str(process) for process in first.processes] == ["process 4711 (VLLM::EngineCore) with 40960 MiB"]
    assert second.processes == ()


def test_health_of_slices_is_their_own(fresh: Shape) -> None:
    host = fresh("h100_mig")
    found = inventory(host.source)
    readings = read_health(found.devices, host.source)
    assert readings["MIG-dddd0001-1111-4222-8333-000000000001"].total_bytes == 40 << 30
    assert readings["GPU-00000001-1111-4222-8333-000000000001"].used_bytes == 500 << 20


def test_health_of_a_device_that_vanished_is_a_problem(fresh: Shape) -> None:
    host = fresh("h100")
    devices = inventory(host.source).devices
    host.nvml(Nvml(driver="580.95.05", gpus=host.source.nvml().gpus[1:]))
    reading = read_health(devices, host.source)[devices[0].id]
    assert reading.problem == "the driver no longer lists this device"
