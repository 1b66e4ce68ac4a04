"""What a cell becomes as a container: hardened defaults, as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.facts import CellSpec, HandOver, Mount
from runner.vendors import CACHE_DIR

OUT = "/out"
"""Where a cell sees its ``out_dir``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardening:
    """Limits of every container that no matrix file sets.

    ``tmp_bytes`` bounds the tmpfs at ``/tmp`` (executable: compilers of kernels load what they write there).
    ``log_bytes`` and ``log_files`` bound what the engine keeps of a container's output beside our own log.
    """

    tmp_bytes: int = 2 << 30
    log_bytes: int = 10 << 20
    log_files: int = 2


def container_config(
    spec: CellSpec, *, user: str, labels: Mapping[str, str], hardening: Hardening = Hardening()
) -> dict[str, Any]:
    """The body of ``POST /containers/create`` (Docker Engine API 1.40 and later)."""
    hand = spec.hand_over
    environment = {**spec.env, **hand.env}
    return {
        "Image": spec.image,
        "Cmd": list(spec.argv),
        "Entrypoint": [],  # argv is the whole command, whatever the image would put before it
        "User": user,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": {**spec.labels, **labels},
        "WorkingDir": "/tmp",  # noqa: S108 - a path inside the container, on its own tmpfs
        "NetworkDisabled": True,
        "Tty": False,
        "OpenStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": _host_config(spec, hardening),
    }


def _host_config(spec: CellSpec, hardening: Hardening) -> dict[str, Any]:
    hand, limits = spec.hand_over, spec.limits
    own = [Mount(source=spec.out_dir, target=OUT, read_only=False)]
    if spec.cache_dir is not None:
        own.append(Mount(source=spec.cache_dir, target=CACHE_DIR, read_only=False))
    config: dict[str, Any] = {
        "Init": True,
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "PidsLimit": limits.pids,
        "ShmSize": limits.shm_bytes,
        "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={hardening.tmp_bytes}"},  # noqa: S108
        "Ulimits": [
            {"Name": name, "Soft": value, "Hard": value}
            for name, value in {"core": 0, **hand.ulimits}.items()
        ],
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": str(hardening.log_bytes), "max-file": str(hardening.log_files)},
        },
        "Mounts": [_mount(mount) for mount in (*own, *spec.mounts, *hand.mounts)],
        **_devices(hand),
    }
    if limits.memory_bytes is not None:
        # Equal limits: no swap, so a cell that needs too much ends at once instead of slowing down the host.
        config |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if hand.cpus:
        config["CpusetCpus"] = ",".join(map(str, hand.cpus))
    return config


def _devices(hand: HandOver) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if hand.nodes:
        config["Devices"] = [
            {"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rw"} for node in hand.nodes
        ]
    requests = []
    if hand.gpu_ids:
        requests.append({"DeviceIDs": list(hand.gpu_ids), "Capabilities": [["gpu"]]})
    if hand.cdi_names:
        requests.append({"Driver": "cdi", "DeviceIDs": list(hand.cdi_names)})
    if requests:
        config["DeviceRequests"] = requests
    if hand.group_ids:
        config["GroupAdd"] = [str(group) for group in hand.group_ids]
    return config


def _mount(mount: Mount) -> dict[str, Any]:
    # "bind" mounts, unlike the older "binds", fail where the source is missing instead of making a folder as root.
    source = str(mount.source.absolute())
    return {"Type": "bind", "Source": source, "Target": mount.target, "ReadOnly": mount.read_only}
