import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runner.errors import UsageError
from runner.matrix import covers as door
from runner.matrix.certificate import Sample, Uncoverable, Why, check
from runner.matrix.covering import Search, union
from runner.matrix.covers import cover
from runner.model import Cell, Reason

Rule = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Model:
    """Axes, and rules that each take out the cells with one of the listed values on every named axis."""

    axes: dict[str, tuple[str, ...]]
    rules: tuple[Rule, ...] = ()

    def reasons(self, cell: Cell) -> tuple[Reason, ...]:
        values = dict(cell.axes)
        return tuple(
            Reason(text=f"rule {number}", source=f"m:{number}")
            for number, rule in enumerate(self.rules)
            if all(values[axis] in taken for axis, taken in rule.items())
        )

    def product(self) -> list[Cell]:
        return [Cell.of(dict(zip(self.axes, values, strict=True))) for values in product(*self.axes.values())]

    def valid(self) -> list[Cell]:
        return [cell for cell in self.product() if not self.reasons(cell)]

    def left_out(self) -> dict[Cell, tuple[Reason, ...]]:
        return {cell: reasons for cell in self.product() if (reasons := self.reasons(cell))}

    def cover(self, strength: int, key: str = "", pinned: Sequence[Cell] = ()) -> Sample:
        return cover(self.valid(), strength, key=key, pinned=pinned, axes=self.axes, left_out=self.left_out())

    def problems(self, sample: Sample, strength: int) -> list[str]:
        return check(sample, self.valid(), self.axes, strength)


FOUR_AXES = Model(
    {
        "platform": ("cuda", "rocm", "cpu"),
        "dtype": ("bfloat16", "float16", "float32"),
        "tp": ("1", "2", "4", "8"),
        "quantization": ("none", "experts_int8", "quark_int8", "fp8", "awq", "gptq", "int4"),
    },
    (
        {"platform": ("cpu",), "dtype": ("float16",)},
        {"platform": ("cpu",), "tp": ("4", "8")},
        {"platform": ("rocm",), "quantization": ("experts_int8", "awq")},
        {"dtype": ("float32",), "quantization": ("fp8", "awq", "gptq", "int4")},
        {"platform": ("cpu",), "quantization": ("fp8", "gptq")},
    ),
)
SMALL = Model(
    {"platform": ("cuda", "cpu"), "dtype": ("bf16", "f16"), "tp": ("1", "2"), "mode": ("a", "b")},
    (
        {"platform": ("cpu",), "dtype": ("f16",)},
        {"platform": ("cpu",), "tp": ("2",), "mode": ("a",)},
        {"tp": ("2",), "mode": ("b",), "dtype": ("bf16",)},
    ),
)


@st.composite
def models(draw: st.DrawFn, most_cells: int = 400, least_axes: int = 2) -> Model:
    sizes = draw(st.lists(st.integers(1, 5), min_size=least_axes, max_size=5))
    while len(sizes) > least_axes and ceil_product(sizes) > most_cells:
        sizes.pop()
    assume(ceil_product(sizes) <= most_cells)
    axes = {f"axis{at}": tuple(f"v{at}{number}" for number in range(size)) for at, size in enumerate(sizes)}
    rules = []
    for _ in range(draw(st.integers(0, 5))):
        named = draw(st.lists(st.sampled_from(sorted(axes)), min_size=1, max_size=3, unique=True))
        rules.append(
            {
                name: tuple(sorted(draw(st.sets(st.sampled_from(axes[name]), min_size=1, max_size=3))))
                for name in named
            }
        )
    model = Model(axes, tuple(rules))
    assume(model.valid())
    return model


def ceil_product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def tuples(cells: Sequence[Cell], strength: int) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(values) for cell in cells for values in combinations(cell.axes, strength)}


def peer(model: Model, strength: int) -> list[Cell]:
    """What covertable (greedy, its default) makes of the same model."""
    constraints = [
        {
            "operator": "not",
            "condition": {
                "operator": "and",
                "conditions": [
                    {"operator": "in", "left": axis, "values": list(taken)} for axis, taken in rule.items()
                ],
            },
        }
        for rule in model.rules
    ]
    factors = {axis: list(values) for axis, values in model.axes.items()}
    rows = importlib.import_module("covertable").make(factors, strength=strength, constraints=constraints)
    return [Cell.of(row) for row in rows]


@settings(deadline=None, max_examples=150)
@given(models(), st.integers(2, 3), st.sampled_from(["", "one", "two"]), st.randoms(use_true_random=False))
def test_a_sample_is_complete_and_its_certificate_right(
    model: Model, strength: int, key: str, random: Random
) -> None:
    assume(strength <= len(model.axes))
    valid = model.valid()
    pinned = random.sample(valid, min(len(valid), random.randint(0, 3)))
    sample = model.cover(strength, key, pinned)
    assert model.problems(sample, strength) == []
    assert sample.certificate.complete
    assert set(pinned) <= set(sample.cells) <= set(valid)
    assert tuples(sample.cells, strength) == tuples(valid, strength)
    assert sample.certificate.valid + len(sample.certificate.uncoverable) == sample.certificate.possible
    assert all(each.why is not Why.UNKNOWN for each in sample.certificate.uncoverable)


