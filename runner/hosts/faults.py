"""Words by which a device fails at the start of a cell, and what they mean for the next cells of this host.

Read-only, after the fact: a table in order, first match wins. Sources: the threads named per row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFault:
    """One way to fail. ``retry_same_host``: a new container may work; ``ours``: this program asked wrongly.

    ``one_device``: the others of this host are not affected.
    """

    pattern: str
    hint: str
    one_device: bool = False
    retry_same_host: bool = False
    ours: bool = False


FAULTS: tuple[DeviceFault, ...] = (
    # NVIDIA/nvidia-docker#1352
    DeviceFault(
        pattern=r'could not select device driver "cdi"',
        hint="CDI is not enabled in this engine: set features.cdi in its daemon.json, or use the container toolkit",
    ),
    # moby/moby#47633
    DeviceFault(
        pattern=r'could not select device driver ""',
        hint="the NVIDIA container toolkit is missing, or the engine was not restarted after it was installed",
    ),
    DeviceFault(
        pattern=r"cannot set both Count and DeviceIDs",
        hint="the device request is wrong, not the host: please report this",
        ours=True,
    ),
    # NVIDIA/nvidia-container-toolkit#203
    DeviceFault(
        pattern=r"unresolvable CDI devices|CDI device injection failed",
        hint="the CDI specification is stale: run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        one_device=True,
    ),
    # NVIDIA/nvidia-docker#1642
    DeviceFault(
        pattern=r"nvidia-container-cli: device error: .*unknown device",
        hint="the device id is stale: the host changed since the inventory was read, start the run again",
        one_device=True,
    ),
    DeviceFault(
        pattern=r"nvidia-container-cli: initialization error",
        hint="the NVIDIA driver is not loaded on this host: see `nvidia-smi` and `dmesg`",
    ),
    DeviceFault(
        pattern=r'adding custom device "/dev/(kfd|dri/\w+)": no such file',
        hint="there is no ROCm driver on this host, or the device is not handed to this container",
    ),
    DeviceFault(
        pattern=r'adding custom device "/dev/nvidia[\w/-]*": no such file',
        hint="the NVIDIA device node is gone: see `nvidia-smi` and `dmesg`",
        one_device=True,
    ),
    # NVIDIA/nvidia-container-toolkit#48
    DeviceFault(
        pattern=r"Failed to initialize NVML: Unknown Error",
        hint="the container lost its devices (the engine or systemd was reloaded); a new container gets them back",
        retry_same_host=True,
    ),
    DeviceFault(
        pattern=r"Unable to open /dev/kfd read-write: Permission denied",
        hint="the cell's user needs the numeric ids of the host groups render and video",
    ),
    DeviceFault(
        pattern=r"No HIP GPUs are available",
        hint="visible-devices variables filter twice: set only HIP_VISIBLE_DEVICES, counted from 0",
    ),
)


def device_fault(text: str) -> DeviceFault | None:
    """The first row that fits an engine's message or a cell's log; None where it is no fault of a device."""
    return next((fault for fault in FAULTS if re.search(fault.pattern, text)), None)
