"""How every word of the vocabulary looks: symbol, label and tone in one table; colours of a tone in another.

Terminal, Markdown and page read these tables, so a word has one face everywhere. A colour never stands alone: the
label is always written beside it. Contrast of every pair is at least 4.5:1 (WCAG 2.2, 1.4.3); a test computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runner.model import Outcome, Status

MISSING = "missing"
"""The word for a planned cell without a record. It is no outcome: nothing is known of the cell."""


class Tone(StrEnum):
    """What a word asks of the reader: nothing, to act on the product, to look again, to mend a host, or to skip."""

    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    HOST = "host"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Look:
    """The face of a word. ``ascii`` stands in for ``symbol`` where the terminal cannot write Unicode."""

    symbol: str
    ascii: str
    label: str
    tone: Tone
    meaning: str


LOOKS: Mapping[str, Look] = {
    Outcome.PASSED: Look("✓", "+", "passed", Tone.GOOD, "tests passed and the evidence proves the cell"),
    Outcome.FAILED: Look("✗", "x", "failed", Tone.BAD, "a test failed"),
    Outcome.FELL_BACK: Look("↓", "v", "fell back", Tone.BAD, "ran with another method or kernel than asked"),
    Outcome.UNPROVEN: Look(
        "?", "?", "unproven", Tone.DOUBT, "tests passed, the evidence does not prove the cell"
    ),
    Outcome.REFUSED: Look("⊘", "/", "refused", Tone.DOUBT, "the configuration is against a rule"),
    Outcome.UNSUPPORTED: Look("∅", "0", "unsupported", Tone.DOUBT, "this engine or device cannot do it"),
    Outcome.CRASHED: Look("‼", "!", "crashed", Tone.BAD, "died by its own signal or engine error"),
    Outcome.KILLED: Look("†", "k", "killed", Tone.DOUBT, "killed from elsewhere, no out-of-memory event"),
    Outcome.OUT_OF_MEMORY: Look(
        "▲", "m", "out of memory", Tone.BAD, "the engine's or the kernel's own word for it"
    ),
    Outcome.HUNG: Look("∞", "8", "hung", Tone.BAD, "no progress within the idle limit"),
    Outcome.TIMED_OUT: Look("◷", "t", "timed out", Tone.BAD, "alive, but past the total limit"),
    Outcome.NO_REPORT: Look("□", "_", "no report", Tone.DOUBT, "the tests left nothing to read"),
    Outcome.BAD_REPORT: Look("▨", "#", "bad report", Tone.DOUBT, "the report cannot be read as one"),
    Outcome.NO_TESTS: Look("○", "o", "no tests", Tone.DOUBT, "the report holds no test"),
    Outcome.SKIPPED: Look("»", ">", "skipped", Tone.DOUBT, "every test was skipped"),
    Outcome.INFRA: Look("◆", "h", "infra", Tone.HOST, "daemon, pull, network, device or disk of the host"),
    Outcome.FLAKY: Look("≈", "~", "flaky", Tone.DOUBT, "a test failed and the same test passed later"),
    Outcome.CANCELLED: Look("■", "c", "cancelled", Tone.HOST, "stopped by a person or the CI"),
    MISSING: Look("◌", "*", "missing", Tone.BAD, "planned, and the run holds no record of it"),
    Status.PLANNED: Look("▸", ">", "planned", Tone.GOOD, "would run"),
    Status.EXCLUDED: Look("\u2013", "-", "excluded", Tone.VOID, "a rule of the matrix leaves it out"),
    Status.NOT_RUNNABLE: Look("·", ".", "not runnable", Tone.VOID, "this host cannot run it"),
    Status.NOT_SELECTED: Look("◦", ",", "not selected", Tone.VOID, "the selection leaves it out"),
}


@dataclass(frozen=True, slots=True)
class Colours:
    """Text and ground of a tone on the light and the dark page, and its SGR code in a terminal."""

    light: str
    light_ground: str
    dark: str
    dark_ground: str
    sgr: str


TONES: Mapping[Tone, Colours] = {
    Tone.GOOD: Colours("#1a6334", "#e8f4ec", "#7fd49b", "#15281c", "32"),
    Tone.BAD: Colours("#a3182a", "#fcebec", "#ff9a9f", "#3a171b", "31"),
    Tone.DOUBT: Colours("#7a4a00", "#fbf1dd", "#eebd62", "#30240f", "33"),
    Tone.HOST: Colours("#5b3a9b", "#f1ecfa", "#c3aef5", "#261d3a", "35"),
    Tone.VOID: Colours("#5a616b", "#f4f5f6", "#a0a8b3", "#1c2026", "2"),
}
