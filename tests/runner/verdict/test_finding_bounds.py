"""Long lines, many processes and any text: the reader is bounded and never raises."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.verdict import find_cause
from runner.verdict.causes import MEANINGS
from runner.verdict.lines import HEAD_CHARS
from tests.runner.verdict.logs import FRAME, TRACE, error_log
from tests.runner.verdict.test_causes import KNOWN


def test_only_the_head_of_a_long_line_is_looked_at() -> None:
    far = "x" * HEAD_CHARS + "EADDRINUSE"
    assert find_cause([far]) is None
    assert find_cause(["x" * (HEAD_CHARS - 10) + "EADDRINUSE"]) is not None


def test_c08_a_line_of_3_megabytes_is_shown_cut() -> None:
    found = find_cause(error_log("Worker_TP0", 1, TRACE, FRAME, "ValueError: " + "a" * 3_000_000))
    assert found is not None
    assert len(found.line) == 300
    assert found.line.endswith("\N{HORIZONTAL ELLIPSIS}")


class _CountingLines:
    """A log that says how far it was read, to show that lines are taken one by one."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __iter__(self) -> _CountingLines:
        return self

    def __next__(self) -> str:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return f"(Worker_TP{self.left} pid={self.left}) ERROR 11-30 12:40:38 [x.py:1] {TRACE}"


def test_state_is_bounded_though_every_line_is_of_another_process() -> None:
    from runner.verdict.finding import _Scan
    from runner.verdict.lines import read_line

    scan = _Scan()
    for number, text in enumerate(_CountingLines(2000)):
        for line in read_line(text):
            scan.take(line, number)
    assert len(scan.traces) == 256
    assert len(scan.ranks) == 256


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                (
                    TRACE,
                    FRAME,
                    "KeyError: 1",
                    "E   X: y",
                    "During handling of the above exception, x",
                    "Y:",
                    "\r",
                    "[rank0]: ",
                )
            ),
            st.sampled_from([line for _, line in KNOWN]),
        ),
        max_size=12,
    )
)
def test_no_text_makes_the_reader_raise(lines: list[str]) -> None:
    found = find_cause(lines)
    if found is not None:
        assert found.kind in {*MEANINGS, "error"}
        assert len(found.line) <= 300
        assert "\n" not in found.line
