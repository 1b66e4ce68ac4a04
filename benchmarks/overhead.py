"""What a run costs beside its containers: 40 cells that do nothing, two at a time, against ``xargs -P2 docker run --rm``.

    python benchmarks/overhead.py [--rounds N] [--cells N]

Both start the same image with the same limits, mounts and command. Rounds are interleaved, so that other work on the
machine meets both. The runner does all that it always does: start-up, sweep, inventory, leases, health, evidence,
collection, hashes, durable writes, page. Nothing is switched off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT)]

from runner.runtimes import find  # noqa: E402

CHEAP = "tests/runner/runtimes/data/cheap"
CELL = """echo '<testsuites><testsuite name="s"><testcase classname="c" name="t"/></testsuite></testsuites>' > "$1/junit.xml"\n"""
MATRIX = """\
version: 1
suite: {{path: suite, proof: tests, command: [sh, "{{suite}}/cell.sh", "{{out}}"]}}
axes: {{platform: [cpu], case: [{cases}]}}
platforms: {{cpu: {{image: "{image}"}}}}
limits: {{memory: 100m, total: 5m}}
"""


def plain(place: Path, image: str, cells: int) -> float:
    """Seconds for the same containers under xargs."""
    out = Path(tempfile.mkdtemp(dir=place))
    out.chmod(0o777)
    user = "65532:65532" if os.getuid() == 0 else f"{os.getuid()}:{os.getgid()}"
    options = [
        "--rm", "--init", "--network", "none", "--read-only", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--ipc", "private", "--pids-limit", "4096", "--shm-size", "1g",
        "--memory", "100m", "--memory-swap", "100m", "--ulimit", "core=0",
        "--tmpfs", f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={2 << 30}", "--workdir", "/tmp", "--user", user,
        "-v", f"{place}/suite:/suite:ro", "-v", f"{place}/cell:/cell:ro", "-v", f"{PROJECT}/runner:/matrix:ro",
        "-v", f"{out}:/out",
    ]  # fmt: skip
    command = ["xargs", "-P2", "-I", "{}", "docker", "run", *options, image, "sh", "/suite/cell.sh", "/out"]
    began = time.monotonic()
    subprocess.run(command, input="\n".join(map(str, range(cells))), text=True, check=True)
    return time.monotonic() - began


def whole(place: Path) -> tuple[float, float]:
    """Seconds for a whole run of the program, and the seconds its containers lived in the middle (median of cells)."""
    out = Path(tempfile.mkdtemp(dir=place))
    argv = [
        sys.executable,
        "-m",
        "runner",
        "matrix.yaml",
        "--runtime",
        "docker",
        "--jobs",
        "2",
        "--out",
        str(out),
    ]
    if os.getuid() == 0:  # other runs of this host hold cores; they are not what is measured
        locks = Path(tempfile.mkdtemp(dir=place))
        locks.chmod(0o1777)
        script = 'mount --bind "$0" /run/lock && exec "$@"'
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(locks), *argv]
    began = time.monotonic()
    subprocess.run(
        argv, cwd=place, env={**os.environ, "PYTHONPATH": str(PROJECT)}, check=True, stdout=subprocess.DEVNULL
    )
    took = time.monotonic() - began
    records = json.loads(next(out.glob("*/run.json")).read_text())["data"]["records"]
    cells = [record["duration_s"] - record["attempts"][0]["exit"]["duration_s"] for record in records]
    return took, statistics.median(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overhead-") as name:
        place = Path(name)
        place.chmod(0o755)
        for folder in ("suite", "cell"):
            (place / folder).mkdir()
        (place / "suite" / "cell.sh").write_text(CELL)
        cases = ", ".join(f"c{number}" for number in range(args.cells))
        (place / "matrix.yaml").write_text(MATRIX.format(cases=cases, image=PROJECT / CHEAP))
        runtime = find("docker", root=PROJECT, cache=PROJECT / ".cache" / "runtimes")
        image = runtime.image(CHEAP, place / "build.log").ref
        ratios = []
        for number in range(args.rounds):
            bare = plain(place, image, args.cells)
            took, around = whole(place)
            ratios.append(took / bare)
            own = (took - bare) / args.cells
            print(
                f"round {number + 1}: containers alone {bare:.1f} s, whole run {took:.1f} s, ratio {took / bare:.2f}; "
                f"own time per cell {1000 * own:+.0f} ms, around a container's life {1000 * around:.0f} ms",
                flush=True,
            )
        print(f"ratio, median of {args.rounds} rounds: {statistics.median(ratios):.2f} (goal 1.25)")


if __name__ == "__main__":
    main()
