"""Cause patterns: what fits, and that none can run away."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.model import Outcome, Verdict
from runner.records import CAUSE_CHARS
from runner.release import patterns
from runner.verdict import combine, judge
from tests.runner.verdict.factory import facts, failing


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
    assert patterns.fits("end", "x" * (CAUSE_CHARS - 3) + "end")
    assert not patterns.fits("end", "x" * (CAUSE_CHARS - 2) + "end")


def test_the_end_of_the_longest_cause_that_a_verdict_has_is_searched() -> None:
    message = "KeyError: " + "x" * (CAUSE_CHARS - len("test_bad: KeyError: ") - 3) + "end"
    failed = judge(facts(1, failing(message)))
    assert (failed.outcome, len(failed.cause)) == (Outcome.FAILED, CAUSE_CHARS)
    assert patterns.fits("end", failed.cause)
    flaky = combine([failed, Verdict(outcome=Outcome.PASSED)])
    assert (flaky.outcome, len(flaky.cause)) == (Outcome.FLAKY, CAUSE_CHARS)
    assert patterns.fits("attempt 2 passed", flaky.cause)


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


@pytest.mark.parametrize(
    "pattern",
    [
        ".",
        r"\w",
        r"\S",
        r"\b",
        r"[\s\S]",
        "[a-z]",
        " ",
        "boom|.",
        "e",
        "7",
        r"\x41",
        "..",
        "[a-z]{4}",
        "r|o",
        r"[^q]{9}",
        r"\w+ \w+",
        "^.",
        ".$",
        "E|exit",
        r"\w{3}",
        "e.*e",
        "boom|[a-z][a-z]",
    ],
)
def test_a_pattern_that_fits_what_has_nothing_in_common_is_refused(pattern: str) -> None:
    said = patterns.wrong(pattern)
    assert said is not None
    assert " fits " in said[0]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("boom|.", "'boom|.' fits a single character such as '0', and so nearly every cause"),
        ("[a-z]{4}", "'[a-z]{4}' fits 16 of 16 causes that have nothing in common"),
        ("test_", "'test_' fits the cause of every failed test"),
        (
            "attempt 2 passed",
            "'attempt 2 passed' fits the cause of every cell that passed when it was tried again",
        ),
        ("when it was run again", "'when it was run again' fits the cause of every flaky test"),
        (
            "no test of the report",
            "'no test of the report' fits the cause of every exit code that the report does not explain",
        ),
        ("rank 0", "'rank 0' fits the cause of every error of that rank"),
    ],
)
def test_a_refused_pattern_is_told_what_it_fits(pattern: str, why: str) -> None:
    assert patterns.wrong(pattern) == (why, "write words of the cause that only this bug has")


@pytest.mark.parametrize("sample", patterns.SAMPLES)
def test_the_words_of_one_cause_are_a_pattern_of_it_alone(sample: str) -> None:
    pattern = re.escape(sample)
    assert patterns.wrong(pattern) is None
    assert [other for other in patterns.SAMPLES if patterns.fits(pattern, other)] == [sample]


@given(st.text(alphabet="ab.*+?{}2,[]^|\\()$ -", max_size=24))
def test_what_is_accepted_compiles_has_no_group_and_needs_a_word(pattern: str) -> None:
    if patterns.wrong(pattern) is None:
        compiled = re.compile(pattern)
        assert compiled.groups == 0
        assert not patterns.fits(pattern, "")


def test_the_frames_are_the_words_of_real_causes() -> None:
    frames = [words for words, _ in patterns.FRAMES]
    failed = judge(facts(1, failing("0")))
    assert failed.cause == frames[0].replace("test_0", "test_bad")
    flaky = combine([failed, Verdict(outcome=Outcome.PASSED)])
    assert flaky.cause == frames[2].replace(" 0;", " test_bad: 0;")


@pytest.mark.parametrize(
    "pattern", ["test_generates", "rank 0: KeyError", "exit code 3, but", "test_b failed first"]
)
def test_a_pattern_with_something_particular_beside_those_words_is_taken(pattern: str) -> None:
    assert patterns.wrong(pattern) is None
