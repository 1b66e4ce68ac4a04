from __future__ import annotations

from pathlib import Path
from typing import Any

from runner.facts import HandOver, Mount
from runner.runtimes.docker_spec import Hardening, container_config


def config(make_spec: Any, **changes: Any) -> dict[str, Any]:
    return container_config(make_spec("x", image="i", **changes), user="1:2", labels={"own": "er"})


def test_devices_reach_a_container_in_each_of_their_ways(make_spec: Any) -> None:
    hand = HandOver(
        nodes=("/dev/kfd", "/dev/dri/renderD128"),
        group_ids=(44, 104),
        mounts=(Mount(source=Path("/usr/lib/driver"), target="/driver"),),
        cpus=(0, 2),
        ulimits={"memlock": -1},
    )
    host = config(make_spec, hand_over=hand)["HostConfig"]
    assert host["Devices"][0] == {
        "PathOnHost": "/dev/kfd",
        "PathInContainer": "/dev/kfd",
        "CgroupPermissions": "rw",
    }
    assert [device["PathOnHost"] for device in host["Devices"]] == ["/dev/kfd", "/dev/dri/renderD128"]
    assert host["GroupAdd"] == ["44", "104"]
    assert host["CpusetCpus"] == "0,2"
    assert host["Ulimits"] == [
        {"Name": "core", "Soft": 0, "Hard": 0},
        {"Name": "memlock", "Soft": -1, "Hard": -1},
    ]
    assert host["Mounts"][-1] == {
        "Type": "bind",
        "Source": "/usr/lib/driver",
        "Target": "/driver",
        "ReadOnly": True,
    }
    assert "DeviceRequests" not in host


def test_gpus_are_asked_for_by_id_or_by_cdi_name(make_spec: Any) -> None:
    by_id = config(make_spec, hand_over=HandOver(gpu_ids=("GPU-1", "GPU-2")))["HostConfig"]
    by_name = config(make_spec, hand_over=HandOver(cdi_names=("nvidia.com/gpu=0",)))["HostConfig"]
    assert by_id["DeviceRequests"] == [{"DeviceIDs": ["GPU-1", "GPU-2"], "Capabilities": [["gpu"]]}]
    assert by_name["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]


def test_a_cell_without_devices_asks_for_none(make_spec: Any) -> None:
    host = config(make_spec)["HostConfig"]
    assert {"Devices", "DeviceRequests", "GroupAdd", "CpusetCpus"} & set(host) == set()


def test_only_the_out_folder_can_be_written(make_spec: Any) -> None:
    spec = make_spec("x", image="i")
    mounts = container_config(spec, user="1:2", labels={})["HostConfig"]["Mounts"]
    writable = [(mount["Source"], mount["Target"]) for mount in mounts if not mount["ReadOnly"]]
    assert writable == [(str(spec.out_dir), "/out")]


def test_our_labels_cannot_be_overridden_and_sizes_are_data(make_spec: Any) -> None:
    made = container_config(
        make_spec("x", image="i", labels={"own": "other", "run": "r"}),
        user="1:2",
        labels={"own": "er"},
        hardening=Hardening(tmp_bytes=7, log_bytes=8, log_files=9),
    )
    assert made["Labels"] == {"own": "er", "run": "r"}
    assert made["HostConfig"]["Tmpfs"]["/tmp"].endswith("size=7")
    assert made["HostConfig"]["LogConfig"]["Config"] == {"max-size": "8", "max-file": "9"}
