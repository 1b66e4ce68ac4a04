"""Reading and merging JUnit against junitparser and a bare expat counter: CPU seconds, peak memory, ratios.

    python benchmarks/junit_bench.py [--files 2000] [--cases 50] [--big-mb 200] [--merge 100,400] [--rounds 3]

Every candidate is a process of its own, rounds are interleaved, medians are shown. CPU time is compared, because it
does not grow when other work runs on the machine. Nothing is asserted; results are in ``junit.md`` beside this file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = "E   assert 1 == 2 and a line of a traceback\n" * 46

COUNT = """
import sys
from xml.parsers import expat
total = 0
def start(tag, attrs):
    global total
    total += tag == "testcase"
for path in sys.argv[1:]:
    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with open(path, "rb") as file:
        parser.ParseFile(file)
print(total)
"""
MANY = """
import sys
from pathlib import Path
from runner.junit import read_many
print(read_many(map(Path, sys.argv[1:])).total)
"""
EACH = """
import sys
from pathlib import Path
from runner.junit import read
print(sum(read(Path(p)).tally.total for p in sys.argv[1:]))
"""
WALK = """
import sys
from junitparser import JUnitXml
total = 0
for path in sys.argv[1:]:
    for suite in JUnitXml.fromfile(path):
        for case in suite:
            total += 1
            case.result
print(total)
"""
WRITE = """
import sys
from runner.facts import JUnitReport, Tally, TestCase, TestResult
from runner.records import Attempt, CellRecord, Run
from runner.junit import write
from runner.model import *
cells, tests = int(sys.argv[1]), int(sys.argv[2])
settings = CellSettings(image="i", suite=Suite(), limits=Limits(), devices=0)
bad = TestCase(name="test_bad", classname="tests.test_a", result=TestResult.FAILED, messages=("m " * 200,))
good = tuple(TestCase(name=f"test_{n}", classname="tests.test_a", time_s=0.5) for n in range(tests - 1))
report = JUnitReport(tally=Tally(total=tests, passed=tests - 1, failed=1), cases=(bad, *good))
failed = Verdict(outcome=Outcome.FAILED, culprit=Culprit.PRODUCT, cause="m")
every = [Cell.of({"platform": "cpu", "dtype": "bfloat16", "tp": str(n), "quantization": "none"}) for n in range(cells)]
entries = tuple(PlanEntry(cell=c, status=Status.PLANNED, settings=settings) for c in every)
attempt = Attempt(number=1, verdict=failed, failing=(bad,), tally=report.tally)
run = Run(run_id="r", plan=Plan(matrix="m", matrix_hash="0", axes={}, entries=entries), runtime="docker",
    runtime_detail="", inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts()),
    records=tuple(CellRecord(cell=c, verdict=failed, attempts=(attempt,)) for c in every))
