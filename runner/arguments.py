"""The command line's verbs and options. Imports nothing of the program, so that ``--help`` is quick."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

EPILOG = """\
exit codes:
  0   every planned cell passed            12  only pull or network faults, retries spent
  2   wrong usage or matrix file           13  nothing ran: no cell was selected or runnable
  10  a cell is red, flaky or missing      75  only faults of this host; another host may help
  11  gate: the run does not qualify the release; the reasons are printed
  130, 143  interrupted (SIGINT, SIGTERM)
"""

ACTIONS = ("list", "build", "pull", "probe")


class Verbs(Protocol):
    """What argparse gives to add verbs to."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002 - argparse's own word
        """Add one."""
        ...


def make_parser() -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """The parser, whose result has the verb's name in ``verb``, and the names of all verbs."""
    parser = argparse.ArgumentParser(
        prog="python -m runner",
        description="Qualify vLLM over platform x dtype x tensor parallelism x quantization, with proof of what ran.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for add in (_run, _plan, _explain_cell, _report, _history, _gate, _images, _explain, _doctor, _clean):
        add(verbs)
    return parser, tuple(verbs.choices)


def _run(verbs: Verbs) -> None:
    run = verbs.add_parser("run", help="run every cell this host can run ('FILE' alone does the same)")
    matrix_file(run)
    choice(run)
    candidate(run)
    _runtime(run)
    _jobs(run)
    run.add_argument("--out", type=Path, default=Path("reports"), metavar="DIR", help="where run folders go")
    run.add_argument("--repeat", type=positive, default=1, metavar="N", help="run each cell N times")
    run.add_argument(
        "--until-fail", action="store_true", help="with --repeat: stop a cell at its first failure"
    )
    run.add_argument(
        "--no-caches", action="store_true", help="no compile caches from earlier cells: each starts cold"
    )
    run.add_argument(
        "--resume",
        type=Path,
        metavar="RUN_DIR",
        help="finish an unfinished run as it was begun; FILE is not given",
    )
    _baseline(run)
    run.add_argument(
        "--waivers", type=Path, metavar="FILE", help="signed-off expectations that some cells do not pass"
    )
    run.set_defaults(stored=lambda args: _given(run, args, STORED))


STORED = {
    "select": "-k", "cell": "--cell", "failed_in": "--failed-in", "settle": "--settle", "cover": "--cover",
    "rotate": "--rotate", "pin": "--pin", "shard": "--shard", "durations": "--durations", "image": "--image",
    "expect_engine": "--expect-engine", "no_rules": "--no-rules", "max_cells": "--max-cells",
    "runtime": "--runtime", "jobs": "--jobs", "out": "--out", "repeat": "--repeat", "until_fail": "--until-fail",
    "no_caches": "--no-caches",
}  # fmt: skip
"""Options that a resumed run has from its folder, by their name in the parsed arguments."""


def _given(parser: argparse.ArgumentParser, args: argparse.Namespace, names: Mapping[str, str]) -> list[str]:
    return [option for name, option in names.items() if getattr(args, name) != parser.get_default(name)]


def _plan(verbs: Verbs) -> None:
    plan = verbs.add_parser("plan", help="show what would run, what would not, and why; start nothing")
    matrix_file(plan)
    choice(plan)
    candidate(plan)
    _jobs(plan)
    shown = plan.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="every cell of the product as JSON")
    shown.add_argument(
        "--diff", metavar="OTHER", help="what differs from another file's plan, or from git:REV of this file"
    )


def _explain_cell(verbs: Verbs) -> None:
    explain = verbs.add_parser(
        "explain-cell", help="how every setting of a cell came to be, by line of the file"
    )
    explain.add_argument("file", type=Path, metavar="FILE", help="the matrix file")
    explain.add_argument("cell", metavar="ID", help="the cell's id or slug")
    _bounds(explain)


def _report(verbs: Verbs) -> None:
    report = verbs.add_parser("report", help="render a run folder again, finished or not")
    report.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    _baseline(report)


def _history(verbs: Verbs) -> None:
    history = verbs.add_parser("history", help="what a cell did in earlier runs, and what to make of it")
    history.add_argument("cell", metavar="CELL", help="a cell's id or slug")
    history.add_argument(
        "--in", dest="dir", type=Path, default=Path("reports"), metavar="DIR", help="where run folders are"
    )


