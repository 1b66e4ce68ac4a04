"""Every word has one face, colours can be read, and hostile text is made safe to show."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from runner.model import Outcome, Status
from runner.report import LOOKS, MISSING, TONES
from runner.report import page as html_module
from runner.report.text import clean, clean_block, columns, cut, cut_lines, seconds, short_seconds, wrap


def test_every_outcome_and_status_has_its_own_symbol_and_label() -> None:
    words = [*Outcome, *Status, MISSING]
    assert list(LOOKS) == [*Outcome, MISSING, *Status]
    for face in ("symbol", "ascii", "label"):
        outcomes = [getattr(LOOKS[word], face) for word in (*Outcome, MISSING)]
        assert len(set(outcomes)) == len(outcomes), face
    for word in words:
        look = LOOKS[word]
        assert columns(look.symbol) == 1
        assert look.ascii.isascii()
        assert look.label == word.replace("_", " ")
        assert look.meaning


def test_only_passed_and_planned_look_good() -> None:
    assert [word for word, look in LOOKS.items() if look.tone == "good"] == ["passed", "planned"]


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("tone", list(TONES))
def test_contrast_is_wcag_aa(tone: str) -> None:
    colours = TONES[tone]  # type: ignore[index]
    for text, grounds in (
        (colours.light, (colours.light_ground, "#ffffff", "#fafbfc")),
        (colours.dark, (colours.dark_ground, "#101317", "#161a1f")),
    ):
        for ground in grounds:
            assert _contrast(text, ground) >= 4.5, (tone, text, ground)


def test_every_tone_can_be_read_on_every_ground() -> None:
    """A roll-up shows words of several tones on the ground of the gravest."""
    for text in TONES.values():
        for ground in TONES.values():
            assert _contrast(text.light, ground.light_ground) >= 4.5
            assert _contrast(text.dark, ground.dark_ground) >= 4.5


def test_ink_can_be_read_on_every_shade_of_the_heat_map() -> None:
    style = (Path(html_module.__file__).parent / "page.css").read_text()
    shades = re.findall(r"--heat\d:(#[0-9a-f]{6})", style)
    assert len(shades) == 10
    for light, dark in zip(shades[:5], shades[5:], strict=True):
        assert _contrast("#1b1f24", light) >= 4.5
        assert _contrast("#e4e8ed", dark) >= 4.5


def test_neutral_colours_of_the_page_are_wcag_aa() -> None:
    for muted, link, grounds in (
        ("#5a616b", "#0a58a8", ("#ffffff", "#fafbfc")),
        ("#a0a8b3", "#84b9f5", ("#101317", "#161a1f")),
    ):
        for text, ground in itertools.product((muted, link), grounds):
            assert _contrast(text, ground) >= 4.5, (text, ground)


C03 = (
    "nul \x00 byte, bell \x07, esc \x1b[31mred\x1b[0m, title \x1b]0;owned\x07\n"
    "progress 1%\rprogress 50%\rprogress 100%\nlast line without newline"
)


def test_c03_escapes_redraws_and_nul_do_not_reach_the_reader() -> None:
    assert clean_block(C03) == "nul ␀ byte, bell ␇, esc red, title \nprogress 100%\nlast line without newline"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\r\nb\r\n", "a\nb\n"),
        ("x\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\y", "xlinky"),
        ("never closed \x1b]0;title\nnext", "never closed \nnext"),
        ("c1 \x9b31m red", "c1  red"),
        ("rtl \u202eevil\u2066", "rtl \ufffdevil\ufffd"),
        ("zero\u200bwidth\u2028sep", "zero\ufffdwidth\ufffdsep"),
        ("lone \udce9 surrogate", "lone \ufffd surrogate"),
        ("tab\there", "tab here"),
    ],
)
def test_clean_block(raw: str, shown: str) -> None:
    assert clean_block(raw) == shown
    shown.encode()


def test_clean_makes_one_line_of_ordinary_and_of_odd_text() -> None:
    assert clean("  plain  text ") == "plain text"
    assert clean("plain") == "plain"
    assert clean("a\nb\u00a0c\x00") == "a b c␀"


def test_width_cut_and_wrap_count_columns_not_characters() -> None:
    assert columns("中文é") == 5
    assert cut("中文字", 5) == "中文…"
    assert columns(cut("中文字", 4)) <= 4
    assert cut("short", 5) == "short"
    assert wrap("aa bb cc dd", 5) == ["aa bb", "cc dd"]
    assert wrap("aa bb cc dd", 5, lines=1) == ["aa b…"] or wrap("aa bb cc dd", 5, lines=1) == ["aa…"]
    assert wrap("x" * 12, 5) == ["xxxxx", "xxxxx", "xx"]
    assert wrap("", 5) == [""]


def test_cut_lines_says_how_much_is_missing() -> None:
    assert cut_lines("a\nb\nc", lines=3, chars=99) == "a\nb\nc"
    assert cut_lines("aa\nbb\ncc", lines=2, chars=99) == "aa\nbb\n… 3 characters more"
    assert cut_lines("abcdef", lines=9, chars=4) == "abcd\n… 2 characters more"


@pytest.mark.parametrize(
    ("value", "long", "short"),
    [
        (0.42, "0.4 s", "0s"),
        (9.97, "10 s", "10s"),
        (59.6, "1 min 00 s", "1m00s"),
        (185, "3 min 05 s", "3m05s"),
        (7800, "2 h 10 min", "2h10m"),
    ],
)
def test_durations(value: float, long: str, short: str) -> None:
    assert (seconds(value), short_seconds(value)) == (long, short)
