"""Makespan of the real scheduler against the packing lower bound, on seeded job sets for several shapes of host.

    python -m benchmarks.schedule [--sets N]

A job set is 12 to 80 cells with widths as a matrix has them (tp 1, 2, 4, 8 as far as the host goes) and durations of
40 to 900 s, started in the order that the pipeline would choose. The bound is max(total device time / devices, longest
cell): no order can end sooner. What is above it by more than a tenth is shown with its cells.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from statistics import median

from runner.cost import CellCost, best_order, estimate

SHAPES: Mapping[str, Mapping[str, int]] = {
    "1 device": {"cuda": 1},
    "2 devices": {"cuda": 2},
    "4 devices": {"cuda": 4},
    "8 devices": {"cuda": 8},
    "mixed: 4 cuda, 2 rocm, 8 cores": {"cuda": 4, "rocm": 2, "core": 8},
    "MIG: 7 slices": {"cuda": 7},
}


def job_set(capacity: Mapping[str, int], seed: int, *, sliced: bool) -> list[CellCost]:
    """One random set of cells that fit the host."""
    draw = random.Random(seed)
    cells = []
    for number in range(draw.randint(12, 80)):
        resource = draw.choice(sorted(capacity))
        widths = [1] if sliced else [width for width in (1, 2, 4, 8) if width <= capacity[resource]]
        width = draw.choices(widths, weights=[8 // width for width in widths])[0]
        seconds = draw.choice((draw.uniform(40, 120), draw.uniform(120, 400), draw.uniform(400, 900)))
        cells.append(CellCost(key=f"{number}", seconds=round(seconds, 1), counts={resource: width}))
    return cells


def main() -> None:
    """Print one line per shape, and every counter-example's worst."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    sets = parser.parse_args().sets
    for name, capacity in SHAPES.items():
        ratios = []
        for seed in range(sets):
            cells = job_set(capacity, seed, sliced=name.startswith("MIG"))
            jobs = sum(capacity.values())
            cost = estimate(best_order(cells, capacity, jobs), capacity, jobs)
            ratios.append((cost.makespan_s / cost.bound_s, seed, len(cells)))
        worst = max(ratios)
        over = sum(ratio > 1.1 for ratio, _, _ in ratios)
        print(
            f"{name}: {sets} sets, median {median(r for r, _, _ in ratios):.3f}, worst {worst[0]:.3f} "
            f"(seed {worst[1]}, {worst[2]} cells), {over} above 1.10"
        )


if __name__ == "__main__":
    main()
