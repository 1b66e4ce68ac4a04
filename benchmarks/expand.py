"""A million cells: the matrix room against a plain loop that builds the same objects under the same rules.

Each measurement is a process of its own: CPU seconds, and peak memory. Rounds are interleaved. Both sides must build
the same cells: a checksum over axes, settings and reasons is compared. ``python -m benchmarks.expand [--rounds N]``
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from runner import matrix
from runner.matrix.digest import matrix_hash
from runner.model import Cell, CellSettings, Limits, MatrixCell, Proof, Reason, Suite

ROOT = Path(__file__).resolve().parent.parent

AXES: dict[str, list[str]] = {
    "platform": ["cuda", "rocm", "cpu"],
    "dtype": ["bfloat16", "float16", "float32", "float8"],
    "tp": ["1", "2", "4", "8"],
    "quantization": ["none", "experts_int8", "quark_int8", "fp8", "awq", "gptq", "int4"],
    "attention": [f"a{number}" for number in range(30)],
    "seed": [f"s{number}" for number in range(100)],
}
RULES: list[dict[str, list[str]]] = [
    {"platform": ["cpu"], "dtype": ["float16"]},
    {"platform": ["cpu"], "tp": ["4", "8"]},
    {"platform": ["rocm"], "quantization": ["experts_int8", "awq"], "attention": ["a3", "a4"]},
    {"dtype": ["float32"], "quantization": ["fp8"], "attention": ["a5"], "seed": ["s1"]},
    {"attention": ["a7"], "seed": ["s7", "s8"]},
]


def file_text() -> str:
    """The matrix file of these axes and rules."""
    lines = ["version: 1", "suite: {path: suite, proof: tests}", "axes:"]
    lines += [f"  {name}: [{', '.join(values)}]" for name, values in AXES.items()]
    lines.append("rules:")
    for number, rule in enumerate(RULES):
        taken = ", ".join(f"{axis}: [{', '.join(values)}]" for axis, values in rule.items())
        lines += [f"  - exclude: {{{taken}}}", f"    reason: rule {number}"]
    return "\n".join(lines) + "\n"


def load(path: Path) -> Sequence[MatrixCell]:
    """The room: reads the file, checks it, makes the cells and their hash."""
    return matrix.load(path, max_cells=2_000_000).cells


def loop(path: Path) -> Sequence[MatrixCell]:
    """A plain loop: every rule asked of every cell, by place and set."""
    names = list(AXES)
    first_rule = file_text().splitlines().index("rules:") + 2
    rules = []
    for number, rule in enumerate(RULES):
        reason = Reason(text=f"rule {number}", source=f"{path.name}:{first_rule + 2 * number}")
        rules.append(([(names.index(axis), frozenset(values)) for axis, values in rule.items()], reason))
    settings = {
        (name, tp): CellSettings(
            image=f"images/{name}",
            suite=Suite(path="suite", proof=Proof.TESTS),
            limits=Limits(),
            devices=0 if name == "cpu" else int(tp),
        )
        for name in AXES["platform"]
        for tp in AXES["tp"]
    }
    order = names[:4] + sorted(names[4:])  # the order of a cell id
    pairs = [[(name, value) for value in AXES[name]] for name in order]
    found = []
    for axes in itertools.product(*pairs):
        reasons = tuple(
            reason for taken, reason in rules if all(axes[place][1] in values for place, values in taken)
        )
        shared = settings[axes[0][1], axes[2][1]]
        found.append(MatrixCell(cell=Cell(axes), settings=shared, excluded=reasons))
    return found


def checksum(cells: Sequence[MatrixCell]) -> str:
    """Over everything both sides must agree on."""
    known: dict[int, str] = {}
    total = hashlib.sha256()
    for each in cells:
        words = known.setdefault(id(each.settings), repr(each.settings))
        total.update(f"{each.cell.axes}{words}{each.excluded}{each.refused}{each.included_by}".encode())
    return total.hexdigest()


SIDES: dict[str, Callable[[Path], Sequence[MatrixCell]]] = {
    "room": load,
    "loop": loop,
}


def one(side: str, path: Path) -> None:
    """Measure one side in this process."""
    start = time.process_time()
    cells = SIDES[side](path)
    found: dict[str, object] = {"cpu_s": time.process_time() - start, "cells": len(cells)}
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if side == "room":  # once more and alone, to say what part of the whole it is
        start = time.process_time()
        matrix_hash(cells, 1)
        found["hash"] = time.process_time() - start
    print(json.dumps(found | {"sum": checksum(cells)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=tuple(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.one, args.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.yaml"
        path.write_text(file_text())
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for number in range(args.rounds):
            for side in list(SIDES)[:: -1 if number % 2 else 1]:
                argv = [sys.executable, "-m", "benchmarks.expand", "--one", side, "--file", str(path)]
                done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
                runs[side].append(json.loads(done.stdout))
    sums = {run["sum"] for side in runs.values() for run in side}
    if len(sums) != 1:
        sys.exit("the two sides built different cells")
    middle = {side: statistics.median(run["cpu_s"] for run in each) for side, each in runs.items()}
    peak = {side: max(run["peak_mib"] for run in each) for side, each in runs.items()}
    hashing = statistics.median(run["hash"] for run in runs["room"])
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, {cpu_model()}"
    )
    print(
        f"{runs['loop'][0]['cells']:.0f} cells, {len(RULES)} rules, {args.rounds} rounds; same cells on both sides"
    )
    print("| side | CPU of the loop (median) | spread | peak MiB |\n| --- | --- | --- | --- |")
    for side, each in runs.items():
        spread = [run["cpu_s"] / middle["loop"] for run in each]
        print(
            f"| {side} | {middle[side] / middle['loop']:.2f} x | {min(spread):.2f}-{max(spread):.2f} | {peak[side]:.0f} |"
        )
    without = (middle["room"] - hashing) / middle["loop"]
    print(
        f"of the room: hash {hashing / middle['loop']:.2f} x, everything else {without:.2f} x; loop {middle['loop']:.2f} s"
    )


def cpu_model() -> str:
    """The processor's name as Linux has it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


if __name__ == "__main__":
    main()