print(len(write(run, {c.id: report for c in every})))
"""


@dataclass
class Candidate:
    name: str
    argv: list[str]
    floor: bool = False
    once: bool = False
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    said: str = ""


def testcase(number: int) -> str:
    head = f'<testcase classname="tests.mod_{number % 7}.TestIt" name="test_{number}[p-{number % 50}]" time="0.0{number % 10}"'
    if number % 20 == 3:
        return f'{head}><failure message="assert {number} == 0">{TEXT}</failure></testcase>'
    if number % 20 == 7:
        return f'{head}><skipped type="pytest.skip" message="needs 8 devices">x.py:1: needs 8 devices</skipped></testcase>'
    return f"{head}/>"


def make_small(folder: Path, files: int, cases: int) -> list[str]:
    body = "".join(map(testcase, range(cases)))
    bad = sum(n % 20 == 3 for n in range(cases))
    paths = []
    for number in range(files):
        path = folder / f"r{number}.xml"
        head = (
            f'<testsuite name="pytest" tests="{cases}" failures="{bad}" errors="0" hostname="node-{number}">'
        )
        path.write_text(
            f'<?xml version="1.0" encoding="utf-8"?><testsuites>{head}{body}</testsuite></testsuites>'
        )
        paths.append(str(path))
    return paths


def make_big(path: Path, size: int) -> None:
    def blocks() -> Iterator[str]:
        written = number = 0
        while written < size:
            block = "".join(map(testcase, range(number, number + 1_000)))
            number += 1_000
            written += len(block)
            yield block

    with path.open("w") as file:
        file.write('<testsuites><testsuite name="pytest">')
        file.writelines(blocks())
        file.write("</testsuite></testsuites>")


def measure(candidate: Candidate) -> None:
    read_end, write_end = os.pipe()
    started = time.perf_counter()
    child = subprocess.Popen(candidate.argv, stdout=write_end, env={**os.environ, "PYTHONPATH": str(ROOT)})
    _, status, usage = os.wait4(child.pid, 0)
    candidate.wall.append(time.perf_counter() - started)
    child.returncode = os.waitstatus_to_exitcode(status)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        candidate.said = pipe.read().strip()
    if child.returncode:
        sys.exit(f"{candidate.name}: exit code {child.returncode}")
    candidate.cpu.append(usage.ru_utime + usage.ru_stime)
    candidate.mib.append(usage.ru_maxrss / 1024)


def compare(title: str, candidates: list[Candidate], rounds: int) -> None:
    for turn in range(rounds):
        for candidate in candidates if turn % 2 == 0 else candidates[::-1]:
            if not (candidate.once and turn):
                measure(candidate)
    base = statistics.median(next(c for c in candidates if c.floor).cpu)
    print(
        f"\n{title}\n\n| what | CPU s (min-max) | ratio | wall s | peak MiB | result |\n| --- | --- | --- | --- | --- | --- |"
    )
    for c in candidates:
        cpu = statistics.median(c.cpu)
        spread = f"{cpu:.2f} ({min(c.cpu):.2f}-{max(c.cpu):.2f})"
        wall = statistics.median(c.wall)
        print(f"| {c.name} | {spread} | {cpu / base:.2f} | {wall:.2f} | {max(c.mib):.0f} | {c.said} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--big-mb", type=int, default=200)
    parser.add_argument(
        "--merge", default="100,400", help="numbers of files for junitparser merge, which is quadratic"
    )
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    python = [sys.executable, "-c"]
    with tempfile.TemporaryDirectory(prefix="junit-bench-") as name:
        folder = Path(name)
        paths, big, out = (
            make_small(folder, args.files, args.cases),
            str(folder / "big.xml"),
            str(folder / "out.xml"),
        )
        make_big(Path(big), args.big_mb * 1_000_000)
        for number in map(int, filter(None, args.merge.split(","))):
            some = paths[:number]
            merge = [sys.executable, "-m", "junitparser", "merge", *some, out]
            peers = [
                Candidate("read_many", [*python, MANY, *some], floor=True),
                Candidate("junitparser merge", merge, once=number > 200),
            ]
            compare(f"{number} files x {args.cases} tests", peers, args.rounds)
        for title, files in (
            (f"{args.files} files x {args.cases} tests", paths),
            (f"one file of {args.big_mb} MB", [big]),
        ):
            peers = [
                Candidate("bare expat, counting elements", [*python, COUNT, *files], floor=True),
                Candidate("read_many (totals)", [*python, MANY, *files]),
                Candidate("read (cases and messages)", [*python, EACH, *files]),
                Candidate("junitparser, read and walk", [*python, WALK, *files]),
            ]
            if files == [big]:  # of the many files it would take minutes: see the smaller sets
                peers.append(
                    Candidate(
                        "junitparser merge",
                        [sys.executable, "-m", "junitparser", "merge", big, out],
                        once=True,
                    )
                )
            compare(title, peers, args.rounds)
        peers = [
            Candidate("write, 1,000 cells x 10 tests", [*python, WRITE, "1000", "10"], floor=True),
            Candidate("write, 10,000 cells x 10 tests", [*python, WRITE, "10000", "10"]),
        ]
        compare("the merged file", peers, args.rounds)


if __name__ == "__main__":
    main()
