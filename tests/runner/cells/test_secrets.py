"""A token reaches the cell that names it, and nothing that the run leaves: a real process that spreads it everywhere."""

from __future__ import annotations

import base64
import contextlib
import random
import resource
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from runner import codec
from runner.cells import CellWork, run_cell
from runner.facts import HandOver, PreparedImage
from runner.interrupt import CancelToken
from runner.machine import Given
from runner.model import Cell, CellSettings, Culprit, Limits, Outcome, PlanEntry, Proof, Status, Suite
from runner.records import CellRecord, Prepared
from runner.runtimes import find

TOKEN = "hf_Zk3/plus+and=more"
SPREAD = """\
import base64, os, pathlib, sys, urllib.parse
out = pathlib.Path(sys.argv[1])
token = os.environ.get("HF_TOKEN", "none was given")
print("log", token, urllib.parse.quote(token, safe=""), base64.b64encode(("user:" + token).encode()).decode(), flush=True)
sys.stdout.write(token[:5]); sys.stdout.flush()
sys.stdout.write(token[5:]); sys.stdout.flush()
out.joinpath("evidence.jsonl").write_text('{"event": "note", "said": "%s"}\\n' % token)
out.joinpath("deep").mkdir()
out.joinpath("deep", "note-" + token[:7].replace("/", "") + ".txt").write_bytes(b"\\xff" + token.encode())
out.joinpath("junit.xml").write_text(
    '<testsuites><testsuite name="s"><testcase classname="c" name="t"><failure message="got %s">%s</failure>'
    '</testcase></testsuite></testsuites>' % (token, token))
sys.exit(1)
"""


class Held:
    hand_over: HandOver = HandOver(how="none")
    given: Given | None = None
    device_ids: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def after(self) -> tuple[str, ...]:
        return ()

    def abandon(self, handle: str) -> None:
        raise AssertionError


class Host:
    """A host without devices."""

    @contextlib.contextmanager
    def lease(self, entry: PlanEntry, avoid: tuple[str, ...] = ()) -> Iterator[Held]:
        yield Held()

    def blame(
        self, entry: PlanEntry, device_ids: tuple[str, ...], cause: str, *, lasts: bool, closes: bool
    ) -> bool:
        raise AssertionError


def run(
    folder: Path, secrets: tuple[str, ...], environ: Mapping[str, str], source: str = SPREAD, name: str = ""
) -> CellRecord:
    """Run a program as a cell, or under ``name`` tests."""
    (folder / "suite").mkdir()
    (folder / "suite" / (name or "spread.py")).write_text(source)
    python = sys.executable
    command = () if name else (python, "{suite}/spread.py", "{out}")
    suite = Suite(path="suite", proof=Proof.TESTS, command=command)
    settings = CellSettings(image="i", suite=suite, limits=Limits(), devices=0, secrets=secrets)
    entry = PlanEntry(cell=Cell.of({"platform": "cpu"}), status=Status.PLANNED, settings=settings)
    image = PreparedImage(ref=str(Path(sys.prefix)), digest="sha256:0", how="as found", python=python)
    work = CellWork(
        runtime=find("process", root=folder, cache=folder / "cache"),
        prepared=Prepared(images={"i": image}),
        root=folder,
        run_id="r",
        labels=lambda cell: {},
        hosting=Host(),
        cancel=CancelToken(),
        infra_retries=0,
        repeat=1,
        until_fail=False,
        expect_engine=None,
        note=lambda line: None,
        environ=environ,
    )
    return run_cell(entry, folder / "cell", work)


def everything(folder: Path, record: CellRecord) -> bytes:
    """Every byte that the cell left, names of files and the record included."""
    files = [path for path in (folder / "cell").rglob("*") if path.is_file()]
    names = "\n".join(str(path.relative_to(folder)) for path in files).encode()
    return names + b"".join(path.read_bytes() for path in files) + codec.dumps(record)


def test_a_named_token_reaches_the_cell_and_is_nowhere_in_what_it_leaves(tmp_path: Path) -> None:
    record = run(tmp_path, ("HF_TOKEN",), {"HF_TOKEN": TOKEN})
    left = everything(tmp_path, record)
    assert b"none was given" not in left
    assert left.count(b"[secret HF_TOKEN]") >= 8
    for spelling in (
        TOKEN,
        quote(TOKEN, safe=""),
        base64.b64encode(b"user:" + TOKEN.encode()).decode()[8:-2],
    ):
        assert spelling.encode() not in left
    assert (record.verdict.outcome, record.verdict.cause) == (Outcome.FAILED, "t: got [secret HF_TOKEN]")
    (attempt,) = record.attempts
    assert attempt.failing[0].messages[0].startswith("got [secret HF_TOKEN]")
    assert "a secret was taken out of junit.xml" in record.verdict.remarks


