"""Twenty seeds of the soak: runners and containers killed at random instants, and nothing lost, left or touched."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]


@pytest.mark.docker
@pytest.mark.timeout(900)
def test_twenty_seeds_lose_leave_and_touch_nothing(docker_runtime: object, tmp_path: Path) -> None:
    results = tmp_path / "soak.jsonl"
    argv = [sys.executable, "tests/soak/soak.py", "--seeds", "1-20", "--results", str(results)]
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["seed"] for line in lines] == list(range(1, 21)), done.stderr
    assert [line["problems"] for line in lines] == [[]] * 20, done.stdout
    assert done.returncode == 0
