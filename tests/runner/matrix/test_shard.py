from collections.abc import Mapping
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import UsageError
from runner.matrix.shards import parse_shard, shard
from runner.model import Cell


def cells(count: int) -> list[Cell]:
    return [Cell.of({"platform": "cpu", "case": f"{number:03}"}) for number in range(count)]


def deal(
    these: list[Cell], count: int, durations: Mapping[str, float], default_s: float = 60.0
) -> list[list[Cell]]:
    return [list(shard(these, index, count, durations, default_s)) for index in range(1, count + 1)]


def loads(shards: list[list[Cell]], durations: Mapping[str, float], default_s: float = 60.0) -> list[float]:
    return [sum(durations.get(cell.id, default_s) for cell in each) for each in shards]


def known(these: list[Cell], *seconds: float) -> dict[str, float]:
    return {cell.id: value for cell, value in zip(these, seconds, strict=True)}


plans = st.lists(st.floats(0, 1e4), max_size=30).map(lambda seconds: known(cells(len(seconds)), *seconds))


@given(plans, st.integers(1, 40))
def test_every_cell_is_in_exactly_one_shard_in_plan_order(durations: dict[str, float], count: int) -> None:
    these = cells(len(durations))
    shards = deal(these, count, durations)
    assert sorted((cell for each in shards for cell in each), key=these.index) == these
    assert all(each == sorted(each, key=these.index) for each in shards)


@given(plans, st.integers(1, 8))
def test_no_shard_is_longer_than_a_fair_part_and_one_cell(durations: dict[str, float], count: int) -> None:
    found = loads(deal(cells(len(durations)), count, durations), durations)
    assert max(found) - min(found) <= max(durations.values(), default=0.0) * (1 + 1e-9)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7), st.integers(2, 3))
def test_the_longest_shard_is_at_most_four_thirds_of_the_best(seconds: list[int], count: int) -> None:
    durations = known(cells(len(seconds)), *map(float, seconds))
    best = min(
        max(
            sum(value for value, at in zip(seconds, places, strict=True) if at == each)
            for each in range(count)
        )
        for places in product(range(count), repeat=len(seconds))
    )
    longest = max(loads(deal(cells(len(seconds)), count, durations), durations))
    assert longest <= best * (4 / 3 - 1 / (3 * count)) + 1e-9


@given(plans, st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_order_of_cells_changes_no_shard(durations: dict[str, float], count: int, random: Random) -> None:
    these = cells(len(durations))
    shuffled = random.sample(these, len(these))
    assert list(map(set, deal(these, count, durations))) == list(map(set, deal(shuffled, count, durations)))


def test_the_longest_cells_are_dealt_first() -> None:
    these = cells(5)
    durations = known(these, 10, 20, 30, 40, 50)
    a, b, c, d, e = these
    assert deal(these, 2, durations) == [[a, b, e], [c, d]]
    assert loads(deal(these, 2, durations), durations) == [80, 70]


def test_cells_without_history_take_the_default_and_spread_evenly() -> None:
    these = cells(7)
    assert [len(each) for each in deal(these, 3, {}, 60.0)] == [3, 2, 2]
    assert [len(each) for each in deal(these, 3, {}, 0.0)] == [3, 2, 2]


def test_more_shards_than_cells_leave_some_empty() -> None:
    assert [len(each) for each in deal(cells(2), 4, {})] == [1, 1, 0, 0]
    assert shard(cells(2), 999_999, 999_999, {}, 1.0) == ()
    assert shard([], 1, 1, {}, 1.0) == ()


@pytest.mark.parametrize(("text", "pair"), [("1/1", (1, 1)), ("2/5", (2, 5)), ("007/010", (7, 10))])
def test_a_shard_is_read(text: str, pair: tuple[int, int]) -> None:
    assert parse_shard(text) == pair


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "0/5",
        "6/5",
        "1/0",
        "-1/5",
        "1/5/9",
        "a/b",
        "1 / 5",
        "1/5\n",
        "1/1000000000",
        "\u0662/\u0665",
        "1_0/20",
    ],
)
def test_a_shard_that_cannot_be_is_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shard(text)
    assert str(caught.value) == (
        f"--shard {text!r}: write I/N, the I-th of N shards with I from 1 to N, such as 2/5"
    )


def test_an_index_outside_the_shards_is_an_error() -> None:
    with pytest.raises(UsageError, match="--shard 3/2: the index must be from 1 to 2"):
        shard(cells(2), 3, 2, {}, 1.0)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_duration_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="a duration of"):
        shard(cells(1), 1, 1, {}, seconds)


def test_a_cell_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="a cell is there twice"):
        shard(cells(1) * 2, 1, 1, {}, 1.0)
