"""Kills runners, containers and (in an engine of its own) the daemon at random instants, and looks at what is left.

    python tests/soak/soak.py --seeds 1-100 --results FILE [--private-engine]

Each seed starts one or two runners on cheap cells in real Docker, does something to them while they start, prepare, run
cells or finish, starts the next run (or resumes what was cut, and perhaps kills that too) and asks: did a runner that
ended by itself leave a container or a lease, did it end within 10 s of a signal and with its code, was a core given
twice, is an orphan left, was a foreign container or process touched, can the folder be read, do outcomes and missing
cells add up to the plan, was a finished cell repeated. One JSON line per seed is appended to FILE; seeds that are in it
for the same code are not run again. The faults are seeded; the instant at which they meet a runner is the scheduler's,
so a seed does not repeat a run: ``faults`` says where it did. Two soaks side by side take two FILEs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT)]

from runner.records import Run  # noqa: E402
from tests.soak.faults import ALLOWED, DAEMON, NOTHING, Fault, Runner, Striker, draw  # noqa: E402
from tests.soak.look import Decoys, code_digest, containers_of, double_leases, leases_held, read  # noqa: E402
from tests.soak.private_engine import PrivateEngine, engine_of_host  # noqa: E402

MATRIX = PROJECT / "tests" / "soak" / "matrix.yaml"
END_S = 75.0
"""How long a runner may take in all, seconds: four cheap cells, and an engine that is away for some ten."""
STOP_S = 10.0
"""How long a runner may take from a signal to its end, seconds."""


@dataclass
class Seed:
    """One seed at work."""

    number: int
    place: Path
    engine: PrivateEngine
    problems: list[str] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    resumed: bool = False

    def start(self, out: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start the program as a user does. As root it sees a lock folder that no run outside of this seed shares."""
        argv = [sys.executable, "-m", "runner", *options]
        if "--resume" not in options:  # a resumed run has these from its folder
            argv += ["--runtime", "docker", "--jobs", "2", "--out", str(out)]
        locks = self.place / "lock"
        locks.mkdir(exist_ok=True)
        locks.chmod(0o1777)
        if os.getuid() == 0:
            script = 'mount --bind "$0" /run/lock && exec "$@"'
            argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(locks), *argv]
        log = (self.place / "runners.log").open("ab")
        with log:
            return subprocess.Popen(
                argv, cwd=self.place, env=self.engine.environ(PROJECT), stdout=log, stderr=subprocess.STDOUT
            )

    def ended(self, process: subprocess.Popen[bytes], what: str) -> int | None:
        """Wait for a runner; one that does not end is a problem."""
        try:
            code = process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.problems.append(f"{what} did not end within {END_S:g} s")
            process.kill()
            code = process.wait()
        self.ends.append(code)
        return code


def one_seed(
    number: int, place: Path, engine: PrivateEngine, faults: Sequence[Fault] | None = None
) -> dict[str, object]:
    """Run one seed, with these faults or with what the seed draws; what happened and every problem."""
    rng = random.Random(number)
    began, seed = time.time(), Seed(number, place, engine)
    count = 2 if rng.random() < 0.4 else 1
    # The first runner is always met; a second one lives on beside it more often than not.
    drawn = [draw(rng, private=engine.private, spare=index > 0) for index in range(count)]
    with Decoys(engine, orphan=rng.random() < 0.3) as decoys:
        runners = []
        for index, fault in enumerate(faults or drawn):
            out = place / f"reports-{index}"
            runners.append(Runner(seed.start(out, str(MATRIX)), out, fault))
        strikers = [Striker(runner, engine) for runner in runners if runner.fault is not NOTHING]
        for index, runner in enumerate(runners):
            runner.code = seed.ended(runner.process, f"runner {index} ({runner.fault.kind})")
            runner.ended_at = time.monotonic()
        for striker in strikers:
            striker.join()
        before_the_next_start(seed, runners)
        for runner in runners:
            after(seed, runner, rng)
        if not seed.resumed:
            seed.ended(seed.start(place / "reports-next", str(MATRIX), "-k", "case=a"), "the next run")
        check_rest(seed, decoys, began)
    return {
        "seed": number,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "faults": [f"{runner.fault.kind} in {runner.met or 'nothing'}" for runner in runners],
        "notes": [note for runner in runners for note in runner.notes],
        "ends": seed.ends,
        "seconds": round(time.time() - began, 1),
        "problems": seed.problems,
    }


def before_the_next_start(seed: Seed, runners: list[Runner]) -> None:
    """What a runner that ended by itself must have done itself: the next start would hide that it has not."""
    if seed.engine.killed or any(runner.fault.kind in DAEMON for runner in runners):
        return
    alive = [runner for runner in runners if runner.code != -signal.SIGKILL]
    for runner in alive:
        folder = runner.folder()
        left = containers_of(seed.engine, {folder.name}) if folder else []
        seed.problems += [f"container {name[:12]} left by a runner that ended by itself" for name in left]
        fault = runner.fault
        if fault.asks and runner.met in {"preparing", "running"}:
            if runner.code != (130 if fault.kind == "SIGINT" else 143):
                seed.problems.append(f"exit {runner.code} after {fault.kind} in {runner.met}")
            if len(runners) == 1 and runner.ended_at - runner.struck_at > STOP_S:
                seed.problems.append(
                    f"{runner.ended_at - runner.struck_at:.1f} s from {fault.kind} to the end"
                )
    if len(alive) == len(runners):
        seed.problems += [
            f"still leased by a runner that ended by itself: {each}"
            for each in leases_held(seed.place / "lock" / "vllm-matrix")
        ]


