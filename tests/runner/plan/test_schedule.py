from hypothesis import given
from hypothesis import strategies as st

from runner.schedule import Need, next_to_start


def need(key: str, **counts: int) -> Need:
    return Need(key=key, counts=counts)


def test_cells_start_in_plan_order() -> None:
    assert next_to_start([need("a", cuda=1), need("b", cuda=1)], {"cuda": 2}, 0, 4) == need("a", cuda=1)


def test_no_more_cells_than_jobs() -> None:
    assert next_to_start([need("a")], {}, 2, 2) is None


def test_a_wide_cell_is_not_starved_by_narrow_ones() -> None:
    waiting = [need("wide", cuda=2), need("narrow", cuda=1)]
    assert next_to_start(waiting, {"cuda": 1}, 1, 4) is None


def test_a_cell_that_waits_lets_cells_of_other_resources_pass() -> None:
    waiting = [need("wide", cuda=2), need("cpu", core=1)]
    assert next_to_start(waiting, {"cuda": 1, "core": 1}, 1, 4) == need("cpu", core=1)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["cuda", "rocm", "core"]), st.integers(1, 8), max_size=3), max_size=8
    ),
    st.dictionaries(st.sampled_from(["cuda", "rocm", "core"]), st.integers(0, 8)),
)
def test_what_starts_fits_and_takes_nothing_that_an_earlier_cell_waits_for(
    counts: list[dict[str, int]], free: dict[str, int]
) -> None:
    waiting = [Need(key=str(i), counts=c) for i, c in enumerate(counts)]
    picked = next_to_start(waiting, free, 0, 1)
    assert picked is not None or not waiting or waiting[0].counts
    for place, this in enumerate(waiting):
        waited_for = {name for earlier in waiting[:place] for name in earlier.counts}
        startable = all(free.get(k, 0) >= v for k, v in this.counts.items()) and not waited_for & set(
            this.counts
        )
        assert (this == picked) == startable
        if startable:
            break
