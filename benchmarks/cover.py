"""Samples of pairs and triples against covertable's: rows, and CPU seconds, in one run.

``python -m benchmarks.cover``. Every sample of both sides is recounted by the independent counter or by plain sets; a
side that leaves a valid tuple out or breaks a rule is said to. Ten axes of six values have 60 million cells, more
than the runner enumerates: there the search is given 20,000 cells drawn with a fixed seed, which have every triple.
"""

from __future__ import annotations

import os
import platform
import random
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import prod

from covertable import make

from benchmarks.expand import cpu_model
from runner.matrix.certificate import check
from runner.matrix.covers import cover
from runner.model import Cell

Axes = Mapping[str, Sequence[str]]
Rules = Sequence[Mapping[str, Sequence[str]]]

FOUR: Axes = {
    "platform": ["cuda", "rocm", "cpu"],
    "dtype": ["bfloat16", "float16", "float32"],
    "tp": ["1", "2", "4", "8"],
    "quantization": ["none", "experts_int8", "quark_int8", "fp8", "awq", "gptq", "int4"],
}
FOUR_RULES: Rules = [
    {"platform": ["cpu"], "dtype": ["float16"]},
    {"platform": ["cpu"], "tp": ["4", "8"]},
    {"platform": ["rocm"], "quantization": ["experts_int8", "awq"]},
    {"dtype": ["float32"], "quantization": ["fp8", "awq", "gptq", "int4"]},
    {"platform": ["cpu"], "quantization": ["fp8", "gptq"]},
]
SIX: Axes = {
    name: [f"{name}{number}" for number in range(size)]
    for name, size in {"a": 7, "b": 3, "c": 3, "d": 2, "e": 2, "f": 1}.items()
}
SIX_RULES: Rules = [
    {"a": ["a0", "a1"], "b": ["b0"]},
    {"a": ["a2"], "c": ["c0"], "d": ["d0"]},
    {"b": ["b1"], "e": ["e1"]},
    {"a": ["a3"], "b": ["b2"], "c": ["c1", "c2"]},
    {"a": ["a4"], "c": ["c1"], "d": ["d1"], "e": ["e0"]},
]


def equal(axes: int, values: int) -> Axes:
    """Some axes with as many values each."""
    return {f"x{axis}": [f"v{value}" for value in range(values)] for axis in range(axes)}


def valid(axes: Axes, rules: Rules) -> list[Cell]:
    """The cells of the product that no rule takes out."""
    found = []
    for values in product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        if not any(all(cell[axis] in taken for axis, taken in rule.items()) for rule in rules):
            found.append(Cell.of(cell))
    return found


def drawn(axes: Axes, count: int) -> list[Cell]:
    """Distinct cells of a product too large to enumerate."""
    chance = random.Random(1)
    return list(
        {Cell.of({name: chance.choice(values) for name, values in axes.items()}): None for _ in range(count)}
    )


def peer(axes: Axes, rules: Rules, strength: int) -> list[Cell]:
    """What covertable makes of the model: greedy, its default."""
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
        for rule in rules
    ]
    factors = {axis: list(values) for axis, values in axes.items()}
    return [Cell.of(row) for row in make(factors, strength=strength, constraints=constraints)]


def tuples(cells: Sequence[Cell], strength: int) -> set[tuple[tuple[str, str], ...]]:
    """Every tuple of some cells."""
    return {values for cell in cells for values in combinations(cell.axes, strength)}


def row(name: str, cells: Sequence[Cell], axes: Axes, rules: Rules, strength: int) -> str:
    """One line of the table."""
    start = time.process_time()
    sample = cover(cells, strength, axes=axes)
    ours = time.process_time() - start
    problems = check(sample, cells, axes, strength)
    if problems:
        sys.exit(f"{name}: {problems[0]}")
    start = time.process_time()
    rows = peer(axes, rules, strength)
    theirs = time.process_time() - start
    wanted = tuples(cells, strength)
    missing = len(wanted - tuples(rows, strength))
    wrong = len(tuples(rows, strength) - wanted)
    state = "complete" if not missing and not wrong else f"{missing} missing, {wrong} against rules"
    word = {2: "pairs", 3: "triples"}[strength]
    found = len(sample.cells)
    return (
        f"| {name} | {word} | {found} | {sample.certificate.at_least} | {len(rows)} ({state}) "
        f"| {found / len(rows):.2f} | {ours:.2f} s, {ours / theirs:.1f} x |"
    )


def random_models(count: int) -> str:
    """Rows over many random models of 2 to 5 axes of 1 to 6 values under up to 5 rules, pairs and triples."""
    chance = random.Random(7)
    ours, theirs, larger, compared = 0, 0, 0, 0
    for number in range(count):
        axes = {
            f"a{axis}": [f"v{at}" for at in range(chance.randint(1, 6))]
            for axis in range(chance.randint(2, 5))
        }
        rules = [
            {name: chance.sample(axes[name], chance.randint(1, min(3, len(axes[name])))) for name in named}
            for named in (
                chance.sample(sorted(axes), chance.randint(1, min(3, len(axes))))
                for _ in range(chance.randint(0, 5))
            )
        ]
        cells = valid(axes, rules) if prod(map(len, axes.values())) <= 1500 else []
        for strength in (2, 3) if cells else ():
            if strength <= len(axes):
                sample, rows = cover(cells, strength, axes=axes, key=str(number)), peer(axes, rules, strength)
                if check(sample, cells, axes, strength) or tuples(rows, strength) != tuples(cells, strength):
                    sys.exit(f"random model {number}: a sample is wrong")
                ours, theirs, compared = ours + len(sample.cells), theirs + len(rows), compared + 1
                larger += len(sample.cells) > len(rows)
    return f"{compared} random samples: {ours} rows against {theirs}, {larger} larger than covertable's"


def main() -> None:
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, {cpu_model()}"
    )
    print("| model | tuples | rows | proven least | covertable rows | ratio of rows | CPU, of covertable's |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ten = equal(10, 6)
    models = [
        ("252 cells (3x3x4x7), 5 rules", FOUR, FOUR_RULES, valid(FOUR, FOUR_RULES)),
        ("252 cells (3x3x4x7), no rule", FOUR, [], valid(FOUR, [])),
        ("252 cells (7x3x3x2x2x1), 5 rules", SIX, SIX_RULES, valid(SIX, SIX_RULES)),
        ("252 cells (7x3x3x2x2x1), no rule", SIX, [], valid(SIX, [])),
        ("6 axes of 6 (46,656 cells)", equal(6, 6), [], valid(equal(6, 6), [])),
        ("10 axes of 6, 20,000 cells drawn", ten, [], drawn(ten, 20_000)),
    ]
    for name, axes, rules, cells in models:
        for strength in (2, 3):
            print(row(name, cells, axes, rules, strength), flush=True)
    print(random_models(900))


if __name__ == "__main__":
    main()
