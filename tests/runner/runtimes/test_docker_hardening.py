"""The hardened defaults, seen from inside a cell."""

from __future__ import annotations

import os
from typing import Any

import pytest

from runner.facts import CellExit, PreparedImage, Runtime
from runner.model import Limits, Stop
from runner.runtimes import CELL, OWNER_PID, RUN
from runner.runtimes.docker_client import connect

pytestmark = pytest.mark.docker


class Forever:
    def poll(self, elapsed_s: float) -> Stop | None:
        return None


@pytest.fixture
def inside(docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any) -> Any:
    def run_script(script: str, **changes: Any) -> tuple[CellExit, str]:
        spec = make_spec("sh", "-c", script, image=cheap_image.ref, **changes)
        done = docker_runtime.run(spec, Forever())
        return done, spec.log_path.read_text()

    return run_script


def test_there_is_no_network_but_loopback(inside: Any) -> None:
    done, said = inside("ls /sys/class/net; cat /proc/net/route | wc -l")
    assert done.exit_code == 0
    assert said.split() == ["lo", "1"]  # the one line is the table's header


def test_the_root_is_read_only_and_tmp_is_a_bounded_tmpfs_that_runs_programs(inside: Any) -> None:
    script = (
        "touch /x 2>/dev/null && echo WROTE; touch /opt/x 2>/dev/null && echo WROTE; pwd; "
        "grep ' /tmp ' /proc/mounts; cp /bin/true /tmp/t && /tmp/t && echo ran"
    )
    done, said = inside(script)
    lines = said.splitlines()
    assert done.exit_code == 0
    assert (lines[0], lines[-1], "WROTE" in said) == ("/tmp", "ran", False)
    assert "tmpfs" in lines[1]
    assert "size=2097152k" in lines[1]
    assert "nosuid,nodev" in lines[1]


def test_no_capability_is_left_and_none_can_be_gained(inside: Any) -> None:
    _, said = inside("grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status")
    facts = dict(line.split(":\t") for line in said.splitlines())
    assert {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")


def test_the_user_is_not_root_and_a_mount_is_read_only(inside: Any) -> None:
    _, said = inside("id -u; touch /data/x 2>&1 | grep -c 'Read-only'; ls -d /proc/[0-9]* | wc -l")
    uid, read_only, processes = map(int, said.split())
    assert uid == (65532 if os.getuid() == 0 else os.getuid())
    assert read_only == 1
    assert processes < 8  # the host's are not seen


def test_the_number_of_processes_is_limited(inside: Any) -> None:
    script = "i=0; while [ $i -lt 60 ]; do sleep 2 & i=$((i+1)); done 2>&1; wait"
    _, said = inside(script, limits=Limits(pids=20))
    assert "Cannot fork" in said or "Resource temporarily unavailable" in said


def test_shared_memory_has_the_size_asked_for_and_core_files_are_off(inside: Any) -> None:
    _, said = inside("df -k /dev/shm | tail -1; ulimit -c", limits=Limits(shm_bytes=64 << 20))
    shm, core = said.splitlines()
    assert shm.split()[1] == "65536"
    assert core == "0"


def test_a_container_says_whose_it_is_and_keeps_little_output(
    docker_runtime: Runtime, cheap_image: PreparedImage, make_spec: Any
) -> None:
    spec = make_spec("sleep", "20", image=cheap_image.ref)
    facts: dict[str, Any] = {}

    class Looks:
        def poll(self, elapsed_s: float) -> Stop | None:
            with connect() as engine:
                facts.update(engine.inspect(spec.name))
            return Stop.CANCELLED

    docker_runtime.run(spec, Looks())
    labels = facts["Config"]["Labels"]
    host = facts["HostConfig"]
    assert (labels[RUN], labels[CELL], labels[OWNER_PID]) == (
        spec.labels[RUN],
        spec.labels[CELL],
        str(os.getpid()),
    )
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": str(10 << 20), "max-file": "2"}}
    assert (host["Privileged"], host["NetworkMode"], host["Init"]) == (False, "none", True)
    assert (host["Memory"], host["MemorySwap"]) == (256 << 20, 256 << 20)
