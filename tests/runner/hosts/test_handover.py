"""How devices reach a cell, field by field, for each kind of host."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.codec import dumps
from runner.errors import PrepareError
from runner.facts import CellSpec, HandOver
from runner.hosts import HostOffer, hand_over, hand_over_process, inventory, of_platform, offer, rank_cores
from runner.machine import Device
from runner.model import Fault, Limits
from runner.runtimes.docker_spec import container_config
from runner.vendors import VENDORS

Shape = Callable[[str], Any]

GOLDEN = Path(__file__).parent / "data" / "handover"
CDI_DIRS = ("/etc/cdi", "/var/run/cdi")
GPU = "GPU-11111111-2222-4333-8444-555555555555"


KINDS = [
    ("h100", "cuda", 2),
    ("h100_mig", "cuda", 1),
    ("b200", "cuda", 2),
    ("h200", "cuda", 2),
    ("mi300x", "rocm", 2),
    ("mi355x", "rocm", 2),
    ("mixed", "rocm", 1),
    ("laptop", "cuda", 1),
    ("none", "cpu", 0),
]


def given_on(shape: Shape, name: str, platform: str, count: int) -> HandOver:
    """The hand-over of the first devices of a kind of host."""
    source = shape(name).source
    found = inventory(source)
    return hand_over(
        VENDORS[platform],
        of_platform(found, platform)[:count],
        offer(source, found.devices, cdi_dirs=CDI_DIRS),
        cores=(0, 1, 2, 3),
        ranks=max(count, 2),
    )


@pytest.mark.parametrize(("name", "platform", "count"), KINDS)
def test_golden_hand_over(shape: Shape, name: str, platform: str, count: int) -> None:
    given = given_on(shape, name, platform, count)
    written = {field: value for field, value in json.loads(dumps(given)).items() if value}
    assert written == json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize(("name", "platform", "count"), KINDS)
def test_golden_container(shape: Shape, name: str, platform: str, count: int) -> None:
    """What the engine is asked for, whole: nothing more than the leased devices reaches the container."""
    spec = CellSpec(
        name="cell",
        image="sha256:0",
        argv=("python3",),
        out_dir=Path("/run-folder/out"),
        log_path=Path("/run-folder/log.txt"),
        limits=Limits(memory_bytes=8 << 30, shm_bytes=8 << 30),
        hand_over=given_on(shape, name, platform, count),
    )
    body = container_config(spec, user="65532:65532", labels={})
    assert body == json.loads((GOLDEN.parent / "container" / f"{name}.json").read_text())


def test_f05_a_cpu_cell_sees_no_accelerator_of_any_host(shape: Shape) -> None:
    for name in ("h100", "b200", "mi300x", "mixed"):
        source = shape(name).source
        found = inventory(source)
        given = hand_over(VENDORS["cpu"], (), offer(source, found.devices, cdi_dirs=CDI_DIRS), cores=(6, 7))
        assert given.env == {
            "NVIDIA_VISIBLE_DEVICES": "void",
            "CUDA_VISIBLE_DEVICES": "",
            "ROCR_VISIBLE_DEVICES": "",
            "HIP_VISIBLE_DEVICES": "",
            "VLLM_CPU_OMP_THREADS_BIND": "6-7",
        }
        assert (given.nodes, given.gpu_ids, given.cdi_names, given.mounts) == ((), (), (), ())


def test_f07_slices_are_passed_on_by_identity(shape: Shape) -> None:
    source = shape("h100_mig").source
    found = inventory(source)
    ways = [
        hand_over(VENDORS["cuda"], (device,), offer(source, found.devices)) for device in found.devices[:2]
    ]
    assert [way.gpu_ids for way in ways] == [
        ("MIG-dddd0001-1111-4222-8333-000000000001",),
        ("MIG-dddd0002-1111-4222-8333-000000000002",),
    ]


def test_f07_rocm_sets_one_variable_counted_from_0(shape: Shape) -> None:
    source = shape("mi300x").source
    found = inventory(source)
    given = hand_over(VENDORS["rocm"], found.devices[5:8], offer(source, found.devices))
    visible = {
        name: value for name, value in given.env.items() if name.startswith(("HIP", "ROCR", "CUDA", "GPU"))
    }
    assert visible == {"HIP_VISIBLE_DEVICES": "0,1,2"}
    assert given.nodes == ("/dev/kfd", "/dev/dri/renderD168", "/dev/dri/renderD176", "/dev/dri/renderD184")


def test_groups_of_nodes_are_numbers_each_once(fresh: Shape) -> None:
    host = fresh("mi300x")
    host.node("/dev/kfd", 44)
    host.node("/dev/dri/renderD136", 993)
    found = inventory(host.source)
    given = hand_over(VENDORS["rocm"], found.devices[:3], offer(host.source, found.devices))
    assert given.group_ids == (44, 109, 993)


def test_a_toolkit_that_the_engine_names_is_enough(shape: Shape) -> None:
    source = shape("h200").source
    devices = inventory(source).devices
    assert hand_over(VENDORS["cuda"], devices, offer(source, devices)).how == "nodes"
    assert (
        hand_over(VENDORS["cuda"], devices, offer(source, devices, runtimes=("runc", "nvidia"))).how
        == "nvidia-runtime"
    )


def test_specifications_count_only_where_the_engine_reads_them(shape: Shape) -> None:
    source = shape("b200").source
    devices = inventory(source).devices
    with pytest.raises(PrepareError, match="no CDI specification"):
        hand_over(VENDORS["cuda"], devices[:1], offer(source, devices))


def test_cdi_by_position_where_identities_are_not_listed() -> None:
    whole = Device(platform="cuda", index=3, id=GPU)
    piece = Device(platform="cuda", index=0, id="MIG-1", parent="GPU-0", slot=1)
    names = HostOffer(cdi=("nvidia.com/gpu=3", "nvidia.com/gpu=0:1"))
    assert hand_over(VENDORS["cuda"], (whole,), names).cdi_names == ("nvidia.com/gpu=3",)
    assert hand_over(VENDORS["cuda"], (piece,), names).cdi_names == ("nvidia.com/gpu=0:1",)


def test_json_specifications_are_read_and_broken_ones_skipped(host: Any) -> None:
    host.file("/etc/cdi/a.json", '{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "all"}]}')
    host.file("/etc/cdi/b.json", '{"kind": ')
    host.file("/etc/cdi/c.yaml", "devices:\n- name: x\n")
    assert offer(host.source, (), cdi_dirs=("/etc/cdi",)).cdi == ("nvidia.com/gpu=0", "nvidia.com/gpu=all")


def test_a_slice_needs_its_capability_nodes() -> None:
    piece = Device(platform="cuda", index=0, id="MIG-1", parent="GPU-0", slot=0, nodes=("/dev/nvidia0",))
    mounted = HostOffer(driver=(("/usr/local/nvidia", "/usr/local/nvidia"),))
    with pytest.raises(PrepareError, match="capability nodes under /dev/nvidia-caps"):
        hand_over(VENDORS["cuda"], (piece,), mounted)


def test_no_way_names_the_device_and_the_remedy(shape: Shape) -> None:
    devices = (Device(platform="cuda", index=0, id=GPU, nodes=("/dev/nvidia0",)),)
    with pytest.raises(PrepareError) as caught:
        hand_over(VENDORS["cuda"], devices, HostOffer())
    assert caught.value.fault is Fault.DEVICE
    assert str(caught.value).startswith(f"{GPU} cannot be given to a container: no toolkit")
    assert "install the NVIDIA container toolkit" in str(caught.value)


def test_rocm_without_kfd_says_so() -> None:
    device = Device(platform="rocm", index=0, id="GPU-1", nodes=("/dev/dri/renderD128",))
    with pytest.raises(PrepareError, match="/dev/kfd is not here"):
        hand_over(VENDORS["rocm"], (device,), HostOffer())


@pytest.mark.parametrize(
    ("name", "platform", "env"),
    [
        (
            "h100",
            "cuda",
            {"NCCL_CUMEM_HOST_ENABLE": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "6,7"},
        ),
        ("mi300x", "rocm", {"HIP_VISIBLE_DEVICES": "6,7"}),
    ],
)
def test_a_process_is_given_devices_by_one_variable(
    shape: Shape, name: str, platform: str, env: dict[str, str]
) -> None:
    devices = inventory(shape(name).source).devices[6:]
    assert hand_over_process(VENDORS[platform], devices, cores=(1,)) == HandOver(
        how="process", env=env, cpus=(1,)
    )


def test_a_process_is_given_a_slice_by_identity(shape: Shape) -> None:
    devices = inventory(shape("h100_mig").source).devices[1:2]
    env = hand_over_process(VENDORS["cuda"], devices).env
    assert env["CUDA_VISIBLE_DEVICES"] == "MIG-dddd0002-1111-4222-8333-000000000002"


@pytest.mark.parametrize(
    ("cores", "ranks", "text"),
    [
        ((0, 1), 2, "0|1"),
        ((0, 1, 2, 3, 4), 2, "0-1|2-3"),
        ((4, 5, 8, 9), 1, "4-5,8-9"),
        ((3, 5, 7), 3, "3|5|7"),
    ],
)
def test_cores_are_shared_out_evenly(cores: tuple[int, ...], ranks: int, text: str) -> None:
    assert rank_cores(cores, ranks) == text


def test_fewer_cores_than_ranks_is_refused() -> None:
    with pytest.raises(PrepareError, match="2 ranks need 2 cores and 1 are leased"):
        rank_cores((0,), 2)