@settings(deadline=None, max_examples=100)
@given(models(), st.integers(2, 3))
def test_a_sample_is_no_larger_than_that_of_covertable_by_more_than_a_tenth(
    model: Model, strength: int
) -> None:
    assume(strength <= len(model.axes))
    valid, rows = model.valid(), peer(model, strength)
    assume(set(rows) <= set(valid) and tuples(rows, strength) == tuples(valid, strength))
    assert 10 * len(model.cover(strength).cells) <= 11 * len(rows)


@settings(deadline=None, max_examples=60)
@given(models(most_cells=12))
def test_at_least_is_a_true_bound_of_the_smallest_sample(model: Model) -> None:
    valid = model.valid()
    wanted = tuples(valid, 2)
    smallest = next(
        size
        for size in range(len(valid) + 1)
        if any(tuples(rows, 2) == wanted for rows in combinations(valid, size))
    )
    sample = model.cover(2)
    assert sample.certificate.at_least <= smallest <= len(sample.cells)


@settings(deadline=None, max_examples=50)
@given(models(), st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_cells_or_values(model: Model, random: Random) -> None:
    valid = model.valid()
    shuffled = random.sample(valid, len(valid))
    axes = {name: random.sample(values, len(values)) for name, values in model.axes.items()}
    there, again = cover(valid, 2, axes=model.axes), cover(shuffled, 2, axes=axes)
    assert set(there.cells) == set(again.cells)
    assert again.cells == tuple(cell for cell in shuffled if cell in set(there.cells))


@pytest.mark.parametrize(
    ("strength", "at_least", "possible", "valid"),
    [(2, 28, 103, 92), (3, 68, 267, 191)],
    ids=["pairs", "triples"],
)
def test_252_cells_under_five_rules(strength: int, at_least: int, possible: int, valid: int) -> None:
    sample = FOUR_AXES.cover(strength)
    assert FOUR_AXES.problems(sample, strength) == []
    count = sample.certificate
    assert (count.at_least, count.possible, count.valid) == (at_least, possible, valid)
    assert len(sample.cells) <= len(peer(FOUR_AXES, strength))


def test_pairs_of_252_cells_need_28_and_get_no_more() -> None:
    sample = FOUR_AXES.cover(2)
    text = "28 cells (the fewest possible) cover 92 of 92 valid pairs; 11 of 103 cannot occur (11 left out by one reason)"
    assert sample.sentence() == text
    assert sample.remarks == ()


def test_a_key_varies_the_choice_and_repeats_it() -> None:
    samples = {key: FOUR_AXES.cover(2, key) for key in ("", "monday", "tuesday", "wednesday")}
    assert len({sample.cells for sample in samples.values()}) == 4
    assert all(FOUR_AXES.problems(sample, 2) == [] for sample in samples.values())
    assert FOUR_AXES.cover(2, "monday") == samples["monday"]


def test_what_cannot_be_covered_says_why() -> None:
    found = {each.values: each for each in SMALL.cover(3).certificate.uncoverable}
    alone = found[("platform", "cpu"), ("dtype", "f16"), ("tp", "1")]
    assert (alone.why, alone.reasons) == (Why.ALONE, (Reason(text="rule 0", source="m:0"),))
    together = found[("platform", "cpu"), ("dtype", "bf16"), ("tp", "2")]
    assert together.why is Why.TOGETHER
    assert [reason.text for reason in together.reasons] == ["rule 1", "rule 2"]
    assert str(together) == (
        "platform=cpu, dtype=bf16, tp=2: left out by several reasons together: rule 1 (m:1); rule 2 (m:2)"
    )


def test_a_value_that_no_cell_has_is_no_valid_cell_without_a_reason() -> None:
    axes = {"platform": ("cpu",), "tp": ("1", "2", "3")}
    cells = [Cell.of({"platform": "cpu", "tp": tp}) for tp in ("1", "2")]
    sample = cover(cells, 2, axes=axes)
    assert sample.certificate.uncoverable == (
        Uncoverable(values=(("platform", "cpu"), ("tp", "3")), why=Why.UNKNOWN),
    )
    assert str(sample.certificate.uncoverable[0]) == "platform=cpu, tp=3: no valid cell"


def test_strength_of_all_axes_keeps_every_cell_and_strength_one_every_value() -> None:
    assert SMALL.cover(4).cells == tuple(SMALL.valid())
    one = SMALL.cover(1)
    assert SMALL.problems(one, 1) == []
    assert len(one.cells) == 2


def test_no_cells_make_an_empty_sample() -> None:
    model = Model({"platform": ("cpu",), "tp": ("1",)}, ({"platform": ("cpu",)},))
    sample = model.cover(2)
    assert sample.cells == ()
    assert (sample.certificate.possible, sample.certificate.valid) == (1, 0)
    assert sample.certificate.uncoverable[0].why is Why.ALONE
    assert model.problems(sample, 2) == []


@pytest.mark.parametrize("strength", [0, 5])
def test_a_strength_the_axes_do_not_allow_is_one_line(strength: int) -> None:
    with pytest.raises(UsageError) as caught:
        SMALL.cover(strength)
    assert str(caught.value) == f"--cover {strength}: the matrix has 4 axes, so give 1 to 4"


def test_a_pinned_cell_that_is_left_out_is_an_error() -> None:
    with pytest.raises(
        UsageError, match=r"pinned cell platform=cpu,dtype=f16,tp=1,mode=a: it is none of the 9 cells"
    ):
        SMALL.cover(2, pinned=[Cell.of({"platform": "cpu", "dtype": "f16", "tp": "1", "mode": "a"})])


def test_more_than_is_searched_is_refused_with_the_numbers() -> None:
    axes = {name: [str(number) for number in range(2000)] for name in ("a", "b")}
    with pytest.raises(
        UsageError, match=r"1 cells and 4000000 combinations of axis values are more than are searched"
    ):
        cover([Cell.of({"a": "1", "b": "1"})], 2, axes=axes)


def test_a_search_cut_short_is_complete_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "Search", partial(Search, budget=1))
    sample = FOUR_AXES.cover(3)
    assert FOUR_AXES.problems(sample, 3) == []
    assert sample.remarks == ("132 cells: the search for a smaller sample ended at its limit of work",)


