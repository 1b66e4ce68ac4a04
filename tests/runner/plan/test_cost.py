import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.cost import CellCost, Guess, Slot, cell_cost, duration, estimate, lines
from runner.schedule import Need, free, next_to_start


def cell(key: str, seconds: float, guess: str = "", **counts: int) -> CellCost:
    return CellCost(key=key, seconds=seconds, counts=counts, guess=guess)


def plainly(needs: list[CellCost], capacity: dict[str, int], jobs: int) -> list[tuple[str, float]]:
    """Starts, by a scheduler that is offered every waiting cell, as the runner's own loop does."""
    waiting, now = list(needs), 0.0
    running: list[tuple[float, CellCost]] = []
    starts: list[tuple[str, float]] = []
    by_key = {need.key: need for need in needs}
    while waiting or running:
        offered = [Need(key=need.key, counts=need.counts) for need in waiting]
        pick = next_to_start(
            offered, free(capacity, [need.counts for _, need in running]), len(running), jobs
        )
        if pick is None:
            now = min(end for end, _ in running)
            running = [(end, need) for end, need in running if end > now]
        else:
            need = by_key[pick.key]
            waiting.remove(need)
            running.append((now + need.seconds, need))
            starts.append((need.key, now))
    return starts


counts = st.dictionaries(st.sampled_from(["cuda", "rocm", "core"]), st.integers(0, 4), max_size=2)
costs = st.lists(st.tuples(st.integers(0, 9), counts), max_size=12).map(
    lambda rows: [
        CellCost(key=f"c{at}", seconds=seconds, counts=taken) for at, (seconds, taken) in enumerate(rows)
    ]
)
CAPACITY = {"cuda": 4, "rocm": 4, "core": 5}


@given(costs, st.integers(1, 5))
def test_the_simulation_starts_what_the_runner_would_start(needs: list[CellCost], jobs: int) -> None:
    slots = estimate(needs, CAPACITY, jobs).slots
    assert [(slot.key, slot.start_s) for slot in slots] == plainly(needs, CAPACITY, jobs)


@given(costs, st.integers(1, 5))
def test_the_makespan_lies_between_the_bound_and_one_after_the_other(
    needs: list[CellCost], jobs: int
) -> None:
    cost = estimate(needs, CAPACITY, jobs)
    assert cost.bound_s <= cost.makespan_s <= sum(need.seconds for need in needs)
    if jobs == 1:
        assert cost.bound_s == cost.makespan_s


@given(costs, st.integers(1, 5))
def test_at_no_moment_is_more_taken_than_there_is(needs: list[CellCost], jobs: int) -> None:
    taken = {need.key: need.counts for need in needs}
    slots = estimate(needs, CAPACITY, jobs).slots
    for moment in {slot.start_s for slot in slots}:
        there = [slot for slot in slots if slot.start_s <= moment < slot.end_s]
        assert len(there) <= jobs
        for name, capacity in CAPACITY.items():
            assert sum(taken[slot.key].get(name, 0) for slot in there) <= capacity


def test_device_seconds_count_every_device_of_a_cell() -> None:
    cost = estimate(
        [cell("a", 100, cuda=4), cell("b", 50, cuda=1), cell("c", 30, core=2)], {"cuda": 4, "core": 2}, 8
    )
    assert cost.resource_s == {"cuda": 450, "core": 60}
    assert cost.slots == (
        Slot(key="a", start_s=0, end_s=100),
        Slot(key="c", start_s=0, end_s=30),
        Slot(key="b", start_s=100, end_s=150),
    )
    assert (cost.makespan_s, cost.bound_s, cost.bound_by) == (150, 112.5, "cuda x 4")


def test_the_longest_cell_sets_the_bound() -> None:
    cost = estimate([cell("a", 10, cuda=1), cell("b", 90, cuda=1)], {"cuda": 2}, 8)
    assert (cost.makespan_s, cost.bound_s, cost.bound_by) == (90, 90, "the longest cell, b")