BODY = textwrap.wrap(base64.b64encode(random.Random(3).randbytes(600)).decode(), 64)
KEY = "\n".join(("-----BEGIN PRIVATE KEY-----", *BODY, "-----END PRIVATE KEY-----", ""))
TESTS = """\
import base64, json, logging, os, sys, warnings
KEY = os.environ["KEY"]
def test_message():
    raise AssertionError(f"cannot sign with {KEY}")
def test_comparison():
    print(KEY, repr(KEY), json.dumps(KEY), base64.encodebytes(KEY.encode()).decode(), file=sys.stderr)
    assert KEY.split("\\n") == [KEY, "no key"]
def test_log():
    logging.getLogger("x").error("with %s", KEY)
    warnings.warn(KEY)
    assert {"key": KEY} == json.loads("{}")
"""


def test_no_line_of_a_key_is_in_what_pytest_leaves(tmp_path: Path) -> None:
    record = run(tmp_path, ("KEY",), {"KEY": KEY}, TESTS, "test_key.py")
    assert record.verdict.outcome is Outcome.FAILED
    (attempt,) = record.attempts
    assert attempt.tally is not None
    assert attempt.tally.failed == 3
    left = everything(tmp_path, record)
    assert left.count(b"[secret KEY]") > 100
    for line in BODY[:-1]:
        assert line.encode() not in left
        assert base64.b64encode(line.encode())[4:-4] not in left


FULL = """\
import os, pathlib, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
out = pathlib.Path(sys.argv[1])
token = os.environ["HF_TOKEN"]
filler = "x" * 100_000
out.joinpath("x.txt").write_text(filler + token)
out.joinpath("junit.xml").write_text(
    '<testsuites><testsuite name="s"><testcase classname="c" name="t"><failure message="got %s">%s</failure>'
    '</testcase></testsuite></testsuites>' % (token, filler))
sys.exit(1)
"""


def test_a_disk_that_is_full_when_secrets_are_taken_out_costs_a_file_and_no_verdict(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        record = run(tmp_path, ("HF_TOKEN",), {"HF_TOKEN": TOKEN}, FULL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (record.verdict.outcome, record.verdict.cause) == (Outcome.FAILED, "t: got " + "*" * len(TOKEN))
    assert TOKEN.encode() not in everything(tmp_path, record)
    gone = "x.txt was removed: it could not be searched for secrets (File too large)"
    assert gone in record.verdict.remarks
    assert "attempt-1/x.txt" not in record.attempts[0].files
    assert "attempt-1/junit.xml" in record.attempts[0].files


ODDITIES = """\
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[1])
for name in ("evidence.jsonl", "junit.xml", "tests.jsonl", "engine-errors.log", "log.txt"):
    out.joinpath(name).mkdir()
    out.joinpath(name, "x").write_text("x")
for number in range(30):
    os.mkfifo(out / f"pipe{number}")
print("RuntimeError: what happened", flush=True)
time.sleep(0.8)  # the runner looks for evidence meanwhile
sys.exit(1)
"""


def test_folders_in_the_place_of_files_are_the_cells_own_fault_and_nothing_is_lost_silently(
    tmp_path: Path,
) -> None:
    record = run(tmp_path, (), {}, ODDITIES)
    assert (record.verdict.outcome, record.verdict.culprit) != (Outcome.INFRA, Culprit.HOST)
    assert record.attempts[0].exit is not None
    assert record.attempts[0].exit.exit_code == 1
    assert "RuntimeError: what happened" in (tmp_path / "cell" / "attempt-1" / "log.txt").read_text()
    assert "log.txt/x is kept as cell-log.txt/x: its name is taken" in record.verdict.remarks
    assert "and 21 more remarks like the last" in record.verdict.remarks


def test_a_token_that_is_not_named_does_not_reach_the_cell(tmp_path: Path) -> None:
    record = run(tmp_path, (), {"HF_TOKEN": TOKEN})
    assert record.verdict.cause == "t: got none was given"
    assert TOKEN.encode() not in everything(tmp_path, record)


def test_a_named_token_that_is_not_set_is_said(tmp_path: Path) -> None:
    record = run(tmp_path, ("HF_TOKEN",), {})
    assert "the secret HF_TOKEN is not set in the runner's environment" in record.verdict.remarks


def test_what_a_killed_runner_left_loses_its_secrets_with_the_next_attempt(tmp_path: Path) -> None:
    cut = tmp_path / "cell" / "attempt-1" / "out"
    cut.mkdir(parents=True)
    (cut / "junit.xml").write_text(TOKEN)
    record = run(tmp_path, ("HF_TOKEN",), {"HF_TOKEN": TOKEN})
    assert record.attempts[0].number == 2
    assert TOKEN.encode() not in everything(tmp_path, record)
