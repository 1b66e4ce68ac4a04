"""Small questions about one device, asked in several files of this room."""

from __future__ import annotations

from runner.machine import Device, Inventory


def physical(device: Device) -> str:
    """Identity of the chip a device is, or is a slice of: what a lease of the whole device locks."""
    return device.parent or device.id


def memory_gib(device: Device) -> float | None:
    """Memory in GiB, one decimal, as requirement expressions compare it."""
    return None if device.memory_bytes is None else round(device.memory_bytes / (1 << 30), 1)


def of_platform(inventory: Inventory, platform: str) -> tuple[Device, ...]:
    """The devices of one platform, in inventory order."""
    return tuple(device for device in inventory.devices if device.platform == platform)
