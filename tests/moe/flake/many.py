"""Many processes of one form, several at once on each device, and what they add up to. Needs no torch."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What to run: `processes` processes of `times` runs each, `at_once` of them at a time, over `devices`."""

    form: str
    model: Path
    out: Path
    processes: int
    times: int = 1
    at_once: int = 1
    devices: str = "0"
    limit: float = 600.0
    poison: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Wish:
        """From parsed arguments, of which only these are taken."""
        return cls(**{each.name: given[each.name] for each in fields(cls)})

    @property
    def name(self) -> str:
        """A word for files and tables."""
        mode = "fresh" if self.times == 1 else "shared"
        return f"{self.form}-{mode}{'-poison' if self.poison else ''}"


@dataclass
class _Child:
    number: int
    process: subprocess.Popen[bytes]
    results: Path
    log: Path


@dataclass
class _Count:
    results: list[dict[str, Any]] = field(default_factory=list)
    unfinished: int = 0


def wilson(bad: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a rate, 95% by default; (0, 1) where nothing was run."""
    if n == 0:
        return 0.0, 1.0
    rate = bad / n
    middle = rate + z * z / (2 * n)
    spread = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def run(wish: Wish) -> int:
    """Run all, write `DIR/NAME.json`, print one line; 0 where every counted run was good."""
    wish.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    deadline = began + wish.limit
    count = _Count()
    running: list[_Child] = []
    waiting = iter(range(wish.processes))
    left = wish.processes
    while (left or running) and time.monotonic() < deadline:
        while left and len(running) < wish.at_once:
            running.append(_start(wish, next(waiting)))
            left -= 1
        time.sleep(0.1)
        for child in [c for c in running if c.process.poll() is not None]:
            running.remove(child)
            _take(child, wish.times, count)
    for child in running:
        _end(child)
        _take(child, wish.times, count, cut=True)
    count.unfinished += left * wish.times
    said = summary(wish, count.results, count.unfinished, time.monotonic() - began)
    (wish.out / f"{wish.name}.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(line(said) + "\n")
    return 1 if said["bad"] else 0


def summary(wish: Wish, results: list[dict[str, Any]], unfinished: int, seconds: float) -> dict[str, Any]:
    """Counts, the rate with its interval, distinct answers and what went wrong."""
    bad = [r for r in results if not r["ok"]]
    low, high = wilson(len(bad), len(results))
    times = sorted(float(r["seconds"]) for r in results)
    return {
        "form": wish.form, "mode": "fresh" if wish.times == 1 else "shared", "poison": wish.poison,
        "wanted": wish.processes * wish.times, "n": len(results), "unfinished": unfinished, "bad": len(bad),
        "rate": [round(low, 4), round(high, 4)], "seconds": round(seconds, 1),
        "median_seconds": times[len(times) // 2] if times else None, "at_once": wish.at_once,
        "devices": wish.devices, "answers": dict(Counter(r["answer"] for r in results).most_common(8)),
        "problems": dict(Counter(p[:300] for r in bad for p in r["problems"]).most_common(8)),
    }  # fmt: skip


def line(said: Mapping[str, Any]) -> str:
    """One line for a person."""
    low, high = said["rate"]
    name = f"{said['form']}, {said['mode']}{', poisoned' if said['poison'] else ''}"
    return (
        f"{name}: {said['bad']} of {said['n']} bad (95%: {100 * low:.1f}% to {100 * high:.1f}%), "
        f"{said['unfinished']} not finished, {len(said['answers'])} different answers, {said['seconds']:.0f} s"
    )


def _start(wish: Wish, number: int) -> _Child:
    devices = wish.devices.split(",")
    results, log = (wish.out / f"{wish.name}-{number}{end}" for end in (".jsonl", ".log"))
    argv = [sys.executable, "-m", "flake", "one", "--form", wish.form, "--model", str(wish.model)]
    argv += ["--times", str(wish.times), "--results", str(results), *(["--poison"] if wish.poison else [])]
    paths = filter(None, (str(SUITE), os.environ.get("PYTHONPATH")))
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": devices[number % len(devices)],
        "PYTHONPATH": os.pathsep.join(paths),
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    return _Child(number, process, results, log)


def _end(child: _Child) -> None:
    try:
        os.killpg(child.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.process.wait()


def _take(child: _Child, times: int, count: _Count, *, cut: bool = False) -> None:
    """Add what a process wrote; one that died by itself before its last run adds a bad run."""
    found = list(_lines(child.results))
    count.results += found
    missing = times - len(found)
    if missing and not cut:
        count.results.append(
            {"ok": False, "problems": [f"exit {child.process.returncode}: {_last(child.log)}"],
             "answer": "", "seconds": 0.0}
        )  # fmt: skip
        missing -= 1
    count.unfinished += missing


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return
    for each in text.splitlines():
        yield json.loads(each)


def _last(log: Path) -> str:
    lines = [each for each in log.read_text("utf-8", "replace").splitlines() if each.strip()]
    return lines[-1][:200] if lines else "no output"
