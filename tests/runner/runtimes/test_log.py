from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.runtimes.log import CappedLog


def written(path: Path, cap: int, pieces: list[bytes]) -> CappedLog:
    log = CappedLog(path, cap)
    for piece in pieces:
        log.write(piece)
    log.close()
    return log


@pytest.mark.parametrize("size", [0, 1, 499, 500, 501, 999, 1000])
def test_up_to_the_cap_the_file_is_what_was_written(tmp_path: Path, size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    log = written(tmp_path / "log", 1000, [data])
    assert (tmp_path / "log").read_bytes() == data
    assert (log.total_bytes, log.cut_bytes) == (size, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_beyond_the_cap_head_and_tail_are_kept_and_one_line_says_how_much_is_not(tmp_path: Path) -> None:
    lines = [f"line {number:06d}\n".encode() for number in range(1000)]
    log = written(tmp_path / "log", 1200, lines)
    kept = (tmp_path / "log").read_bytes().splitlines()
    assert kept[0] == b"line 000000"
    assert kept[-1] == b"line 000999"
    marks = [line for line in kept if b"left out" in line]
    assert marks == [f"[... {log.cut_bytes} bytes left out here ...]".encode()]
    assert log.total_bytes == 12_000
    whole = sum(len(line) for line in lines) - log.cut_bytes
    assert len((tmp_path / "log").read_bytes()) == whole + len(marks[0]) + 2


@given(
    pieces=st.lists(st.binary(max_size=70), max_size=30),
    cap=st.integers(min_value=2, max_value=400),
)
def test_what_is_kept_and_what_is_cut_make_up_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cap: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    log = written(path, cap, pieces)
    data, kept = b"".join(pieces), path.read_bytes()
    assert log.total_bytes == len(data)
    if log.cut_bytes == 0:
        assert kept == data
        return
    mark = f"\n[... {log.cut_bytes} bytes left out here ...]\n".encode()
    head = kept[: cap // 2]
    assert data.startswith(head)
    assert kept[len(head) :].startswith(mark)
    tail = kept[len(head) + len(mark) :]
    assert data.endswith(tail)
    assert len(head) + len(tail) + log.cut_bytes == len(data)
    assert len(head) + len(tail) <= cap


def test_the_output_is_on_the_disk_before_the_log_is_closed(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", 20)
    log.write(b"first")
    assert (tmp_path / "log").read_bytes() == b"first"
    log.write(b" and more than half of the cap")
    assert (tmp_path / "log").read_bytes() == b"first and "
    assert re.search(rb"the cap", (tmp_path / "log.tail").read_bytes() * 2)
    log.close()


def test_late_output_of_a_closed_log_is_dropped(tmp_path: Path) -> None:
    log = written(tmp_path / "log", 100, [b"kept"])
    log.write(b"late")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"kept"


def test_the_tail_of_one_very_long_line_is_kept(tmp_path: Path) -> None:
    log = written(tmp_path / "log", 1 << 20, [b"a" * (3 << 20), b"END\n"])
    kept = (tmp_path / "log").read_bytes()
    assert kept.endswith(b"aaaEND\n")
    assert log.cut_bytes == (3 << 20) + 4 - (1 << 20)


class Upper:
    """A filter that keeps one byte back."""

    def __init__(self) -> None:
        self.kept = b""

    def feed(self, data: bytes) -> bytes:
        data, self.kept = self.kept + data[:-1], data[-1:]
        return data.upper()

    def close(self) -> bytes:
        return self.kept.upper()


def test_output_passes_the_filter_and_what_it_keeps_back_comes_at_the_end(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "log", 100, Upper())
    log.write(b"abc")
    log.write(memoryview(b"de"))
    assert (tmp_path / "log").read_bytes() == b"ABCD"
    log.close()
    assert (tmp_path / "log").read_bytes() == b"ABCDE"
    assert (log.taken_bytes, log.total_bytes) == (5, 5)
