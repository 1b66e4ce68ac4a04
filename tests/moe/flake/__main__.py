"""`python -m flake one|many ...`, with tests/moe as the working directory or on PYTHONPATH; see docs/cuda.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from flake import many


def main() -> int:
    """0 where every run that ended was good, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m flake")
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("one", help="a form, some times, in this process")
    one.add_argument("--times", type=int, default=1)
    one.add_argument("--results", type=Path, required=True, help="a JSON line is added for each run")
    some = verbs.add_parser("many", help="a form in many processes, several at once on each device")
    some.add_argument("--processes", type=int, required=True)
    some.add_argument("--times", type=int, default=1, help="runs in each process (1: every run is fresh)")
    some.add_argument("--at-once", type=int, default=1)
    some.add_argument("--devices", default="0", help="numbers, joined by commas; processes take turns")
    some.add_argument(
        "--limit", type=float, default=600.0, help="seconds; what has not ended then is not counted"
    )
    some.add_argument("--out", type=Path, required=True, metavar="DIR")
    for each in (one, some):
        each.add_argument("--form", choices=("engine", "bare"), required=True)
        each.add_argument("--model", type=Path, required=True, metavar="DIR")
        each.add_argument("--poison", action="store_true", help="bare: fill uninitialized memory with NaN")
    given = parser.parse_args()
    if given.verb == "many":
        return many.run(many.Wish.of(vars(given)))
    from flake import forms

    runs = (
        forms.engine(given.model, given.times)
        if given.form == "engine"
        else forms.bare(given.model, given.times, poison=given.poison)
    )
    good = True
    with given.results.open("a", encoding="utf-8") as file:
        for result in runs:
            file.write(json.dumps(result) + "\n")
            file.flush()
            good = good and result["ok"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
