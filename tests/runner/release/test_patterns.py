"""Cause patterns: what fits, and that none can run away."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.release import patterns


@pytest.mark.parametrize(
    ("pattern", "cause", "expected"),
    [
        ("no operator", "RuntimeError: no operator torchvision::nms", True),
        ("KeyError: .*scale", "rank 1: KeyError: 'w2_weight_scale'", True),
        ("KeyError: .*scale", "rank 1: KeyError: 'w2_weight'", False),
        ("float16|bfloat16", "dtype float16", True),
        (r"\(int8\)", "prepack (int8) failed", True),
        (r"[()]int", "x (int8)", True),
        ("a{2}", "baab", True),
    ],
)
def test_a_pattern_is_searched_in_the_cause(pattern: str, cause: str, expected: bool) -> None:
    assert patterns.wrong(pattern) is None
    assert patterns.fits(pattern, cause) is expected


def test_a_cause_is_searched_up_to_its_bound() -> None:
    assert patterns.fits("end", "x" * 297 + "end")
    assert not patterns.fits("end", "x" * 298 + "end")


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a*",
        "(a)",
        "(?:a|b)+x",
        "a*b*c*d",
        r"x\1",
        "[",
        "*a",
        "a{2,1}",
        "a|b|c|d|e|f|g|h|i|j|k",
        "|a",
        "$",
    ],
)
def test_a_pattern_that_is_unbounded_or_says_nothing_is_refused(pattern: str) -> None:
    assert patterns.wrong(pattern) is not None


@given(st.text(alphabet="ab.*+?{}2,[]^|\\()$ -", max_size=24))
def test_what_is_accepted_compiles_has_no_group_and_needs_a_word(pattern: str) -> None:
    if patterns.wrong(pattern) is None:
        compiled = re.compile(pattern)
        assert compiled.groups == 0
        assert not patterns.fits(pattern, "")