def test_the_number_of_jobs_sets_the_bound() -> None:
    cost = estimate([cell(name, 60, core=1) for name in "abcd"], {"core": 8}, 2)
    assert (cost.makespan_s, cost.bound_s, cost.bound_by) == (120, 120, "2 jobs at once")


def test_a_wide_cell_that_waits_costs_what_the_scheduler_makes_it_cost() -> None:
    needs = [cell("narrow", 100, cuda=1), cell("wide", 10, cuda=2), cell("late", 10, cuda=1)]
    cost = estimate(needs, {"cuda": 2}, 8)
    assert [(slot.key, slot.start_s) for slot in cost.slots] == [("narrow", 0), ("wide", 100), ("late", 110)]
    assert (cost.makespan_s, cost.bound_s) == (120, 100)


def test_a_cell_that_this_host_cannot_hold_is_named_and_not_counted() -> None:
    cost = estimate([cell("wide", 10, cuda=4), cell("cpu", 5, core=1)], {"cuda": 2, "core": 1}, 2)
    assert cost.impossible == ("wide",)
    assert (cost.cells, cost.resource_s, cost.makespan_s, cost.bound_s) == (1, {"core": 5}, 5, 5)


def test_history_is_taken_before_the_stated_guess() -> None:
    guesses = {"cpu": 60.0, "cuda": 90.0}
    assert cell_cost("a", "cpu", {"core": 1}, {"a": 41.0}, guesses) == cell("a", 41, core=1)
    assert cell_cost("b", "cuda", {"cuda": 2}, {"a": 41.0}, guesses) == cell("b", 90, "cuda", cuda=2)
    with pytest.raises(KeyError):
        cell_cost("c", "rocm", {}, {}, guesses)


def test_it_says_which_durations_are_guesses() -> None:
    needs = [
        cell("a", 41, core=1),
        cell("b", 60, "cpu", core=1),
        cell("c", 90, "cuda", cuda=2),
        cell("d", 60, "cpu"),
    ]
    cost = estimate(needs, {"core": 1, "cuda": 2}, 2)
    assert cost.guesses == (Guess(name="cpu", seconds=60, cells=2), Guess(name="cuda", seconds=90, cells=1))
    assert lines(cost) == [
        "about 3 min for 4 cells, not below 2 min in any order (2 jobs at once)",
        "core: 2 min of use in all",
        "cuda: 3 min of use in all",
        "no history for 3 of 4 cells, stated guess: 60 s cpu (2), 90 s cuda (1)",
    ]


def test_nothing_to_run_costs_nothing() -> None:
    cost = estimate([], {}, 1)
    assert (cost.makespan_s, cost.bound_s, cost.slots) == (0, 0, ())
    assert lines(cost) == ["about 0 s for 0 cells, not below 0 s in any order (nothing to run)"]


def test_cells_that_take_no_time_end() -> None:
    assert estimate([cell("a", 0, cuda=1), cell("b", 0, cuda=1)], {"cuda": 1}, 1).makespan_s == 0


@pytest.mark.parametrize(
    ("needs", "jobs"),
    [
        ([cell("a", 1)], 0),
        ([cell("a", -1)], 1),
        ([cell("a", math.nan)], 1),
        ([cell("a", 1), cell("a", 2)], 1),
    ],
)
def test_what_makes_no_sense_is_refused(needs: list[CellCost], jobs: int) -> None:
    with pytest.raises(ValueError, match="jobs must be 1 or more"):
        estimate(needs, {}, jobs)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (99.4, "99 s"),
        (99.6, "2 min"),
        (5940, "99 min"),
        (6000, "1 h 40 min"),
        (36300, "10 h 05 min"),
    ],
)
def test_a_duration_is_said_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ten_thousand_cells_are_each_started_once() -> None:
    needs = [
        CellCost(key=f"c{at}", seconds=1 + at % 7, counts={("cuda", "core")[at % 2]: 1 + at % 3})
        for at in range(10_000)
    ]
    cost = estimate(needs, {"cuda": 8, "core": 16}, 16)
    assert sorted(slot.key for slot in cost.slots) == sorted(need.key for need in needs)
