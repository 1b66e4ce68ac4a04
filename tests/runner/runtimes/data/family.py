"""A cell whose processes are hard to find again. ``family.py OUT`` writes their ids to OUT/pids.txt and stays."""

import ctypes
import os
import sys
import time
from pathlib import Path


def forget_environment() -> None:
    """Write over the environment that others see, as setproctitle does (proc(5), stat fields 50 and 51)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    ctypes.memset(start, 0, end - start)


def child(*ways: str) -> int:
    """A child, or grandchild whose parent is gone, that stays."""
    told, tell = os.pipe()
    if os.fork() == 0:
        if "session" in ways:
            os.setsid()
        if "orphan" in ways and os.fork():
            os._exit(0)
        if "forgets" in ways:
            forget_environment()
        os.write(tell, str(os.getpid()).encode())
        time.sleep(600)
    return int(os.read(told, 20))


pids = [os.getpid(), child(), child("session"), child("session", "orphan"), child("orphan", "forgets")]
place = Path(sys.argv[1])
(place / "new").write_text(" ".join(map(str, pids)))
(place / "new").rename(place / "pids.txt")
time.sleep(600)
