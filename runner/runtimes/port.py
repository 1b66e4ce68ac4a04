"""A rendezvous port for each cell that shares the host's network, so that two of them never meet at torch's default."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PORTS: Final = range(20_000, 29_500)
"""Below torch's default (29500) and below what kernels hand out by themselves (ip_local_port_range, from 32768)."""
_numbers = itertools.count()


@contextmanager
def rendezvous_port() -> Iterator[int]:
    """A port that nobody listens on and no other living cell of this host was given. Raises :class:`OSError`."""
    first = (os.getpid() * 37 + next(_numbers)) % len(PORTS)
    for offset in range(len(PORTS)):
        port = PORTS[(first + offset) % len(PORTS)]
        with socket.socket(socket.AF_UNIX) as mine:
            with socket.socket() as probe:
                try:
                    # A name in the abstract namespace (unix(7)) is a lock that goes with its holder, however that ends.
                    mine.bind(f"\0vllm-matrix-port-{port}")
                    probe.bind(("", port))
                except OSError:
                    continue
            yield port
            return
    message = f"no free port between {PORTS.start} and {PORTS.stop}"
    raise OSError(errno.EADDRINUSE, message)
