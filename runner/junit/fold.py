"""Folding: repeats of one test inside one file become one result. Pure.

A repeat has the same suite element, file attribute, classname and name. Tests without a name are never repeats.
"""

from __future__ import annotations

from array import array

from runner.junit.words import CRASHED, ERROR, FAILED, FLAKY, PASSED, TEARDOWN


def repeats(keys: array[int]) -> list[list[int]]:
    """Indices of elements that share a key, for each such key, in file order.

    A byte map of hash prefixes finds the few candidates first: memory stays at 8 bytes a test and a small table.
    """
    bits = len(keys).bit_length() + 4
    seen = bytearray(1 << bits)
    shift = 64 - bits
    suspects = set()
    for key in keys:
        slot = key >> shift
        if seen[slot]:
            suspects.add(key >> 3)
        else:
            seen[slot] = 1
    if not suspects:
        return []
    groups: dict[int, list[int]] = {}
    for index, key in enumerate(keys):
        if key >> 3 in suspects:
            groups.setdefault(key >> 3, []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def folded(codes: list[int], *, rerun: bool) -> int:
    """The result of one test from all its elements, in file order.

    A crash of the worker stands, whatever came later. The last attempt decides: a failure that is the last word
    stands, a failure before a pass is flaky, never a pass. ``rerun`` says that the header counts fewer tests than
    there are elements: then a plugin wrote an element for each attempt, and since the older pytest-rerunfailures
    forms leave those empty, several passes of one test mean that it failed before.
    """
    last = codes[-1]
    if CRASHED in codes:
        return CRASHED
    if max(codes) >= ERROR:
        if last in {PASSED, FLAKY}:
            return FLAKY
        tail: list[int] = []
        for code in reversed(codes):
            if code == PASSED and tail and max(tail) >= ERROR:
                break
            tail.append(code)
        return FAILED if FAILED in tail else ERROR
    if FLAKY in codes or (rerun and last == PASSED and codes.count(PASSED) > 1):
        return FLAKY
    return last


def attempts(codes: list[int], counts: list[int]) -> int:
    """How often a test ran: an error at teardown belongs to the element before it."""
    return sum(counts) - sum(code == TEARDOWN for code in codes[1:])
