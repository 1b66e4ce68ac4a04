"""Kills runners, containers and (in an engine of its own) the daemon at random instants, and looks at what is left.

    python tests/soak/soak.py --seeds 1-100 --results FILE [--private-engine]

Each seed starts one or two runners on cheap cells in real Docker, does something to them, starts the next run and then
asks: was a core given twice, is an orphan left, was a foreign container touched, can the folder be read, do outcomes
and missing cells add up to the plan, was a finished cell repeated. One JSON line per seed is appended to FILE; seeds
that are in it for the same code are not run again. The faults are seeded; the instant at which they meet a runner is
the scheduler's, so a seed does not repeat a run.
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT)]

from tests.soak.look import Decoys, code_digest, containers_of, double_leases, leases_held, read  # noqa: E402
from tests.soak.private_engine import PrivateEngine, engine_of_host  # noqa: E402

MATRIX = PROJECT / "tests" / "soak" / "matrix.yaml"
END_S = 120.0
FAULTS = ("kill runner", "kill runner", "kill runner", "kill container", "SIGTERM", "SIGINT")


@dataclass
class Runner:
    """One runner in a process of its own, and what is done to it."""

    process: subprocess.Popen[bytes]
    out: Path
    fault: str
    at_s: float
    code: int | None = None

    def folder(self) -> Path | None:
        """Its run folder, once there is one."""
        found = sorted(self.out.iterdir()) if self.out.is_dir() else []
        return found[-1] if found else None


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
        argv = [
            sys.executable,
            "-m",
            "runner",
            *options,
            "--runtime",
            "docker",
            "--jobs",
            "2",
            "--out",
            str(out),
        ]
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


def one_seed(number: int, place: Path, engine: PrivateEngine) -> dict[str, object]:
    """Run one seed; what happened and every problem."""
    rng = random.Random(number)
    began, seed = time.time(), Seed(number, place, engine)
    count = 2 if rng.random() < 0.4 else 1
    faults = (*FAULTS, *("kill daemon",) * 4) if engine.private else FAULTS
    # The first runner is always met; a second one lives on beside it more often than not.
    chosen = [rng.choice(faults)] + [rng.choice(("nothing", "nothing", *faults)) for _ in range(count - 1)]
    with Decoys(engine, orphan=rng.random() < 0.3) as decoys:
        runners = []
        for index, fault in enumerate(chosen):
            out = place / f"reports-{index}"
            runners.append(Runner(seed.start(out, str(MATRIX)), out, fault, rng.uniform(0.05, 2.6)))
        act(seed, runners, rng)
        for index, runner in enumerate(runners):
            runner.code = seed.ended(runner.process, f"runner {index} ({runner.fault})")
        for runner in runners:
            after(seed, runner)
        if not seed.resumed:
            seed.ended(seed.start(place / "reports-next", str(MATRIX), "-k", "case=a"), "the next run")
        check_rest(seed, decoys, began)
    return {
        "seed": number,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "faults": [f"{runner.fault} at {runner.at_s:.2f} s" for runner in runners],
        "ends": seed.ends,
        "seconds": round(time.time() - began, 1),
        "problems": seed.problems,
    }


def act(seed: Seed, runners: list[Runner], rng: random.Random) -> None:
    """Do to each runner what the seed says, at its instant."""
    began = time.monotonic()
    for runner in sorted(runners, key=lambda each: each.at_s):
        time.sleep(max(0.0, began + runner.at_s - time.monotonic()))
        if runner.fault == "kill runner":
            runner.process.kill()
        elif runner.fault in {"SIGTERM", "SIGINT"}:
            runner.process.send_signal(signal.Signals[runner.fault])
        elif runner.fault == "kill daemon":
            seed.engine.kill()
            time.sleep(rng.uniform(0.1, 1.0))
            seed.engine.start()
        elif runner.fault == "kill container":
            folder = runner.folder()
            found = containers_of(seed.engine, {folder.name}) if folder else []
            if found:
                with seed.engine.connect() as engine:
                    engine.kill(rng.choice(found), "SIGKILL")


def after(seed: Seed, runner: Runner) -> None:
    """What one runner left: readable, accounted for, and resumed to its end without repeating a finished cell."""
    folder = runner.folder()
    if folder is None or not (folder / "plan.json").is_file():
        return  # killed before it had written its plan: nothing was started
    problems, run = read(folder)
    seed.problems += problems
    if run is None:
        return
    if not run.finished:
        if runner.fault != "kill runner":
            seed.problems.append(f"{folder.name}: unfinished after {runner.fault} (exit {runner.code})")
        seed.resumed = True
        before = {path: path.read_bytes() for path in folder.glob("cells/*/cell.json")}
        seed.ended(seed.start(runner.out, "--resume", str(folder)), "the resumed run")
        seed.problems += [
            f"{path}: a finished cell was run again"
            for path, text in before.items()
            if path.read_bytes() != text
        ]
        problems, run = read(folder)
        seed.problems += problems
    if run is None or not run.finished or run.missing():
        seed.problems.append(f"{folder.name}: not every planned cell has a record after the resume")
        return
    allowed = {
        "kill container": {"killed"},
        "SIGTERM": {"cancelled"},
        "SIGINT": {"cancelled"},
        "kill daemon": {"infra"},
    }
    # A killed daemon takes the cells of both runners with it, so the other one's are not blamed.
    may = {"passed"}.union(
        *(allowed.get(fault, set()) for fault in (runner.fault, "kill daemon" if seed.engine.killed else ""))
    )
    for record in run.records:
        if record.verdict.outcome.value not in may:
            seed.problems.append(
                f"{folder.name}: {record.cell.id} is {record.verdict.outcome.value} after {runner.fault}: {record.verdict.cause}"
            )


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
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored, and so inherited, in a shell's background
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
