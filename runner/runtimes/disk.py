"""Whether what is about to be made fits on the disk, asked before and not after."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runner.errors import PrepareError
from runner.model import Culprit, Fault

PULL_GIB: Final = 30.0
"""Room for a pull, GiB: a registry says how large an image is only when it sends it. Official vLLM images take 20 to 30."""
PULL_VARIABLE: Final = "VLLM_MATRIX_PULL_GIB"
"""The environment variable that says it for other images."""
_CONTAINERD: Final = Path("/var/lib/containerd")
"""Where an engine with containerd's image store keeps layers, unless it starts a containerd of its own."""


def need_of(dockerfile: str, label: str) -> int:
    """Bytes that a Dockerfile states under a label; 0 where it states none."""
    match = re.search(rf"{re.escape(label)}=\"?(\d+)", dockerfile)
    return int(match[1]) if match else 0


def need_of_pull(environ: Mapping[str, str]) -> int:
    """Bytes that must be free before a pull. Raises :class:`PrepareError` for a variable that is no number."""
    text = environ.get(PULL_VARIABLE, "")
    try:
        gib = float(text) if text else PULL_GIB
        return int(gib * (1 << 30))
    except (ValueError, OverflowError):
        message = f"{PULL_VARIABLE}={text!r} is no number of GiB"
        raise PrepareError(message, Fault.BUILD, culprit=Culprit.CONFIG) from None


def stores(info: Mapping[str, Any]) -> tuple[Path, ...]:
    """Folders of an engine's images, by what it says of itself; none that is not here: a remote engine's is not ours."""
    places = [Path(str(info.get("DockerRootDir", "")))]
    if any("io.containerd.snapshotter" in str(row) for row in info.get("DriverStatus") or ()):
        places.append(_CONTAINERD)
    return tuple(place for place in places if place.is_absolute() and place.exists())


def check_free(folder: Path, need_bytes: int, what: str, remedy: str = "") -> None:
    """Raise :class:`PrepareError` (disk) where a folder's file system has less free space than needed."""
    here = folder
    while not here.exists():
        here = here.parent
    free = shutil.disk_usage(here).free
    if free < need_bytes:
        remedy = remedy or "move the data to a larger disk"
        message = f"{what} needs {_gib(need_bytes)} free on the disk of {here}, which has {_gib(free)}: make room, or {remedy}"
        raise PrepareError(message, Fault.DISK)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB"
