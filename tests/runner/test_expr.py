"""The expression language of ``-k``, ``requires`` and ``when``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import UsageError
from runner.expr import holds, nearest, parse

CELL = {"platform": "cpu", "dtype": "bfloat16", "tp": "2", "quantization": "none"}
GPU = {"capability": "9.0", "memory_gib": 139.8, "name": "NVIDIA H200", "amx_int8": False}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("platform=cpu", True),
        ("platform==cpu", True),
        ("platform = cuda", False),
        ("platform!=cuda", True),
        ("platform=cpu and tp=1", False),
        ("platform=cpu and tp=2", True),
        ("platform=cuda or tp=2", True),
        ("not platform=cpu", False),
        ("not not platform=cpu", True),
        ("tp>1 and tp<=2", True),
        ("tp>2", False),
        ("tp in (1, 2)", True),
        ("tp in (4,8)", False),
        ("tp not in (4, 8)", True),
        ("tp not in (2, 8)", False),
        ("platform=cuda and tp=1 or dtype=bfloat16", True),
        ("platform=cuda and (tp=1 or dtype=bfloat16)", False),
        ('platform="cpu"', True),
        ("platform='cpu' and dtype in ('float16', \"bfloat16\")", True),
        ("quantization", True),
        ("tp=02", False),
    ],
)
def test_cells(text: str, expected: bool) -> None:
    assert parse(text).matches(CELL) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("capability >= 8.0", True),
        ("capability >= 9", True),
        ("capability >= 9.0", True),
        ("capability > 9.0", False),
        ("capability < 10.0", True),
        ("memory_gib >= 139.7", True),
        ("memory_gib >= 139.79", True),
        ("memory_gib > 140", False),
        ("name = 'NVIDIA H200'", True),
        ("amx_int8 or zen", False),
        ("not amx_int8", True),
        ("absent = 1", False),
        ("absent != 1", False),
        ("absent > 1", False),
        ("not absent > 1", True),
    ],
)
def test_host_facts(text: str, expected: bool) -> None:
    assert parse(text).matches(GPU) is expected


@pytest.mark.parametrize(
    ("fact", "op", "value", "expected"),
    [
        ("9.0", "<", "10.0", True),
        ("12.1", "<", "12.10", True),
        ("12.1", "=", "12.10", False),
        ("8", ">=", "8.0", True),
        ("-1", "<", "0", True),
        (4, "=", "4", True),
        (4, "=", "4.0", True),
        (0.5, "=", "0.5", True),
        (4, "=", "four", False),
        (True, "=", "true", True),
        (True, "=", "on", False),
        (False, "!=", "true", True),
        (1, "=", "true", False),
        (("mamba", "moe"), "=", "mamba", True),
        (("mamba", "moe"), "!=", "mamba", False),
        ((), "=", "mamba", False),
        (None, "=", "x", False),
        (None, "!=", "x", False),
        (2, "<", "10", True),
        (2, ">", "2", False),
        (1e-5, "<", "1", True),
        (2, "<", "2.0", False),
        (0.5, ">=", "0.5", True),
        (0.5, "<=", "0.5", True),
        (1, "<", "1.0.1", True),
    ],
)
def test_holds(fact: object, op: str, value: str, expected: bool) -> None:
    assert holds(fact, op, value) is expected


@pytest.mark.parametrize("fact", ["cpu", True, "9.0a", ""])
def test_texts_cannot_be_put_in_order(fact: object) -> None:
    with pytest.raises(UsageError, match="both sides must be numbers"):
        holds(fact, "<", "3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expression, column 1: expected a name, found the end: ^"),
        ("platform=", "expression, column 10: expected a value for platform: platform=^"),
        (
            "platform=cpu tp=1",
            "expression, column 14: expected 'and' or 'or' before 'tp': platform=cpu ^tp=1",
        ),
        ("and tp=1", "expression, column 1: expected a name, found 'and': ^and tp=1"),
        ("(tp=1", "expression, column 6: expected ')': (tp=1^"),
        ("tp in 1", "expression, column 7: expected '(' after in: tp in ^1"),
        ("tp in (1,)", "expression, column 10: expected a value for tp: tp in (1,^)"),
        ("tp=1)", "expression, column 5: expected 'and' or 'or' before ')': tp=1^)"),
        ("tp=1 & dtype=x", "expression, column 6: expected 'and' or 'or' before '&': tp=1 ^& dtype=x"),
        ("tp < many", "expression, column 4: < needs a number, 'many' is none: tp ^< many"),
        ("tp='1", "expression, column 4: a quote is not closed: tp=^'1"),
        ("tp=1 ! 2", "expression, column 6: this character has no meaning: tp=1 ^! 2"),
        ("3=3", "expression, column 1: expected a name, found '3': ^3=3"),
    ],
)
def test_errors_show_the_column(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_unknown_names_and_values_get_the_nearest() -> None:
    values = {"platform": ("cuda", "rocm", "cpu"), "tp": ("1", "2")}
    with pytest.raises(UsageError) as caught:
        parse("platfrom=cpu", names=values)
    assert str(caught.value) == (
        "expression, column 1: 'platfrom' is not known, did you mean platform?: ^platfrom=cpu"
    )
    with pytest.raises(UsageError) as caught:
        parse("tp=1 and platform=cpuu", values=values)
    assert str(caught.value) == (
        "expression, column 19: platform has no value 'cpuu', did you mean cpu?: tp=1 and platform=^cpuu"
    )
    with pytest.raises(UsageError, match="tp has no value '3', known: 1, 2"):
        parse("tp in (1, 3)", values=values)
    assert parse("tp>3", values=values).matches({"tp": "4"})


def test_names_are_what_the_expression_asks_for() -> None:
    assert parse("platform=cpu and not (tp>1 or zen)").names == {"platform", "tp", "zen"}


def test_length_and_depth_are_bounded() -> None:
    with pytest.raises(UsageError, match="the limit is 2000"):
        parse("a" * 2001)
    with pytest.raises(UsageError, match="nested deeper than 40"):
        parse("(" * 500 + "a" + ")" * 500)
    with pytest.raises(UsageError, match="nested deeper than 40"):
        parse("not " * 400 + "a")


def test_nearest_ignores_case_and_gives_up_on_the_far() -> None:
    assert nearest("Platform", ["platform", "tp"]) == "platform"
    assert nearest("quantisation", ["platform", "quantization"]) == "quantization"
    assert nearest("xyz", ["platform"]) is None


def test_nearest_of_very_many_looks_only_at_those_with_the_same_first_letter() -> None:
    names = [f"name{number}" for number in range(600)]
    assert nearest("name5999", names) is None
    assert nearest("valuee", [*names, "value"]) == "value"
    assert nearest("name5999", names[:500]) == "name99"


@given(st.text(alphabet="abtp=!<>()', \"123.andornotin", max_size=40))
def test_any_text_is_an_expression_or_a_usage_error(text: str) -> None:
    message = ""
    try:
        expression = parse(text)
    except UsageError as error:
        message = str(error)
    else:
        assert isinstance(expression.matches(dict.fromkeys(expression.names, 1)), bool)
    assert "\n" not in message


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4)
)
def test_dotted_numbers_are_in_order_like_padded_tuples(left: list[int], right: list[int]) -> None:
    width = max(len(left), len(right))
    first, second = (tuple(each + [0] * (width - len(each))) for each in (left, right))
    assert holds(".".join(map(str, left)), "<", ".".join(map(str, right))) is (first < second)
    assert holds(".".join(map(str, left)), ">=", ".".join(map(str, right))) is (first >= second)