@given(st.lists(st.integers(0, 2**12 - 1), min_size=1, max_size=20), st.data())
def test_a_search_covers_the_target_without_a_spare_row(masks: list[int], data: st.DataObject) -> None:
    fixed = data.draw(st.lists(st.sampled_from(range(len(masks))), max_size=2, unique=True))
    target = union(masks)
    rows = Search(masks, target, tuple(fixed), 0, Random(1)).run()
    assert union(masks[row] for row in rows) == target
    assert rows[: len(fixed)] == fixed
    for spare in rows[len(fixed) :]:
        assert union(masks[row] for row in rows if row != spare) != target


def spoiled(sample: Sample, **changes: object) -> list[str]:
    """The problems of a sample whose certificate is changed."""
    certificate = replace(sample.certificate, **changes)  # type: ignore[arg-type]
    return SMALL.problems(replace(sample, certificate=certificate), 2)


def test_the_count_finds_each_wrong_number() -> None:
    sample = SMALL.cover(2)
    count = sample.certificate
    assert spoiled(sample) == []
    assert spoiled(sample, valid=count.valid + 1) == [
        f"valid: {count.valid + 1} stated, {count.valid} counted"
    ]
    assert spoiled(sample, covered=1) == [f"covered: 1 stated, {count.valid} counted"]
    assert spoiled(sample, possible=1) == ["possible: 1 stated, 24 counted"]
    assert spoiled(sample, strength=3) == ["strength: 3 stated, 2 counted"]
    assert spoiled(sample, at_least=99) == [f"at_least: 99 stated, {len(sample.cells)} cells are enough"]
    assert spoiled(sample, uncoverable=()) == [
        "neither covered nor explained: platform=cpu, dtype=f16",
        "neither covered nor explained: platform=cpu, tp=2",
        "uncoverable: 0 stated, 2 counted",
    ]
    lie = Uncoverable(values=(("tp", "1"), ("mode", "a")), why=Why.UNKNOWN)
    assert spoiled(sample, uncoverable=(*count.uncoverable, lie)) == [
        "called uncoverable, but a valid cell has it: tp=1, mode=a",
        "uncoverable: 3 stated, 2 counted",
    ]
    other = Uncoverable(values=(("tp", "1"), ("mode", "z")), why=Why.UNKNOWN)
    assert "explained, but no values of the matrix: tp=1, mode=z" in spoiled(
        sample, uncoverable=(*count.uncoverable, other)
    )


def test_the_count_finds_wrong_cells() -> None:
    sample = SMALL.cover(2)
    short = replace(sample, cells=sample.cells[1:])
    assert any(problem.startswith("not covered: ") for problem in SMALL.problems(short, 2))
    foreign = Cell.of({"platform": "cpu", "dtype": "f16", "tp": "1", "mode": "a"})
    assert f"no valid cell: {foreign.id}" in SMALL.problems(
        replace(sample, cells=(*sample.cells, foreign)), 2
    )
    assert SMALL.problems(replace(sample, cells=sample.cells[::-1]), 2) == [
        "a cell is there twice, or cells are not in plan order"
    ]
    unpinned = next(cell for cell in SMALL.valid() if cell not in sample.cells)
    assert SMALL.problems(replace(sample, pinned=(unpinned,)), 2) == [
        f"pinned, but not in the sample: {unpinned.id}"
    ]