def after(seed: Seed, runner: Runner, rng: random.Random) -> None:
    """What one runner left: readable, accounted for, and resumed to its end without repeating a finished cell."""
    folder = runner.folder()
    if folder is None or not (folder / "plan.json").is_file():
        return  # killed before it had written its plan: nothing was started
    problems, run = read(folder)
    seed.problems += problems
    if run is None:
        return
    if not run.finished:
        if runner.fault.kind != "kill runner":
            seed.problems.append(f"{folder.name}: unfinished after {runner.fault} (exit {runner.code})")
        run = resumed(seed, runner.out, folder, rng)
    if run is None or not run.finished or run.missing():
        seed.problems.append(f"{folder.name}: not every planned cell has a record after the resume")
        return
    # A daemon's fault meets the cells of both runners, so the other one's are not blamed.
    kinds = {runner.fault.kind, *(DAEMON if seed.engine.killed else ())}
    may = {"passed"}.union(*(ALLOWED.get(kind, set()) for kind in kinds))
    seed.problems += [
        f"{folder.name}: {each.cell.id} is {each.verdict.outcome.value} after {runner.fault}: {each.verdict.cause}"
        for each in run.records
        if each.verdict.outcome.value not in may
    ]


def resumed(seed: Seed, out: Path, folder: Path, rng: random.Random) -> Run | None:
    """Finish a run that was cut; now and then the runner that does so is killed as well."""
    seed.resumed = True
    before = {path: path.read_bytes() for path in folder.glob("cells/*/cell.json")}
    if rng.random() < 0.25:
        again = seed.start(out, "--resume", str(folder))
        with contextlib.suppress(subprocess.TimeoutExpired):
            again.wait(rng.uniform(0.3, 3.0))
        again.kill()
        seed.ended(again, "the resumed run")
    if not read(folder)[1] or not (folder / "run.json").is_file():
        seed.ended(seed.start(out, "--resume", str(folder)), "the resumed run")
    seed.problems += [
        f"{path}: a finished cell was run again" for path, text in before.items() if path.read_bytes() != text
    ]
    problems, run = read(folder)
    seed.problems += problems
    return run


def check_rest(seed: Seed, decoys: Decoys, began: float) -> None:
    """What is left on the host after the next start."""
    runs = {path.name for out in seed.place.glob("reports-*") for path in out.iterdir()}
    seed.problems += [f"orphan: container {name}" for name in containers_of(seed.engine, runs)]
    seed.problems += decoys.problems()
    seed.problems += [f"still leased: {each}" for each in leases_held(seed.place / "lock" / "vllm-matrix")]
    seed.problems += double_leases(seed.engine, seed.place, runs, began)


def wanted(text: str) -> range:
    """``a-b`` as a range, both ends in it."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def done_before(results: Path, code: str, engine: str) -> set[int]:
    """Seeds that the file has for this code."""
    if not results.is_file():
        return set()
    lines = map(json.loads, results.read_text().splitlines())
    return {line["seed"] for line in lines if line["code"] == code and line["engine"] == engine}


@contextlib.contextmanager
def workplace(number: int) -> Iterator[Path]:
    """A folder of one seed; it stays where something went wrong."""
    place = Path(tempfile.mkdtemp(prefix=f"soak-{number}-"))
    place.chmod(0o755)
    yield place
    subprocess.run(["rm", "-rf", str(place)], check=False)


def main() -> int:
    """Run the seeds; 1 where one has a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=wanted, required=True, metavar="A-B")
    parser.add_argument("--results", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--private-engine", action="store_true", help="an engine of its own, whose daemon is killed too"
    )
    args = parser.parse_args()
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # so that a private engine is ended; a shell's background ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    code, bad = code_digest(PROJECT), 0
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    ).stdout.strip()
    name = "private" if args.private_engine else "host"
    skip = done_before(args.results, code, name)
    with PrivateEngine.started(PROJECT) if args.private_engine else engine_of_host() as engine:
        for number in args.seeds:
            if number in skip:
                continue
            engine.killed = False
            with workplace(number) as place:
                line = one_seed(number, place, engine)
                line |= {"commit": commit, "code": code, "engine": name}
                with args.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                sys.stdout.write(
                    f"seed {number}: {line['seconds']} s, {line['faults']}, ends {line['ends']}\n"
                )
                for problem in line["problems"]:  # type: ignore[attr-defined]
                    sys.stdout.write(f"  PROBLEM {problem}\n")
                sys.stdout.flush()
                if line["problems"]:
                    bad += 1
                    kept = place.rename(f"{place}-kept")
                    sys.stdout.write(f"  kept: {kept}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
