"""What an agent or a pod was granted bounds the inventory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.hosts import inventory

Shape = Callable[[str], Any]


A, B, C = (f"GPU-0000000{number}-1111-4222-8333-00000000000{number}" for number in range(3))


@pytest.mark.parametrize(
    ("value", "indexes"),
    [
        ("all", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("2", [2]),
        ("2,0", [0, 2]),
        (f"{B},{C}", [1, 2]),
        ("GPU-00000003", [3]),
        ("gpu-00000003", [3]),
        ("1, 2", [1, 2]),
        ("0,9,1", [0]),
        ("0,-1,1", [0]),
    ],
)
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"])
def test_devices_by_number_identity_and_beginning(
    shape: Shape, name: str, value: str, indexes: list[int]
) -> None:
    found = inventory(shape("h100").source, {name: value})
    assert [device.index for device in found.devices] == indexes


@pytest.mark.parametrize("value", ["", "void", "none", "-1", "NoDevFiles"])
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"])
def test_nothing_granted_is_a_reason(shape: Shape, name: str, value: str) -> None:
    found = inventory(shape("h100").source, {name: value})
    assert found.devices == ()
    assert found.absent["cuda"] == f'{name}="{value}" hides every device'


def test_an_unknown_device_is_a_remark_and_ends_the_list(shape: Shape) -> None:
    found = inventory(shape("laptop").source, {"CUDA_VISIBLE_DEVICES": "0,GPU-beef,0"})
    assert [device.index for device in found.devices] == [0]
    (remark,) = found.remarks
    assert remark.startswith(
        'CUDA_VISIBLE_DEVICES: "GPU-beef" names no device; it and what follows is not used'
    )
    assert remark.endswith("(here: GPU-00000000-1111-4222-8333-000000000000)")


def test_only_unknown_devices_leave_nothing(shape: Shape) -> None:
    found = inventory(shape("h100").source, {"CUDA_VISIBLE_DEVICES": "8"})
    assert found.absent["cuda"] == 'CUDA_VISIBLE_DEVICES="8" names no device of this host'


def test_an_ambiguous_beginning_names_nothing(shape: Shape) -> None:
    found = inventory(shape("h100").source, {"CUDA_VISIBLE_DEVICES": "GPU-0000000"})
    assert found.devices == ()


def test_both_variables_must_grant_a_device(shape: Shape) -> None:
    environ = {"NVIDIA_VISIBLE_DEVICES": "2,3,4", "CUDA_VISIBLE_DEVICES": "3,4,5"}
    assert [device.index for device in inventory(shape("h100").source, environ).devices] == [3, 4]


@pytest.mark.parametrize(
    "sign", ["/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io/token"]
)
def test_inside_a_container_host_numbers_were_already_applied(fresh: Shape, sign: str) -> None:
    host = fresh("laptop")
    host.file(sign)
    assert len(inventory(host.source, {"NVIDIA_VISIBLE_DEVICES": "5"}).devices) == 1


def test_as_many_host_numbers_as_devices_were_already_applied(shape: Shape) -> None:
    assert len(inventory(shape("h200").source, {"NVIDIA_VISIBLE_DEVICES": "6,7"}).devices) == 2


def test_inside_a_container_identities_still_count(fresh: Shape) -> None:
    host = fresh("h200")
    host.file("/.dockerenv")
    environ = {"NVIDIA_VISIBLE_DEVICES": "GPU-64ba0000-0000-4000-8000-000000000001"}
    assert [device.index for device in inventory(host.source, environ).devices] == [1]


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ("MIG-dddd0002", ["MIG-dddd0002-1111-4222-8333-000000000002"]),
        ("MIG-dddd", []),
        ("0:1", ["MIG-dddd0002-1111-4222-8333-000000000002"]),
        ("0", ["MIG-dddd0001-1111-4222-8333-000000000001", "MIG-dddd0002-1111-4222-8333-000000000002"]),
        (A, ["MIG-dddd0001-1111-4222-8333-000000000001", "MIG-dddd0002-1111-4222-8333-000000000002"]),
        (B, [B]),
    ],
)
def test_slices_by_identity_position_and_parent(shape: Shape, value: str, ids: list[str]) -> None:
    found = inventory(shape("h100_mig").source, {"NVIDIA_VISIBLE_DEVICES": value})
    assert [device.id for device in found.devices] == ids


def test_differing_gpus_are_counted_in_pci_order_with_a_remark(shape: Shape) -> None:
    found = inventory(shape("mixed").source, {"CUDA_VISIBLE_DEVICES": "0"})
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in found.remarks[0]
    calm = inventory(shape("mixed").source, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert calm.remarks == ()


@pytest.mark.parametrize(
    ("environ", "renders"),
    [
        ({"ROCR_VISIBLE_DEVICES": "1,3"}, [136, 152]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-abcd000000000006"}, [176]),
        ({"HIP_VISIBLE_DEVICES": "0"}, [128]),
        ({"ROCR_VISIBLE_DEVICES": "4,6", "HIP_VISIBLE_DEVICES": "1"}, [176]),
        ({"ROCR_VISIBLE_DEVICES": "4,6", "HIP_VISIBLE_DEVICES": "6"}, []),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [144]),
        (
            {
                "BUILDKITE_AGENT_META_DATA_RENDER_DEVICES": "--device /dev/dri/renderD144 --device /dev/dri/renderD184"
            },
            [144, 184],
        ),
    ],
)
def test_amd_grants(shape: Shape, environ: dict[str, str], renders: list[int]) -> None:
    found = inventory(shape("mi300x").source, environ)
    assert [device.nodes for device in found.devices] == [
        (f"/dev/dri/renderD{number}",) for number in renders
    ]


def test_granted_render_nodes_that_are_not_here(shape: Shape) -> None:
    found = inventory(
        shape("mi300x").source, {"BUILDKITE_AGENT_META_DATA_RENDER_DEVICES": "/dev/dri/renderD99"}
    )
    assert found.absent["rocm"] == "BUILDKITE_AGENT_META_DATA_RENDER_DEVICES grants no device of this host"
    assert found.remarks == ("BUILDKITE_AGENT_META_DATA_RENDER_DEVICES names renderD99, which is not here",)


def test_on_a_mixed_host_cudas_variable_is_nvidias(shape: Shape) -> None:
    found = inventory(shape("mixed").source, {"CUDA_VISIBLE_DEVICES": ""})
    assert [device.platform for device in found.devices] == ["rocm"]
