"""Progress: one flushed line per event without a terminal; a live view that leaves its lines behind with one."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace

import pytest

from runner.model import Culprit, Outcome, Verdict
from runner.records import CellRecord
from runner.report import LineProgress, LiveProgress, progress
from tests.runner.report import factory as make


class _Stream(io.StringIO):
    """Counts what was flushed, and may call itself a terminal."""

    def __init__(self, *, tty: bool = False) -> None:
        super().__init__()
        self.tty = tty
        self.flushed = ""

    def isatty(self) -> bool:
        return self.tty

    def flush(self) -> None:
        self.flushed = self.getvalue()


def test_lines_are_flushed_one_by_one_with_time_outcome_and_cause() -> None:
    stream = _Stream()
    ticks = itertools.count(0, 5)
    bad = make.record(
        make.short(1, "quark_int8"),
        Outcome.INFRA,
        culprit=Culprit.HOST,
        cause="pull failed:\n\x1b[31mtimeout",
        duration_s=3.0,
    )
    waited = replace(bad.attempts[0], phases={"prepare": 90.0, "start": 1.0})
    bad = CellRecord(cell=bad.cell, verdict=bad.verdict, attempts=(waited, *bad.attempts), duration_s=96.0)
    with progress(6, stream, clock=lambda: float(next(ticks))) as shown:
        assert isinstance(shown, LineProgress)
        shown.note("building images/cpu")
        shown.started(make.short(1, "none"), 1)
        shown.finished(make.record(make.short(1, "none"), duration_s=41.2))
        assert stream.flushed.count("\n") == 3
        shown.started(make.short(1, "quark_int8"), 2)
        shown.finished(bad)
    assert stream.flushed == (
        "+5.0 s     note  building images/cpu\n"
        "+10 s      started  platform=cpu,dtype=bfloat16,tp=1,quantization=none\n"
        "+15 s      ✓ passed  [1/6] platform=cpu,dtype=bfloat16,tp=1,quantization=none 41 s\n"
        "+20 s      retry 1  platform=cpu,dtype=bfloat16,tp=1,quantization=quark_int8\n"
        "+25 s      ◆ infra  [2/6] platform=cpu,dtype=bfloat16,tp=1,quantization=quark_int8 6.0 s after 2 attempts"
        ", waited 1 min 30 s for devices  host: pull failed: timeout\n"
    )


def test_a_stream_without_unicode_gets_ascii_symbols() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with progress(1, stream) as shown:
        shown.finished(
            make.record(make.short(1, "none"), Outcome.FAILED, culprit=Culprit.PRODUCT, cause="é differs")
        )
    text = raw.getvalue().decode("ascii")
    assert "x failed  [1/1]" in text
    assert "product: ? differs" in text


def test_live_view_leaves_finished_cells_and_cleans_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    stream = _Stream(tty=True)
    with progress(2, stream, clock=lambda: 0.0) as shown:
        assert isinstance(shown, LiveProgress)
        shown.started(make.short(1, "none"), 1)
        shown.finished(make.record(make.short(1, "none")))
        shown.started(make.short(2, "none"), 2)
        shown.note("[red]not markup[/red] \x1b]0;owned\x07")
        verdict = Verdict(outcome=Outcome.CRASHED, culprit=Culprit.PRODUCT, cause="[bold]SIGSEGV \x1b[2J")
        shown.finished(CellRecord(cell=make.short(2, "none"), verdict=verdict))
    text = stream.getvalue()
    assert "✓ passed" in text
    assert "[1/2] platform=cpu,dtype=bfloat16,tp=1,quantization=none 41 s" in text
    assert "[red]not markup[/red]" in text
    assert "product: [bold]SIGSEGV" in text
    assert "owned" not in text
    assert "\x1b[2J" not in text


def test_live_table_names_what_runs() -> None:
    from rich.console import Console

    shown = LiveProgress(3, _Stream(), clock=iter([0.0, 10.0, 52.0]).__next__)
    shown.started(make.short(1, "none"), 2)
    out = io.StringIO()
    Console(file=out, width=120).print(shown._table())
    assert out.getvalue().split("\n")[0].split() == [
        "▸", "running", "platform=cpu,dtype=bfloat16,tp=1,quantization=none", "42", "s", "retry", "1",
    ]  # fmt: skip
    assert "0 of 3 cells  (52 s)" in out.getvalue()
