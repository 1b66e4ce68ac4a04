"""A token reaches the cell that names it, and nothing that the run leaves: a real process that spreads it everywhere."""

from __future__ import annotations

import base64
import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from runner import codec
from runner.cells import CellWork, run_cell
from runner.facts import HandOver, PreparedImage
from runner.interrupt import CancelToken
from runner.machine import Given
from runner.model import Cell, CellSettings, Limits, Outcome, PlanEntry, Proof, Status, Suite
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

    def abandon(self) -> None:
        raise AssertionError


class Host:
    """A host without devices."""

    @contextlib.contextmanager
    def lease(self, entry: PlanEntry) -> Iterator[Held]:
        yield Held()

    def blame(self, device_ids: tuple[str, ...], cause: str) -> None:
        raise AssertionError


def run(folder: Path, secrets: tuple[str, ...], environ: Mapping[str, str]) -> CellRecord:
    (folder / "suite").mkdir()
    (folder / "suite" / "spread.py").write_text(SPREAD)
    python = sys.executable
    suite = Suite(path="suite", proof=Proof.TESTS, command=(python, "{suite}/spread.py", "{out}"))
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
