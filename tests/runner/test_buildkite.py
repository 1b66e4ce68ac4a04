"""The step's script of the Buildkite example, run as the agent runs it, with stand-ins for what it starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "buildkite" / "run.sh"
RUNNER = """\
#!/usr/bin/env bash
# Stops as the runner does: the folder is whole a moment after the signal.
end() { sleep 0.3; mkdir -p "$6/run"; echo "1 of 6 cells" > "$6/run/summary.md"; exit "$1"; }
trap 'end 143 "$@"' TERM
[ "$3" = m.yaml ] || exit 99
touch started
[ -n "${HOLD:-}" ] || end 10 "$@"
while :; do sleep 0.05; done
"""
AGENT = """\
#!/bin/sh
{ echo "$@"; cat; } >> annotations
exit "${AGENT_CODE:-0}"
"""


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """A checkout with the script, a runner, a ``make`` and an agent."""
    for name, text in {
        ".venv/bin/python": RUNNER,
        "bin/make": "#!/bin/sh\nexit 0\n",
        "bin/buildkite-agent": AGENT,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    (tmp_path / "examples" / "buildkite").mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "examples" / "buildkite" / "run.sh")
    return tmp_path


def start(step: Path, **more: str) -> subprocess.Popen[bytes]:
    environ = {"PATH": f"{step / 'bin'}:{os.environ['PATH']}", "MATRIX": "m.yaml", **more}
    return subprocess.Popen([step / "examples" / "buildkite" / "run.sh"], env=environ, start_new_session=True)


def test_a_cancelled_build_waits_for_the_runner_and_annotates_what_is_known(step: Path) -> None:
    with start(step, HOLD="1") as process:
        until = time.monotonic() + 20
        while not (step / "started").exists() and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(20) == 143
    assert (
        step / "annotations"
    ).read_text() == "annotate --context vllm-matrix --style error\n1 of 6 cells\n"


@pytest.mark.parametrize("agent", ["0", "1"])
def test_the_exit_code_is_the_runners_whatever_the_annotation_does(step: Path, agent: str) -> None:
    with start(step, AGENT_CODE=agent) as process:
        assert process.wait(20) == 10
    assert (step / "annotations").read_text().endswith("1 of 6 cells\n")
