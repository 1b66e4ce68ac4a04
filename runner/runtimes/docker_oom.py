"""Whether memory ran out in a container: 137 alone does not say so, and the engine's flag alone is not enough.

The flag can be false after a real kill (a child under cgroup v2: moby/moby#38352) and true although the main process
ended well. So the engine's flag, its ``oom`` events and the kernel's own counter of the container's cgroup are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.runtimes.docker_client import Engine
from runner.runtimes.docker_errors import EngineError

# cgroup v2 with the systemd and the cgroupfs driver, then v1: folder under /sys/fs/cgroup, file with "oom_kill N".
_PLACES = (
    ("system.slice/docker-{id}.scope", "memory.events"),
    ("docker/{id}", "memory.events"),
    ("memory/docker/{id}", "memory.oom_control"),
)


class KernelCount:
    """The kernel's count of out-of-memory kills in a container; its file is gone with the container, so read often."""

    def __init__(self, container: str, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._files = [root / place.format(id=container) / name for place, name in _PLACES]
        self.kills = 0

    def read(self) -> None:
        """Read it once more; no cgroup here (a remote engine, no access) is no error."""
        for file in self._files:
            try:
                words = dict(line.split(maxsplit=1) for line in file.read_text(encoding="ascii").splitlines())
            except OSError:
                continue
            self.kills = max(self.kills, int(words.get("oom_kill", "0")))
            return


def out_of_memory(engine: Engine, container: str, state: Mapping[str, Any], kernel: KernelCount) -> bool:
    """Whether the kernel killed something in this container for lack of memory."""
    if state.get("OOMKilled") or kernel.kills:
        return True
    if int(state.get("ExitCode", 0)) == 0:
        return False
    try:
        return engine.out_of_memory(container, str(state["StartedAt"]), str(state["FinishedAt"]))
    except EngineError:
        return False
