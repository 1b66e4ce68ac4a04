"""What a cell says it sees: from made trees of /dev, /sys and control groups, and from this very process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.incell import cuda, sight
from runner.verdict.sight import read_sight

KFD = "sys/class/kfd/kfd/topology/nodes"
GPU = "simd_count 1216\nunique_id {unique}\ndrm_render_minor {minor}\nlocation_id {place}\ndomain 0\n"
CHIP = 0x00F1E2D3C4B5A697


def write(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def instinct(root: Path, number: int, minor: int, *, unique: int = CHIP, place: int = 0x1700) -> None:
    write(root, f"{KFD}/{number}/properties", GPU.format(unique=unique, minor=minor, place=place))


def test_files_of_accelerators_are_named_and_no_others(tmp_path: Path) -> None:
    for name in (
        "null",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia0",
        "nvidia10",
        "kfd",
        "dri/card0",
        "dri/renderD128",
    ):
        write(tmp_path, f"dev/{name}")
    write(tmp_path, "dev/nvidia-caps/nvidia-cap21")
    assert sight.device_files(tmp_path) == [
        "/dev/dri/renderD128",
        "/dev/kfd",
        "/dev/nvidia-caps/nvidia-cap21",
        "/dev/nvidia0",
        "/dev/nvidia10",
    ]


@pytest.mark.parametrize(
    ("name", "text", "cores"),
    [
        ("cpuset.cpus.effective", "0-1,8\n", [0, 1, 8]),
        ("cpuset/cpuset.effective_cpus", "3\n", [3]),
        ("cpuset/cpuset.cpus", "2-3\n", [2, 3]),
        ("cpuset.cpus.effective", "all\n", None),
        ("memory.max", "max\n", None),
    ],
)
def test_the_core_set_of_either_version_of_control_groups(
    tmp_path: Path, name: str, text: str, cores: list[int] | None
) -> None:
    write(tmp_path, f"sys/fs/cgroup/{name}", text)
    assert sight.cpuset(tmp_path) == cores


def test_the_core_set_of_a_cell_that_sees_the_whole_tree_is_its_own(tmp_path: Path) -> None:
    """Docker with ``--cgroupns=host``: the root of the tree is the host's, with every core."""
    write(tmp_path, "sys/fs/cgroup/cpuset.cpus.effective", "0-63\n")
    write(tmp_path, "sys/fs/cgroup/system.slice/docker-1.scope/cpuset.cpus.effective", "4-5\n")
    write(tmp_path, "proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/docker-1.scope\n")
    assert sight.cpuset(tmp_path) == [4, 5]
    for path in ("/", "/../other.scope", "/gone.scope"):
        write(tmp_path, "proc/self/cgroup", f"0::{path}\n")
        assert sight.cpuset(tmp_path) == list(range(64))


def test_a_driver_is_asked_where_windows_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "_cuda", lambda: {"devices": ["GPU-1"]})
    assert sight.look(tmp_path, {})["drivers"] == {}
    write(tmp_path, "dev/dxg")
    assert sight.look(tmp_path, {})["drivers"] == {"cuda": ["GPU-1"]}


def test_instinct_devices_are_those_whose_render_node_is_here(tmp_path: Path) -> None:
    write(tmp_path, f"{KFD}/0/properties", "simd_count 0\ncpu_cores_count 96\n")
    instinct(tmp_path, 1, 128, unique=0)
    instinct(tmp_path, 2, 129, place=0x2700)
    instinct(tmp_path, 10, 130, unique=7, place=0x3700)
    write(tmp_path, f"{KFD}/11/properties")  # a node that a device filter hides
    write(tmp_path, "dev/dri/renderD128")
    write(tmp_path, "dev/dri/renderD129")
    assert list(sight.amd(tmp_path)) == ["pci-0000:17:00.0", "GPU-00f1e2d3c4b5a697"]


def test_partitions_of_a_chip_have_numbers_also_where_one_alone_can_be_read(tmp_path: Path) -> None:
    instinct(tmp_path, 1, 128)
    instinct(tmp_path, 2, 129, place=0x10001700)
    for minor in (128, 129):
        write(tmp_path, f"dev/dri/renderD{minor}")
    assert list(sight.amd(tmp_path)) == ["GPU-00f1e2d3c4b5a697/0", "GPU-00f1e2d3c4b5a697/1"]
    (tmp_path / KFD / "1/properties").write_text("")
    assert list(sight.amd(tmp_path)) == ["GPU-00f1e2d3c4b5a697/1"]


@pytest.mark.parametrize(
    ("environ", "left"),
    [
        ({}, ["a", "b", "c"]),
        ({"HIP_VISIBLE_DEVICES": "0,2"}, ["a", "c"]),
        ({"HIP_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": "0,9,1"}, ["a"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["b"]),
        ({"ROCR_VISIBLE_DEVICES": "c,1", "HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": ""}, ["b"]),
    ],
)
def test_variables_bound_what_hip_counts(environ: dict[str, str], left: list[str]) -> None:
    assert sight.visible(["a", "b", "c"], environ) == left


def test_a_whole_look_at_a_tree_without_a_driver(tmp_path: Path) -> None:
    instinct(tmp_path, 1, 128)
    write(tmp_path, "dev/kfd")
    write(tmp_path, "dev/dri/renderD128")
    seen = sight.look(tmp_path, {"HIP_VISIBLE_DEVICES": "0"})
    assert seen["drivers"] == {"rocm": ["GPU-00f1e2d3c4b5a697"]}
    assert seen["files"] == ["/dev/dri/renderD128", "/dev/kfd"]
    assert seen["problems"] == []
    assert read_sight(json.loads(json.dumps(seen))) is not None


def test_a_process_on_one_core_says_so_in_its_first_event(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        f"os.sched_setaffinity(0, [{core}])\n"
        "from incell.evidence import Evidence\n"
        "written = Evidence(Path(sys.argv[1]))\nwritten.start({})\nwritten.end()\n"
    )
    path = tmp_path / "evidence.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(Path(sight.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=environment)
    first = json.loads(path.read_text().splitlines()[0])
    assert (first["event"], first["sees"]["cores"]) == ("start", [core])


def test_a_host_without_nvidias_driver_is_a_problem_in_words() -> None:
    with pytest.raises(OSError, match=r"libno-such-cuda\.so"):
        cuda.devices("libno-such-cuda.so")
