"""What runs inside a cell without an engine: the test log, the evidence and the process tree. Real processes, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).resolve().parents[2] / "runner"


def lines(path: Path) -> list[dict[str, Any]]:
    """Every line of a JSON lines file; a torn line would raise."""
    text = path.read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def cell(tmp_path: Path, out: Path | None = None) -> dict[str, str]:
    """Environment of a cell whose `out` is `out`, with `incell` importable the way the runner makes it."""
    where = tmp_path / "lib"
    where.mkdir(exist_ok=True)
    if not (where / "incell").exists():
        (where / "incell").symlink_to(RUNNER / "incell")
    described = tmp_path / "cell.json"
    described.write_text(json.dumps({"schema": 1, "id": "x", "axes": {}, "out": str(out or tmp_path)}))
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")}
    return {**kept, "MATRIX_CELL": str(described), "PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1"}


def suite(tmp_path: Path, text: str) -> Path:
    """A folder with one test file and its own configuration."""
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (folder / "test_it.py").write_text(text)
    return folder


def command(folder: Path, tmp_path: Path) -> list[str]:
    """The command the runner starts."""
    return [
        sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), "--rootdir", str(folder), str(folder),
        "--junitxml", str(tmp_path / "junit.xml"), "-p", "incell.testlog",
    ]  # fmt: skip


def wait_for(path: Path, text: str, process: subprocess.Popen[str]) -> None:
    """Waits until `path` holds `text`; fails where the process ends first."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and text in path.read_text():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    msg = f"{text!r} never came: {path.read_text() if path.exists() else 'no file'}"
    raise AssertionError(msg)


SUITE = """
import pytest
def test_passes(): pass
def test_fails(): assert 1 == 2, "one is not two" + "!" * 900
@pytest.mark.skip(reason="not today")
def test_skips(): pass
@pytest.fixture
def broken(): raise RuntimeError("no fixture")
def test_errors(broken): pass
"""


