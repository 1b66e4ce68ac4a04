"""How often the rule that explains failures is found: faults over 1 to 3 axes planted in simulated grids with noise.

Run from the project's folder: ``python -m benchmarks.triage [--trials 100]``. For each size of fault, share of the grid
that ran, and noise (a cell's result turned round with this chance), it says: how often the rule found says the same of
every cell of the grid as the planted one, at once and after the cells asked for were run (at most 6 rounds of 4); how
many extra cells that took; and how often a rule called sure (95%) was wrong.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from runner.model import Cell
from runner.records import Seen
from runner.triage.atoms import Term, terms
from runner.triage.explain import Explanation, explain
from runner.triage.flaky import Class, judge

AXES: Mapping[str, Sequence[str]] = {
    "platform": ("cuda", "rocm", "cpu"),
    "dtype": ("bfloat16", "float16"),
    "tp": ("1", "2", "4", "8"),
    "quantization": ("none", "experts_int8", "quark_int8"),
    "prefix_caching": ("on", "off"),
}
ROUNDS = 6
SEED = 8


def grid() -> list[Cell]:
    """All 144 cells."""
    return [Cell.of(dict(zip(AXES, values, strict=True))) for values in itertools.product(*AXES.values())]


def plant(size: int, cells: Sequence[Cell], rng: random.Random) -> tuple[Term, ...]:
    """A fault over ``size`` axes: single values, thresholds, or all values but one; at least two cells fail."""
    while True:
        axes = rng.sample(sorted(AXES), size)
        rule = tuple(rng.choice([t for t in terms(axis, AXES[axis]) if t.weight >= 0.5]) for axis in axes)
        if sum(inside(cell, rule) for cell in cells) >= 2:
            return rule


def inside(cell: Cell, rule: Sequence[Term]) -> bool:
    """Whether a rule says that a cell fails."""
    return all(term.holds(cell) for term in rule)


class Trial:
    """One planted fault, and what is known of the grid so far."""

    def __init__(self, size: int, share: float, noise: float, rng: random.Random) -> None:
        self.cells, self.rng, self.noise = grid(), rng, noise
        self.rule = plant(size, self.cells, rng)
        self.results: dict[Cell, bool] = {}
        self.run(rng.sample(self.cells, round(share * len(self.cells))))

    def run(self, cells: Sequence[Cell]) -> None:
        """See the results of some cells, each turned round with the noise's chance."""
        for cell in cells:
            self.results[cell] = inside(cell, self.rule) != (self.rng.random() < self.noise)

    def explain(self) -> Explanation | None:
        """What the runner would say now."""
        failed = [cell for cell, bad in self.results.items() if bad]
        passed = [cell for cell, bad in self.results.items() if not bad]
        return explain(failed, passed, [cell for cell in self.cells if cell not in self.results])

    def right(self, found: Explanation | None) -> bool:
        """Whether the rule found is the planted one, over the whole grid."""
        return found is not None and all(
            inside(cell, found.terms) == inside(cell, self.rule) for cell in self.cells
        )


def measure(size: int, share: float, noise: float, trials: int, rng: random.Random) -> list[str]:
    """One row of the table."""
    at_once = settled = sure = wrong = 0
    extra, took = [], []
    for _ in range(trials):
        trial = Trial(size, share, noise, rng)
        began = time.perf_counter()
        found = trial.explain()
        took.append(time.perf_counter() - began)
        at_once += trial.right(found)
        before = len(trial.results)
        for _ in range(ROUNDS):
            if found is None or found.sure or not found.settle:
                break
            trial.run(found.settle)
            found = trial.explain()
        settled += trial.right(found)
        if found is not None and found.sure:
            sure += 1
            wrong += not trial.right(found)
        extra.append(len(trial.results) - before)
    return [
        str(size),
        f"{share:.0%}",
        f"{noise:.0%}",
        f"{at_once / trials:.0%}",
        f"{settled / trials:.0%}",
        f"{statistics.mean(extra):.1f}",
        f"{sure / trials:.0%}",
        f"{wrong} of {sure}",
        f"{1000 * statistics.median(took):.0f} ms",
    ]


HISTORIES: Mapping[str, Callable[[int, random.Random], bool]] = {
    "never fails": lambda _, __: False,
    "fails 1 in 200": lambda _, rng: rng.random() < 0.005,
    "fails 1 in 20": lambda _, rng: rng.random() < 0.05,
    "fails 1 in 3": lambda _, rng: rng.random() < 1 / 3,
    "broke at run 25": lambda run, _: run >= 25,
    "mended at run 10": lambda run, _: run < 10,
    "always fails": lambda _, __: True,
}


def histories(trials: int, rng: random.Random) -> None:
    """Print what histories of 30 runs are called."""
    print("| history | " + " | ".join(Class) + " |\n| --- |" + " ---: |" * len(Class))
    for name, fails in HISTORIES.items():
        called = Counter(
            judge(
                [
                    Seen(run_id=str(n), result="F" if fails(n, rng) else "P", candidate=f"c{n}", host="a")
                    for n in range(1, 31)
                ]
            ).kind
            for _ in range(trials)
        )
        print(f"| {name} | " + " | ".join(f"{called[kind] / trials:.1%}" for kind in Class) + " |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    trials = parser.parse_args().trials
    rng = random.Random(SEED)
    head = ["axes", "ran", "noise", "found at once", "found after settling", "extra cells", "sure"]
    head += ["sure and wrong", "time"]
    print("| " + " | ".join(head) + " |\n|" + " ---: |" * len(head))
    for size, share, noise in itertools.product((1, 2, 3), (0.25, 0.5, 1.0), (0.0, 0.02, 0.05)):
        print("| " + " | ".join(measure(size, share, noise, trials, rng)) + " |", flush=True)
    print()
    histories(10 * trials, rng)


if __name__ == "__main__":
    main()
