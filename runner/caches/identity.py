"""What a kept layer is good for: whatever has another image, engine, driver or kind of device compiles anew."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from runner.facts import PreparedImage
from runner.machine import Inventory

PROBED = ("version", "commit", "torch", "capability")
"""Facts of an engine that tell one from another where an image's digest does not: engines mounted from the host."""


def identity(
    image: PreparedImage,
    probe: Mapping[str, object],
    inventory: Inventory,
    name: str,
    device_ids: tuple[str, ...],
) -> dict[str, str]:
    """What decides whether code that one cell compiled may serve another. ``name`` is the platform's.

    The processor counts on every platform: host code is compiled for the flags it has.
    """
    held = [device for device in inventory.devices if device.id in device_ids]
    kinds = sorted({f"{device.name} {device.capability or device.gfx}".strip() for device in held})
    return {
        "image": image.id or image.digest,
        "engine": image.engine_digest,
        "probed": " ".join(f"{key}={probe[key]}" for key in PROBED if probe.get(key)),
        "platform": name,
        "device": ", ".join(kinds),
        "driver": inventory.drivers.get(name, "") if held else "",
        "cpu": " ".join((platform.machine(), inventory.cpu.model, *sorted(inventory.cpu.facts))),
    }