def _gate(verbs: Verbs) -> None:
    gate = verbs.add_parser(
        "gate", help="decide whether a run qualifies a release: exit 0 or 11, with every reason"
    )
    gate.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    gate.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="such as the shipped release.yaml"
    )
    gate.add_argument(
        "--waivers", type=Path, metavar="FILE", help="signed-off expectations that some cells do not pass"
    )
    gate.add_argument("--json", action="store_true", help="the decision as JSON")
    gate.add_argument(
        "--page", type=Path, metavar="FILE", help="also write the decision as one Markdown page"
    )
    gate.add_argument(
        "--statement",
        type=Path,
        metavar="FILE",
        help="also write an in-toto test-result statement (unsigned JSON)",
    )


def _images(verbs: Verbs) -> None:
    images = verbs.add_parser("images", help="list, build, pull or probe the images that a file names")
    images.add_argument("action", choices=ACTIONS, metavar="|".join(ACTIONS))
    matrix_file(images)
    choice(images)
    candidate(images)
    _runtime(images)


def _explain(verbs: Verbs) -> None:
    explain = verbs.add_parser("explain", help="judge a report, log, exit code or evidence from anywhere")
    explain.add_argument("--junit", type=Path, metavar="FILE")
    explain.add_argument("--log", type=Path, metavar="FILE")
    explain.add_argument("--exit-code", type=int, metavar="N")
    explain.add_argument("--evidence", type=Path, metavar="FILE")
    explain.add_argument(
        "--json", action="store_true", help="outcome, culprit, cause and test counts as JSON"
    )


def _doctor(verbs: Verbs) -> None:
    verbs.add_parser("doctor", help="what this host offers, and what to do about each problem")


def _clean(verbs: Verbs) -> None:
    clean = verbs.add_parser("clean", help="remove containers and images of this tool whose owner is gone")
    clean.add_argument("--images", action="store_true", help="also images that this tool built")
    clean.add_argument("--caches", action="store_true", help="also compile caches kept between cells")


def matrix_file(parser: argparse.ArgumentParser) -> None:
    """The matrix file, and what bounds reading it."""
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the matrix file")
    _bounds(parser)


def _bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-cells", type=positive, default=100_000, metavar="N", help="refuse a larger product"
    )
    parser.add_argument(
        "--no-rules", action="store_true", help="let the engine judge what 'require' rules refuse"
    )


def choice(parser: argparse.ArgumentParser) -> None:
    """Which of the cells that could run do."""
    group = parser.add_argument_group("which cells")
    group.add_argument(
        "-k", dest="select", default="", metavar="EXPR", help='such as "platform=cpu and tp=1"'
    )
    group.add_argument("--cell", action="append", default=[], metavar="ID", help="one cell; may be repeated")
    group.add_argument(
        "--failed-in", type=Path, metavar="RUN_DIR", help="cells that were not green in that run"
    )
    group.add_argument(
        "--settle",
        type=Path,
        metavar="RUN_DIR",
        help="cells that would tell apart what explains that run's failures",
    )
    group.add_argument(
        "--cover", type=int, choices=(2, 3), default=0,
        help="the fewest cells with every pair (2) or triple (3) of axis values that cells here have",
    )  # fmt: skip
    group.add_argument(
        "--rotate", default="", metavar="KEY", help="with --cover: another choice for another key"
    )
    group.add_argument(
        "--pin", action="append", default=[], metavar="ID", help="with --cover: a cell that is always in it"
    )
    group.add_argument(
        "--shard", default="", metavar="I/N", help="the I-th of N parts of about equal duration"
    )
    group.add_argument(
        "--durations",
        type=Path,
        metavar="FILE",
        help="known durations, the same file on every machine that shards",
    )


def candidate(parser: argparse.ArgumentParser) -> None:
    """What is qualified."""
    group = parser.add_argument_group("what is qualified")
    group.add_argument(
        "--image", action="append", default=[], metavar="PLATFORM=REF",
        help="this image (REF, REF@DIGEST or a folder) in place of the platform's; once a platform",
    )  # fmt: skip
    group.add_argument(
        "--expect-engine", metavar="VERSION|COMMIT", help="a cell whose engine reports another is unproven"
    )


def _baseline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--baseline", type=Path, metavar="RUN_DIR", help="compare with this run")


def _runtime(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime", choices=("auto", "docker", "process"), default="auto", help="default: auto"
    )


def _jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="cells at once, at most (default 1)"
    )


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or not text.isascii() or int(text) < 1:
        msg = f"{text!r} is not a whole number above 0"
        raise argparse.ArgumentTypeError(msg)
    return int(text)
