"""Bounded fuzz: damaged reports are read or refused, never crash the reader, and never turn green.

The statement: take a report with failed tests whose headers count its tests and failures, and damage it in one place
(cut, delete, overwrite, flip, insert, copy or move a range). Then reading it raises :class:`BadReport`, or the result
still has a test that failed, broke or is flaky, or lost tests, or no passed test at all. Without header counts only the
first half can hold: then no exception but ``BadReport``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.errors import BadReport
from runner.facts import JUnitReport
from runner.junit import read_bytes

DATA = Path(__file__).parent / "data"
COUNTED = [
    "J01/xunit1.xml", "J01/xunit2.xml", "J02/suite-root.xml", "J02/case-under-root.xml", "J03/nested.xml",
    "J04/one-case.xml", "J04/two-cases.xml", "J06/reruns.xml", "J06/fail-then-pass.xml", "J07/surefire.xml",
    "J09/ctest.xml", "J11/bad-utf8.xml", "J11/charref.xml", "J11/esc.xml", "J11/nul.xml", "J16/honest.xml",
    "J19/nameless.xml", "J19/shard-1.xml", "J22/crash.xml", "J22/crash-then-pass.xml",
    "J23/subtests.xml", "E07/report.xml",
]  # fmt: skip
OTHERS = [
    "J02/two-suites.xml", "J02/case-root.xml", "J12/cut-in-tag.xml", "J16/bomb.xml", "J18/bom.xml", "J18/utf16-real.xml",
    "J18/utf16-lie.xml", "J18/latin1-declared.xml", "J18/utf8-alias.xml", "J21/times.xml", "J22/lost-tests.xml", "J26/empty.xml",
    "J26/all-skipped.xml",
]  # fmt: skip
ROUNDS = 120
NASTY = [
    b"\0",
    b"\x1b",
    b"\xff\xfe",
    b"<",
    b">",
    b'"',
    b"&",
    b"&#0;",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"/>",
    b"\xed\xa0\x80",
]

Damage = Callable[[random.Random, bytes], bytes]


def _range(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice([1, 1, 1, 2, 3, 8, 40, 200]))


def truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data.rstrip()))]


def delete(rng: random.Random, data: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + data[end:]


def overwrite(rng: random.Random, data: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def flip(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.choice(NASTY) + data[at:]


def copy(rng: random.Random, data: bytes) -> bytes:
    (start, end), at = _range(rng, data), rng.randrange(len(data))
    return data[:at] + data[start:end] + data[at:]


def move(rng: random.Random, data: bytes) -> bytes:
    (start, end), rest = _range(rng, data), b""
    rest = data[:start] + data[end:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[start:end] + rest[at:]


DAMAGES: list[Damage] = [truncate, delete, overwrite, flip, insert, copy, move]


def green(report: JUnitReport) -> bool:
    counts = report.tally
    return counts.passed > 0 and not (counts.failed or counts.errors or counts.flaky or report.lost)


def attempt(data: bytes) -> JUnitReport | None:
    try:
        return read_bytes(data)
    except BadReport as error:
        said = str(error)
    assert said.startswith("junit.xml")
    assert said.isprintable()
    return None


@pytest.mark.parametrize("name", COUNTED)
def test_damage_never_makes_a_pass(name: str) -> None:
    whole = (DATA / name).read_bytes()
    seed = attempt(whole)
    assert seed is not None
    assert not green(seed)
    rng = random.Random(name)
    survivors = 0
    for damage in DAMAGES:
        for _ in range(ROUNDS):
            report = attempt(data := damage(rng, whole))
            survivors += report is not None
            assert report is None or not green(report), data
            assert not (damage is truncate and report), data
    assert survivors > 50  # the damage is small enough that many files are still read


@pytest.mark.parametrize("name", OTHERS)
def test_damage_never_crashes_the_reader(name: str) -> None:
    whole = (DATA / name).read_bytes()
    rng = random.Random(name)
    for damage in DAMAGES:
        for _ in range(ROUNDS):
            attempt(damage(rng, whole))


def test_noise_is_refused() -> None:
    rng = random.Random(1)
    for size in range(1, 300):
        assert attempt(rng.randbytes(size)) is None
