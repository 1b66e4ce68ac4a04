"""What a person should do about this host: one line per problem, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runner.errors import PrepareError
from runner.hosts.devices import memory_gib
from runner.hosts.handover import hand_over
from runner.hosts.health import Condition, Reading, decide
from runner.hosts.offers import HostOffer
from runner.hosts.records import Holder, HolderState
from runner.hosts.topology import widest
from runner.machine import Device, Inventory
from runner.vendors import VENDORS

REMEDIES: tuple[tuple[str, str], ...] = (
    ("nvidia-ml-py is not installed", "install it beside the runner: pip install nvidia-ml-py"),
    ("no NVIDIA driver", "install the driver if this host has an NVIDIA GPU (`lspci | grep -i nvidia`)"),
    ("Driver/library version mismatch", "the driver was upgraded under a running kernel: reboot"),
    ("a GPU or the driver hangs", "see `dmesg | grep -i xid`; drain the host and reboot it"),
    ("hides every device", "unset the variable, or start on an agent that was granted devices"),
    ("names no device", "name devices as `nvidia-smi -L` lists them"),
    ("no AMD driver", "install amdgpu if this host has an AMD GPU (`lspci | grep -i amd`)"),
    ("/dev/kfd is not here", "pass --device /dev/kfd and the render nodes to this container"),
    ("no AMD GPU that this process may use", "hand the render nodes /dev/dri/renderD* to this container"),
)
"""Words of a reason, and what to do; the first that fits. A reason that holds its own remedy has no row."""

UNREMARKABLE = ("no NVIDIA driver", "no AMD driver")
"""Not problems: a host without that vendor's devices."""


def describe(inventory: Inventory) -> tuple[str, ...]:
    """The inventory for a person, one line a device."""
    cpu = inventory.cpu
    words = " ".join(cpu.facts)
    lines = [f"cpu   {cpu.model}, {len(cpu.cores)} cores, {cpu.memory_bytes / (1 << 30):.1f} GiB: {words}"]
    lines += [f"{device.platform:<5} {_device(device)}" for device in inventory.devices]
    lines += [f"{platform:<5} none: {reason}" for platform, reason in inventory.absent.items()]
    never = [
        VENDORS[name].never_ran for name in dict.fromkeys(device.platform for device in inventory.devices)
    ]
    return (*lines, *(f"note: {line}" for line in never if line))


def _device(device: Device) -> str:
    size = memory_gib(device)
    place = f"NUMA {device.numa_node}" if device.numa_node is not None else ""
    parts = (
        device.name,
        f"capability {device.capability}" if device.capability else device.gfx,
        f"{size} GiB" if size is not None else "memory unknown",
        device.pci,
        place,
        f"slice {device.slot} of {device.parent}" if device.parent else "",
    )
    return f"{device.index} {device.id}: " + ", ".join(filter(None, parts))


def problems(
    inventory: Inventory,
    *,
    offer: HostOffer | None = None,
    readings: Mapping[str, Reading] | None = None,
    holders: Iterable[Holder] = (),
) -> tuple[str, ...]:
    """Everything that is wrong, each with what to do; empty on a good host.

    ``offer`` is given where cells run in containers: then each device is checked for a way into one.
    """
    found = [_remedied(f"{name}: {why}") for name, why in inventory.absent.items() if _matters(why)]
    found += [_remedied(remark) for remark in inventory.remarks]
    if not inventory.boot_id:
        found.append(
            "the kernel's boot id cannot be read: leases of an earlier boot cannot be told; mount /proc"
        )
    if offer is not None:
        found += _ways(inventory.devices, offer)
    for reading in (readings or {}).values():
        decision = decide([reading], limit_s=0.0)
        if decision.condition is not Condition.CLEAN:
            found.append(f"{reading.device}: {decision.text}")
    for holder in holders:
        if holder.state is not HolderState.LIVE:
            found.append(f"{holder}: `clean` removes what still runs of it and frees it, or says why not")
    for platform in dict.fromkeys(device.platform for device in inventory.devices):
        mine = tuple(device for device in inventory.devices if device.platform == platform)
        if len(mine) > widest(mine):
            found.append(
                f"{platform}: {len(mine)} devices, but one cell gets {widest(mine)} at most"
                " (MIG slices do not combine, nor do different models)"
            )
    return tuple(found)


def _matters(reason: str) -> bool:
    return not reason.startswith(UNREMARKABLE)


def _remedied(line: str) -> str:
    remedy = next((remedy for words, remedy in REMEDIES if words in line), "")
    return f"{line}: {remedy}" if remedy else line


def _ways(devices: tuple[Device, ...], offer: HostOffer) -> list[str]:
    found: list[str] = []
    for device in devices:
        try:
            hand_over(VENDORS[device.platform], (device,), offer)
        except PrepareError as error:
            found.append(str(error))
            continue
        unreadable = [node for node in device.nodes if device.platform == "rocm" and node not in offer.groups]
        if unreadable:
            found.append(f"{device.id}: the group of {', '.join(unreadable)} cannot be read: check /dev/dri")
    return found
