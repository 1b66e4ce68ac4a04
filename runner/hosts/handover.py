"""How leased devices get into a cell, chosen by what the host offers and recorded by name.

A cell sees exactly its devices: by identity and never by host number where the way allows it, with one visible-devices
variable per vendor, counted from 0 inside; and a cell that leased none sees none, whatever its image asks for.
"""

from __future__ import annotations

from pathlib import Path

from runner.errors import PrepareError
from runner.facts import HandOver, Mount
from runner.hosts.cpu import format_cores
from runner.hosts.offers import HostOffer
from runner.machine import Device
from runner.model import Fault
from runner.vendors import VENDORS, Vendor

HIDE_NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""Keeps an engine whose default runtime is NVIDIA's from adding every GPU because the image says ``all``."""


def hand_over(
    vendor: Vendor,
    devices: tuple[Device, ...],
    offer: HostOffer,
    *,
    cores: tuple[int, ...] = (),
    ranks: int = 1,
) -> HandOver:
    """The hand-over of ``devices`` (or, for a vendor without accelerators, of ``cores``) to a container.

    Raises :class:`PrepareError` with fault ``device`` where no way is open, saying what to install.
    """
    if not vendor.accelerator or not devices:
        return _cores(vendor, cores, ranks)
    if vendor.name == "rocm":
        return _rocm(vendor, devices, offer, cores)
    return _nvidia(vendor, devices, offer, cores)


def hand_over_process(
    vendor: Vendor, devices: tuple[Device, ...], *, cores: tuple[int, ...] = (), ranks: int = 1
) -> HandOver:
    """The same for a process of this host (its environment is otherwise empty): one variable names the devices.

    Whole NVIDIA GPUs by number in PCI order, since engines parse the variable as numbers; MIG has identifiers only.
    """
    if not vendor.accelerator or not devices:
        return _cores(vendor, cores, ranks)
    numbers = ",".join(str(device.index) for device in devices)
    if vendor.name == "rocm":
        env = {"HIP_VISIBLE_DEVICES": numbers}
    elif any(device.parent for device in devices):
        env = {"CUDA_VISIBLE_DEVICES": ",".join(device.id for device in devices)}
    else:
        env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbers}
    return HandOver(how="process", env=_common_env(vendor, devices) | env, cpus=cores)


def rank_cores(cores: tuple[int, ...], ranks: int) -> str:
    """Cores shared out evenly, one set per rank: ``0|1``. Cores that do not divide evenly stay idle.

    Raises :class:`PrepareError` where there are fewer cores than ranks: two ranks on one core wait for each other.
    """
    each = len(cores) // ranks
    if each == 0:
        msg = f"{ranks} ranks need {ranks} cores and {len(cores)} are leased: give the cell more cores or a smaller tp"
        raise PrepareError(msg, Fault.DEVICE)
    return "|".join(format_cores(cores[rank * each : (rank + 1) * each]) for rank in range(ranks))


def hidden_env() -> dict[str, str]:
    """Variables that close off every accelerator of the host, of all vendors."""
    return {name: value for vendor in VENDORS.values() for name, value in vendor.hidden_env.items()}


def _cores(vendor: Vendor, cores: tuple[int, ...], ranks: int) -> HandOver:
    env = hidden_env()
    if vendor.rank_cores_env and cores:
        env[vendor.rank_cores_env] = rank_cores(cores, ranks)
    return HandOver(how="cores" if cores else "none", env=env, cpus=cores)


def _common_env(vendor: Vendor, devices: tuple[Device, ...]) -> dict[str, str]:
    sliced = any(device.parent for device in devices)
    return {**vendor.env, **(vendor.slice_env if sliced else {})}


def _nvidia(
    vendor: Vendor, devices: tuple[Device, ...], offer: HostOffer, cores: tuple[int, ...]
) -> HandOver:
    ids = tuple(device.id for device in devices)
    env = _common_env(vendor, devices)
    if offer.toolkit and all(each.startswith(("GPU-", "MIG-")) for each in ids):
        env["NVIDIA_VISIBLE_DEVICES"] = ",".join(ids)
        return HandOver(how="nvidia-runtime", gpu_ids=ids, env=env, ulimits=vendor.ulimits, cpus=cores)
    names = tuple(_cdi_name(device, offer) for device in devices)
    if all(names):
        return HandOver(how="cdi", cdi_names=names, env=env | HIDE_NVIDIA, ulimits=vendor.ulimits, cpus=cores)
    nodes = tuple(dict.fromkeys(node for device in devices for node in device.nodes))
    missing = _missing(devices, offer)
    if missing:
        msg = f"{', '.join(ids)} cannot be given to a container: {missing}"
        raise PrepareError(msg, Fault.DEVICE)
    return HandOver(
        how="nodes",
        nodes=nodes + tuple(node for node in offer.nodes if node in vendor.common_nodes),
        mounts=tuple(Mount(source=Path(host), target=cell) for host, cell in offer.driver),
        env={**env, **vendor.driver_env, **HIDE_NVIDIA},
        ulimits=vendor.ulimits,
        cpus=cores,
    )


def _missing(devices: tuple[Device, ...], offer: HostOffer) -> str:
    """Why naming nodes one by one does not work here, with the remedy; empty where it does."""
    remedy = "install the NVIDIA container toolkit and restart the engine (`nvidia-ctk runtime configure`)"
    if not offer.driver:
        return f"no toolkit, no CDI specification, and no folder of driver libraries; {remedy}"
    if any(not device.nodes for device in devices):
        return f"no toolkit, no CDI specification, and no device node; {remedy}"
    if any(device.parent and len(device.nodes) < 3 for device in devices):
        return f"a MIG slice needs its capability nodes under /dev/nvidia-caps, which are not here; {remedy}"
    return ""


def _cdi_name(device: Device, offer: HostOffer) -> str:
    """The name of a device in the engine's specifications: by identity, else by position (``0``, ``0:1`` for MIG)."""
    position = str(device.index) if device.slot is None else f"{device.index}:{device.slot}"
    wanted = (f"nvidia.com/gpu={device.id}", f"nvidia.com/gpu={position}")
    return next((name for name in wanted if name in offer.cdi), "")


def _rocm(vendor: Vendor, devices: tuple[Device, ...], offer: HostOffer, cores: tuple[int, ...]) -> HandOver:
    """``/dev/kfd`` and the leased render nodes; the cell's user joins their groups by number, names differ inside.

    The driver shows a container only the GPUs whose nodes it has, so numbering starts at 0. Only HIP's variable is
    set: ROCr's would renumber first, and the second filter would then point at nothing.
    """
    nodes = (*vendor.common_nodes, *(node for device in devices for node in device.nodes))
    absent = [node for node in vendor.common_nodes if node not in offer.nodes]
    if absent:
        msg = (
            f"{', '.join(absent)} is not here: install the amdgpu driver, or hand the node to this container"
        )
        raise PrepareError(msg, Fault.DEVICE)
    numbers = ",".join(map(str, range(len(devices))))
    return HandOver(
        how="kfd",
        nodes=nodes,
        group_ids=tuple(sorted({offer.groups[node] for node in nodes if node in offer.groups})),
        env=_common_env(vendor, devices) | {"HIP_VISIBLE_DEVICES": numbers} | HIDE_NVIDIA,
        ulimits=vendor.ulimits,
        cpus=cores,
    )
