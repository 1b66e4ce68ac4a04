"""Counting of the flake tool: what a run is, what a dead process counts as, and the interval beside the count."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.moe.flake import many
from tests.moe.flake.many import Wish

GOOD = {"ok": True, "problems": [], "answer": "a", "seconds": 1.0}


@pytest.mark.parametrize(
    ("bad", "n", "low", "high"),
    [
        # Wilson's score interval at z = 1.96, by its formula worked out in another way: the roots of
        # (p - k/n)^2 = z^2 p (1 - p) / n.
        (0, 50, 0.0, 0.0713),
        (0, 100, 0.0, 0.0370),
        (0, 250, 0.0, 0.0151),
        (1, 50, 0.0035, 0.1050),
        (5, 10, 0.2366, 0.7634),
        (50, 50, 0.9287, 1.0),
        (0, 1, 0.0, 0.7935),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_is_wilsons(bad: int, n: int, low: float, high: float) -> None:
    found = many.wilson(bad, n)
    assert found == pytest.approx((low, high), abs=1e-4)
    for end in found if 0 < bad < n else ():
        assert (end - bad / n) ** 2 == pytest.approx(1.96**2 * end * (1 - end) / n)


@pytest.mark.parametrize("n", [1, 7, 50, 300])
def test_the_interval_holds_the_rate_and_mirrors(n: int) -> None:
    for bad in range(n + 1):
        low, high = many.wilson(bad, n)
        assert 0 <= low <= bad / n + 1e-12 <= high + 2e-12 <= 1 + 2e-12
        mirrored = many.wilson(n - bad, n)
        assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-12)
    assert math.isclose(many.wilson(0, n)[1], 1.96**2 / (n + 1.96**2))


def wish(out: Path, **other: Any) -> Wish:
    return Wish(**{"form": "bare", "model": Path("m"), "out": out, "processes": 2, "times": 3, **other})


def test_a_summary_counts_runs_answers_and_problems(tmp_path: Path) -> None:
    bad = {"ok": False, "problems": ["logits: 3 of 259 not finite"], "answer": "b", "seconds": 9.0}
    said = many.summary(wish(tmp_path), [GOOD, bad, GOOD, GOOD], unfinished=2, seconds=12.34)
    assert (said["wanted"], said["n"], said["bad"], said["unfinished"]) == (6, 4, 1, 2)
    assert said["rate"] == [0.0456, 0.6994]
    assert said["answers"] == {"a": 3, "b": 1}
    assert said["problems"] == {"logits: 3 of 259 not finite": 1}
    assert (said["mode"], said["median_seconds"], said["seconds"]) == ("shared", 1.0, 12.3)
    assert many.line(said) == (
        "bare, shared: 1 of 4 bad (95%: 4.6% to 69.9%), 2 not finished, 2 different answers, 12 s"
    )


def test_nothing_run_is_no_rate(tmp_path: Path) -> None:
    said = many.summary(wish(tmp_path), [], unfinished=6, seconds=1.0)
    assert (said["n"], said["rate"], said["median_seconds"]) == (0, [0.0, 1.0], None)


@pytest.mark.parametrize(
    ("times", "poison", "name"),
    [(1, False, "bare-fresh"), (3, False, "bare-shared"), (3, True, "bare-shared-poison")],
)
def test_a_row_is_named_by_its_definition(tmp_path: Path, times: int, poison: bool, name: str) -> None:
    assert wish(tmp_path, times=times, poison=poison).name == name


def ended(folder: Path, code: int, results: list[dict[str, Any]], log: str = "") -> many._Child:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"], start_new_session=True)
    process.wait()
    (folder / "r.jsonl").write_text("".join(json.dumps(each) + "\n" for each in results))
    (folder / "r.log").write_text(log)
    return many._Child(0, process, folder / "r.jsonl", folder / "r.log")


def test_a_process_that_died_counts_as_one_bad_run_and_the_rest_as_not_run(tmp_path: Path) -> None:
    count = many._Count()
    many._take(ended(tmp_path, 139, [GOOD], "a\nSegmentation fault\n\n"), 4, count)
    assert [each["ok"] for each in count.results] == [True, False]
    assert count.results[1]["problems"] == ["exit 139: Segmentation fault"]
    assert count.unfinished == 2


def test_a_process_that_was_cut_off_counts_only_what_it_finished(tmp_path: Path) -> None:
    count = many._Count()
    many._take(ended(tmp_path, 1, [GOOD]), 4, count, cut=True)
    assert (len(count.results), count.unfinished) == (1, 3)


def test_a_process_without_any_output_says_so(tmp_path: Path) -> None:
    child = ended(tmp_path, 1, [])
    child.results.unlink()
    count = many._Count()
    many._take(child, 1, count)
    assert count.results[0]["problems"] == ["exit 1: no output"]
    assert count.unfinished == 0


def test_real_processes_are_counted_and_what_does_not_fit_the_limit_is_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real loop over real processes of another program: 3 of 4 write a result, one of them a bad one, one dies."""
    program = (
        "import json, sys; n = int(sys.argv[1]); out = sys.argv[2]\n"
        "if n == 3: sys.exit('no device')\n"
        "open(out, 'a').write(json.dumps({'ok': n != 1, 'problems': ['bad'] if n == 1 else [],"
        " 'answer': 'same', 'seconds': n}) + chr(10))\n"
    )

    def start(wanted: Wish, number: int) -> many._Child:
        results, log = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.log"
        with log.open("wb") as file:
            argv = [sys.executable, "-S", "-c", program, str(number), str(results)]
            process = subprocess.Popen(argv, stdout=file, stderr=file, start_new_session=True)
        return many._Child(number, process, results, log)

    monkeypatch.setattr(many, "_start", start)
    assert many.run(wish(tmp_path, processes=4, times=1, at_once=2, limit=60)) == 1
    said = json.loads((tmp_path / "bare-fresh.json").read_text())
    assert (said["n"], said["bad"], said["unfinished"]) == (4, 2, 0)
    assert said["problems"] == {"bad": 1, "exit 1: no device": 1}
    assert capsys.readouterr().out.startswith("bare, fresh: 2 of 4 bad (95%: 15.0% to 85.0%), 0 not finished")
    assert many.run(wish(tmp_path, processes=4, times=2, limit=0.0)) == 0
    assert json.loads((tmp_path / "bare-shared.json").read_text())["unfinished"] == 8
