from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.junit import clean
from runner.junit.text import FORBIDDEN, Keeper, count, cut, no_count, seconds


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("plain \u00e9\u4e2d\U0001f525", "plain \u00e9\u4e2d\U0001f525"),
        ("a\x00b\x1bc\x7f", "a\u2400b\u241bc\u2421"),
        ("\x1b[1;31mred\x1b[0m\x1b]8;;http://x\x07link\x1b]8;;\x07", "redlink"),
        ("c1 \x85\x9b", "c1 \ufffd\ufffd"),
        ("lone \ud800 \ufffe", "lone \ufffd \ufffd"),
        ("a\r\nb\rc\n\td", "a\nb\nc\n\td"),
    ],
)
def test_clean(raw: str, safe: str) -> None:
    assert clean(raw) == safe


@given(st.text(st.characters(codec=None), max_size=60))
def test_clean_leaves_nothing_that_harms_and_is_stable(raw: str) -> None:
    safe = clean(raw)
    assert not FORBIDDEN.search(safe)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in safe)
    assert clean(safe) == safe


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        ("1,234.56", 1234.56),
        ("12,000.5", 12000.5),
        ("2,120,532.", 2120532.0),
        ("1e-05", 1e-05),
        ("0", 0.0),
        (" 1.5 ", 1.5),
    ],
)
def test_j21_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "-0.5",
        "0:00:01.5",
        "abc",
        "1,5",
        "1,234",
        "1e999",
        "1_0",
        "1e12",
    ],
)
def test_j21_unknown_seconds(text: str | None) -> None:
    assert seconds(text) is None


def test_count() -> None:
    numbers = ("0", "12", " 1\n", "+1", "1.0", "1e0", "00")
    assert [count(text) for text in numbers] == [0, 12, 1, 1, 1, 1, 0]
    others = ("", " ", "-1", "1.5", "\u0663", "9" * 10, "1e99", "1_0", "1,0", "nan", "0x1", "1 1", "many")
    assert [count(text) for text in (None, *others)] == [None] * 14
    assert [no_count(text) for text in (None, "", " ", *numbers)] == [False] * 10
    assert [no_count(text) for text in others[2:]] == [True] * 11


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(9, 60))
def test_j24_keeper_equals_cutting_the_whole(parts: list[str], limit: int) -> None:
    keeper = Keeper(limit)
    for part in parts:
        keeper.add(part)
    assert keeper.value() == cut("".join(parts), limit)
