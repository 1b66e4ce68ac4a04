"""AMD devices of a host, from the kernel driver's files alone.

Formats: ``drivers/gpu/drm/amd/amdkfd/kfd_topology.c`` (the files under ``/sys/class/kfd/kfd/topology``) and
``kfd_crat.h`` (types of links and memory banks). Written from these; the path has never run on hardware.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runner.hosts.nvidia import Found
from runner.hosts.sources import Source
from runner.machine import Device, Link

NODES = "/sys/class/kfd/kfd/topology/nodes"
LINK_XGMI = 11
"""``CRAT_IOLINK_TYPE_XGMI``."""

HEAPS_ON_DEVICE = (1, 2)
"""``HSA_MEM_HEAP_TYPE_FB_PUBLIC`` and ``_FB_PRIVATE``: memory of the device itself."""

PRODUCTS: Mapping[int, str] = {
    0x7408: "AMD Instinct MI250X",
    0x740C: "AMD Instinct MI250X",
    0x740F: "AMD Instinct MI210",
    0x74A0: "AMD Instinct MI300A",
    0x74A1: "AMD Instinct MI300X",
    0x74A5: "AMD Instinct MI325X",
    0x74A9: "AMD Instinct MI300X HF",
    0x74B5: "AMD Instinct MI300X VF",
    0x75A0: "AMD Instinct MI350X",
    0x75A3: "AMD Instinct MI355X",
}
"""PCI device ids of Instinct parts (pci.ids): used where the board's own product name is not written."""


@dataclass(frozen=True, slots=True)
class _KfdNode:
    """One GPU node of the topology, before identity is settled."""

    number: int
    properties: Mapping[str, int]
    name: str
    memory_bytes: int
    xgmi_to: tuple[int, ...]

    @property
    def pci(self) -> str:
        """Domain, bus, device and function; bits 28 to 31 of ``location_id`` number the partition."""
        place = self.properties.get("location_id", 0)
        bus, device, function = place >> 8 & 0xFF, place >> 3 & 0x1F, place & 7
        return f"{self.properties.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}"

    @property
    def partition(self) -> int:
        return self.properties.get("location_id", 0) >> 28 & 0xF


def gfx_name(version: int) -> str:
    """``gfx_target_version`` 90402 is gfx942: major in tens of thousands, minor and stepping as hex digits."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def read_amd(source: Source) -> Found:
    """Devices with compute units and a render node that this process has, in the order of the topology."""
    driver = (source.text("/sys/module/amdgpu/version") or "").strip()
    if not source.exists("/dev/kfd") and not source.names(NODES):
        return Found(absent="no AMD driver on this host (no /dev/kfd)", driver=driver)
    if not source.exists("/dev/kfd"):
        return Found(
            absent="the AMD driver is loaded, but /dev/kfd is not here: hand it to this container or pod"
        )
    nodes = [node for name in source.names(NODES) if name.isdigit() and (node := _node(source, int(name)))]
    nodes.sort(key=lambda node: node.number)
    shared = Counter(node.pci for node in nodes)
    numbers: dict[int, Device] = {}
    remarks: list[str] = []
    for node in nodes:
        render = f"/dev/dri/renderD{node.properties['drm_render_minor']}"
        if not source.exists(render):
            remarks.append(
                f"{node.pci} is left out: its render node {render} is not here (granted to another?)"
            )
            continue
        numbers[node.number] = _device(source, node, render, len(numbers), sliced=shared[node.pci] > 1)
    devices = tuple(
        replace(device, links=_links(node, numbers)) for node in nodes if (device := numbers.get(node.number))
    )
    reason = (
        "" if devices else "no AMD GPU that this process may use" + (f": {remarks[0]}" if remarks else "")
    )
    return Found(devices=devices, absent=reason, driver=driver, remarks=tuple(remarks))


def _node(source: Source, number: int) -> _KfdNode | None:
    """A GPU of the topology. CPU nodes have no SIMDs; a node that a device filter hides reads as empty."""
    properties = _numbers(source.text(f"{NODES}/{number}/properties"))
    if not properties.get("simd_count") or properties.get("drm_render_minor", 0) <= 0:
        return None
    banks = [
        _numbers(source.text(f"{NODES}/{number}/mem_banks/{each}/properties"))
        for each in source.names(f"{NODES}/{number}/mem_banks")
    ]
    links = [
        _numbers(source.text(f"{NODES}/{number}/{kind}/{each}/properties"))
        for kind in ("io_links", "p2p_links")
        for each in source.names(f"{NODES}/{number}/{kind}")
    ]
    return _KfdNode(
        number=number,
        properties=properties,
        name=(source.text(f"{NODES}/{number}/name") or "").strip(),
        memory_bytes=sum(
            bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in HEAPS_ON_DEVICE
        ),
        xgmi_to=tuple(
            link["node_to"] for link in links if link.get("type") == LINK_XGMI and "node_to" in link
        ),
    )


def _numbers(text: str | None) -> dict[str, int]:
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _device(source: Source, node: _KfdNode, render: str, index: int, *, sliced: bool) -> Device:
    """Identity as ROCr writes it (``GPU-`` and 16 hex digits); partitions of one chip add their number."""
    unique = node.properties.get("unique_id", 0)
    chip = f"GPU-{unique:016x}" if unique else f"pci-{node.pci}"
    numa = (source.text(f"/sys/bus/pci/devices/{node.pci}/numa_node") or "").strip()
    product = (source.text(f"/sys/class/drm/{render.rpartition('/')[2]}/device/product_name") or "").strip()
    return Device(
        platform="rocm",
        index=index,
        id=f"{chip}/{node.partition}" if sliced else chip,
        name=product or PRODUCTS.get(node.properties.get("device_id", 0), node.name),
        memory_bytes=node.memory_bytes or None,
        nodes=(render,),
        pci=node.pci,
        numa_node=int(numa) if numa.isdigit() else None,
        parent=chip if sliced else "",
        slot=node.partition if sliced else None,
        gfx=gfx_name(node.properties.get("gfx_target_version", 0)),
    )


def _links(node: _KfdNode, devices: Mapping[int, Device]) -> tuple[Link, ...]:
    mine = devices[node.number]
    found: list[Link] = []
    for number, other in devices.items():
        if number == node.number:
            continue
        if other.parent and other.parent == mine.parent:
            found.append(Link(to=other.id, kind="partition"))
        elif number in node.xgmi_to:
            found.append(Link(to=other.id, kind="xgmi"))
    return tuple(found)