def test_log_has_every_event(tmp_path: Path) -> None:
    """Begin, results by phase, reasons, and the session's end."""
    done = subprocess.run(
        command(suite(tmp_path, SUITE), tmp_path),
        env=cell(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    log = lines(tmp_path / "tests.jsonl")
    assert [e["nodeid"] for e in log if e["event"] == "begin"] == [
        f"test_it.py::test_{name}" for name in ("passes", "fails", "skips", "errors")
    ]
    by = {(e["nodeid"].rpartition("_")[2], e["when"]): e for e in log if e["event"] == "result"}
    assert by["passes", "call"]["outcome"] == "passed"
    assert by["passes", "call"]["message"] == ""
    assert by["fails", "call"]["outcome"] == "failed"
    assert "one is not two" in by["fails", "call"]["message"]
    assert len(by["fails", "call"]["message"]) == 500
    assert by["skips", "setup"]["outcome"] == "skipped"
    assert "not today" in by["skips", "setup"]["message"]
    assert by["errors", "setup"]["outcome"] == "failed"
    assert "no fixture" in by["errors", "setup"]["message"]
    assert all(e["seconds"] >= 0 for e in by.values())
    assert log[-1]["event"] == "session_finish"
    assert log[-1]["exitstatus"] == 1
    assert all(abs(e["t"] - time.time()) < 300 for e in log)


def test_log_survives_a_kill(tmp_path: Path) -> None:
    """SIGKILL in the second test: the first is known to have passed, the second to have been running."""
    text = "import time\ndef test_first(): pass\ndef test_second(): time.sleep(600)\n"
    process = subprocess.Popen(
        command(suite(tmp_path, text), tmp_path), env=cell(tmp_path), stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(tmp_path / "tests.jsonl", "test_second", process)
        time.sleep(0.3)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    log = lines(tmp_path / "tests.jsonl")
    assert log[-1]["nodeid"].endswith("test_second")
    assert log[-1]["outcome"] == "passed"
    assert log[-1]["when"] == "setup"
    assert any(e.get("when") == "call" and e["nodeid"].endswith("test_first") for e in log)
    assert not any(e["event"] == "session_finish" for e in log)
    assert not (tmp_path / "junit.xml").exists()


def test_a_file_that_cannot_be_collected_is_logged(tmp_path: Path) -> None:
    """An import error is an event with the file and the error."""
    subprocess.run(
        command(suite(tmp_path, "import nothing_of_that_name\n"), tmp_path),
        env=cell(tmp_path), capture_output=True, check=False,
    )  # fmt: skip
    errors = [e for e in lines(tmp_path / "tests.jsonl") if e["event"] == "collect_error"]
    assert errors
    assert errors[0]["nodeid"] == "test_it.py"
    assert "nothing_of_that_name" in errors[0]["message"]


@pytest.mark.parametrize("trouble", ["no folder", "no cell", "bad cell"])
def test_a_log_that_cannot_be_written_fails_no_session(tmp_path: Path, trouble: str) -> None:
    """The tests run, and stderr says what is missing."""
    env = cell(tmp_path, out=tmp_path / "absent" if trouble == "no folder" else None)
    if trouble == "no cell":
        del env["MATRIX_CELL"]
    if trouble == "bad cell":
        Path(env["MATRIX_CELL"]).write_text("{")
    folder = suite(tmp_path, "def test_passes(): pass\n")
    done = subprocess.run(command(folder, tmp_path), env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "incell:" in done.stderr


EVIDENCE = """
import sys, time
from pathlib import Path
from incell.evidence import Evidence
evidence = Evidence(Path(sys.argv[1]))
evidence.start({"id": "x"}, every=0.1)
with evidence.phase("import"):
    sum(i * i for i in range(3_000_000))
    time.sleep(0.3)
evidence.write("rank", rank=0, layers=[{"name": "a"}], odd=Path("x"))
if sys.argv[2] == "end":
    evidence.end()
else:
    with evidence.phase("generate"):
        time.sleep(600)
"""


def test_evidence_format(tmp_path: Path) -> None:
    """Start first, end last, phases in pairs with seconds, heartbeats with processor time."""
    path = tmp_path / "evidence.jsonl"
    subprocess.run([sys.executable, "-c", EVIDENCE, str(path), "end"], env=cell(tmp_path), check=True)
    written = lines(path)
    assert written[0]["event"] == "start"
    assert written[0]["schema"] == 1
    assert written[0]["cell"] == {"id": "x"}
    assert written[-1]["event"] == "end"
    phases = [(e["phase"], e["state"]) for e in written if e["event"] == "phase"]
    assert phases == [("import", "begin"), ("import", "end")]
    assert next(e for e in written if e.get("state") == "end")["seconds"] >= 0.3
    beats = [e for e in written if e["event"] == "heartbeat"]
    assert beats
    assert beats[0]["phase"] == "import"
    assert beats[-1]["cpu_seconds"] > 0
    assert next(e for e in written if e["event"] == "rank")["odd"] == "x"


def test_evidence_survives_a_kill(tmp_path: Path) -> None:
    """The phase that was running is the one without an end, and no line is torn."""
    path = tmp_path / "evidence.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", EVIDENCE, str(path), "hang"],
        env=cell(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(path, '"phase": "generate", "state": "begin"', process)
        time.sleep(0.4)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    written = lines(path)
    assert not any(e["event"] == "end" for e in written)
    assert not any(e.get("phase") == "generate" and e.get("state") == "end" for e in written)
    assert written[-1]["event"] == "heartbeat"
    assert written[-1]["phase"] == "generate"


def test_evidence_without_a_folder_says_so_and_goes_on(tmp_path: Path) -> None:
    """No exception, one line on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", EVIDENCE, str(tmp_path / "absent" / "evidence.jsonl"), "end"],
        env=cell(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.count("incell: cannot write") == 1


def test_a_phase_that_fails_has_no_end(tmp_path: Path) -> None:
    """What raised did not end; an unknown phase is refused."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom incell.evidence import Evidence\n"
        "evidence = Evidence(Path(sys.argv[1]))\n"
        "try:\n    with evidence.phase('load'):\n        raise RuntimeError('x')\nexcept RuntimeError:\n    pass\n"
        "try:\n    with evidence.phase('lunch'):\n        pass\nexcept ValueError:\n    print('refused')\n"
    )
    path = tmp_path / "evidence.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env=cell(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "refused"
    assert [(e["phase"], e["state"]) for e in lines(path)] == [("load", "begin")]


TREE = """
import os, subprocess, sys, time
from incell.proctree import cpu_seconds, descendants
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
time.sleep(1.5)
busy = cpu_seconds(os.getpid())
seen = [p.pid for p in descendants(os.getpid())] == [child.pid]
child.kill()
time.sleep(0.2)
zombie_left_out = descendants(os.getpid()) == []
child.wait()
print(busy > 0.3, seen, zombie_left_out)
"""


def test_process_tree(tmp_path: Path) -> None:
    """A child's processor time counts, a live child is found, a zombie is not alive."""
    done = subprocess.run(
        [sys.executable, "-c", TREE],
        env=cell(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["True", "True", "True"]


def test_incell_needs_nothing_but_the_standard_library_and_pytest() -> None:
    """It is copied into images that have no runner."""
    import ast

    for path in (RUNNER / "incell").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                assert top in sys.stdlib_module_names or top in ("incell", "pytest"), (
                    f"{path.name} imports {name}"
                )
