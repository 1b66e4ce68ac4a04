"""What a host offers for getting a device into a container: toolkit, CDI specifications, driver libraries, groups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runner.hosts.sources import Source
from runner.machine import Device
from runner.vendors import VENDORS

TOOLKIT_HOOKS = (
    "/usr/bin/nvidia-container-runtime-hook",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime-hook",
)
"""Docker answers device requests only where it finds this program (``daemon/nvidia_linux.go``)."""

LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOffer:
    """The ways that are open on this host.

    ``toolkit``: the engine answers NVIDIA device requests. ``cdi``: fully qualified CDI names the engine resolves.
    ``driver``: (host path, path in the cell) of driver libraries, for cells without either. ``groups``: numeric
    group of each device node. ``nodes``: device nodes common to all cells of a vendor that exist here.
    """

    toolkit: bool = False
    cdi: tuple[str, ...] = ()
    driver: tuple[tuple[str, str], ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()


def offer(
    source: Source,
    devices: tuple[Device, ...],
    *,
    runtimes: tuple[str, ...] = (),
    cdi_dirs: tuple[str, ...] = (),
) -> HostOffer:
    """Look at a host. ``runtimes`` and ``cdi_dirs`` are what the engine says of itself (``docker info``).

    An engine without CDI names no folders, and then its specifications on disk do not count.
    """
    platforms = {device.platform for device in devices}
    common = [
        node for name in sorted(platforms) for node in VENDORS[name].common_nodes if source.exists(node)
    ]
    nodes = (*common, *(node for device in devices for node in device.nodes))
    groups = {node: group for node in nodes if (group := source.group(node)) is not None}
    return HostOffer(
        toolkit="nvidia" in runtimes or any(map(source.exists, TOOLKIT_HOOKS)),
        cdi=tuple(dict.fromkeys(name for folder in cdi_dirs for name in _cdi_names(source, folder))),
        driver=_driver(source) if "cuda" in platforms else (),
        groups=groups,
        nodes=tuple(common),
    )


def _cdi_names(source: Source, folder: str) -> Iterator[str]:
    """Names in a folder of CDI specifications, JSON or YAML (CDI specification 0.x: ``kind``, ``devices[].name``).

    Of the YAML only the lines that carry names are read, as ``nvidia-ctk cdi generate`` writes them.
    """
    for name in source.names(folder):
        text = source.text(f"{folder}/{name}") or ""
        if name.endswith(".json"):
            try:
                spec = json.loads(text)
                yield from (f"{spec['kind']}={each['name']}" for each in spec["devices"])
            except (ValueError, KeyError, TypeError):
                continue  # not a specification; the engine skips it as well
        elif name.endswith((".yaml", ".yml")):
            kind = re.search(r"^kind:\s*[\"']?([\w./-]+)", text, re.MULTILINE)
            devices = re.findall(r"^(?:  )?(?:- |  )name:\s*[\"']?([\w.:-]+)[\"']?\s*$", text, re.MULTILINE)
            yield from (f"{kind[1]}={device}" for device in devices if kind)


def _driver(source: Source) -> tuple[tuple[str, str], ...]:
    vendor = VENDORS["cuda"]
    for host, cell in vendor.driver_folders:
        if any(source.exists(f"{host}/{library}/libcuda.so.1") for library in ("lib64", "lib")):
            return ((host, cell),)
    for folder in LIBRARY_FOLDERS:
        if source.exists(f"{folder}/libcuda.so.1"):
            found = [name for name in vendor.driver_files if source.exists(f"{folder}/{name}")]
            return tuple((f"{folder}/{name}", f"/usr/local/nvidia/lib64/{name}") for name in found)
    return ()
