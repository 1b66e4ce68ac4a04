"""The devices that NVIDIA's driver counts for this process: a script, run as a process of its own by `sight`.

It prints one JSON object, `{"devices": [identities]}` or `{"problem": text}`. CUDA's driver API is asked, not NVML: it alone
heeds CUDA_VISIBLE_DEVICES as the engine's own processes will. `cuDeviceGetUuid_v2` (driver 470 and later) gives a slice's
own identity where the device is one.
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid

NO_DEVICE = 100
"""`CUDA_ERROR_NO_DEVICE` (cuda.h): the driver is here and counts none for this process."""


def devices(library: str = "libcuda.so.1") -> list[str]:
    """Identities as NVML writes them, in the order of their numbers. Raises OSError: no driver, or an error of it."""
    driver = ctypes.CDLL(library)
    count = ctypes.c_int()
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGetCount", (ctypes.byref(count),))):
        code = getattr(driver, name)(*arguments)
        if code == NO_DEVICE:
            return []
        if code:
            msg = f"{name} failed with CUDA error {code}"
            raise OSError(msg)
    return [_identity(driver, number) for number in range(count.value)]


def _identity(driver: ctypes.CDLL, number: int) -> str:
    device = ctypes.c_int()
    name, identity = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16)
    codes = (
        driver.cuDeviceGet(ctypes.byref(device), number),
        driver.cuDeviceGetName(name, len(name), device),
        driver.cuDeviceGetUuid_v2(identity, device),
    )
    if any(codes):
        msg = f"device {number} does not say its identity: CUDA errors {codes}"
        raise OSError(msg)
    kind = "MIG" if b" MIG " in name.value else "GPU"
    return f"{kind}-{uuid.UUID(bytes=identity.raw)}"


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps({"devices": devices()}))
    except (OSError, AttributeError) as error:
        sys.stdout.write(json.dumps({"problem": str(error)}))
