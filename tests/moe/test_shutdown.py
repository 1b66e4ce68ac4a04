"""The last tests of a cell: the engine stops, says how long it took, and leaves neither process nor memory behind."""

from __future__ import annotations

import sys

import leftovers
import pytest
from session import Session

pytestmark = pytest.mark.engine

LONGEST = 120.0
"""Seconds; ROCm alone gives its engine 60 s of grace (vllm/v1/engine/utils.py, vLLM 0.32.0)."""


def test_shutdown_leaves_no_process(session: Session) -> None:
    """No worker, engine core or zombie parent survives."""
    seconds, left = session.close()
    sys.stdout.write(f"\nshutdown took {seconds:.2f} s\n")
    assert not left, f"still alive: {[(p.pid, p.name, p.state) for p in left]}"
    assert seconds < LONGEST


def test_shutdown_gives_memory_back(session: Session) -> None:
    """No shared memory file is left that was not there before and is not known, and device memory is back, NVML says."""
    session.close()
    if session.before.problem:
        sys.stdout.write(f"\ndevice memory was not asked: {session.before.problem}\n")
    sys.stdout.write(f"\nleft: {'; '.join(session.leavings) or 'nothing'}\n")
    unexpected = leftovers.unexpected(session.leavings)
    assert not unexpected, "; ".join(unexpected)
