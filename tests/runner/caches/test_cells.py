"""Caches around whole attempts, with real processes and real containers: what one leaves and the next one finds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.caches import Caches
from runner.cells import CellWork, run_cell
from runner.facts import PreparedImage, Runtime
from runner.interrupt import CancelToken
from runner.machine import CpuFacts, Inventory
from runner.model import Cell, CellSettings, Limits, Outcome, PlanEntry, Proof, Status, Suite
from runner.records import CellRecord, Prepared
from runner.runtimes import find
from runner.vendors import CACHE_ENV
from tests.runner.cells.test_secrets import Host

INVENTORY = Inventory(hostname="h", boot_id="b", cpu=CpuFacts())
REPORT = '<testsuites><testsuite name="s"><testcase classname="c" name="t"/></testsuite></testsuites>'
SHELL = f"""\
out=$1
ls "$TRITON_CACHE_DIR" > "$out/found.txt" 2>/dev/null
echo "$TRITON_CACHE_DIR" > "$out/where.txt"
mkdir -p "$TRITON_CACHE_DIR" && echo kernel > "$TRITON_CACHE_DIR/of-$NAME"
ln -s /etc/passwd "$TRITON_CACHE_DIR/link-of-$NAME"
for each in "$TRITON_CACHE_DIR"/of-*; do echo changed by "$NAME" > "$each"; done
chmod 000 "$TRITON_CACHE_DIR"
[ "$NAME" != bad ] || exit 3
echo '{REPORT}' > "$out/junit.xml"
"""


def work_in(folder: Path, runtime: Runtime, image: PreparedImage, **other: object) -> CellWork:
    (folder / "suite").mkdir(exist_ok=True)
    (folder / "suite/cell.sh").write_text(SHELL)
    work = CellWork(
        runtime=runtime, prepared=Prepared(images={"i": image}), root=folder, run_id="r", labels=lambda cell: {},
        hosting=Host(), cancel=CancelToken(), infra_retries=0, repeat=1, until_fail=False, expect_engine=None,
        note=lambda _: None, caching=Caches(folder=folder / "kept", inventory=INVENTORY),
    )  # fmt: skip
    return replace(work, **other)  # type: ignore[arg-type]


def run(folder: Path, name: str, work: CellWork, secrets: tuple[str, ...] = ()) -> CellRecord:
    suite = Suite(path="suite", proof=Proof.TESTS, command=("sh", "{suite}/cell.sh", "{out}"))
    settings = CellSettings(
        image="i", suite=suite, limits=Limits(total_s=60), devices=0, env={"NAME": name}, secrets=secrets
    )
    entry = PlanEntry(
        cell=Cell.of({"platform": "cpu", "name": name}), status=Status.PLANNED, settings=settings
    )
    return run_cell(entry, folder / f"cell-{name}", work)


def found(folder: Path, name: str, attempt: int = 1) -> list[str]:
    """What an attempt found in its cache when it started."""
    return (folder / f"cell-{name}/attempt-{attempt}/found.txt").read_text().split()


def kept(folder: Path) -> Mapping[str, str]:
    """The kept files, by name."""
    files = folder.glob("kept/*/layer/files/triton/*")
    return {path.name: path.read_text() for path in files}


@pytest.fixture
def process(tmp_path: Path) -> CellWork:
    image = PreparedImage(ref=str(Path(sys.prefix)), digest="sha256:0", how="as found", python=sys.executable)
    return work_in(tmp_path, find("process", root=tmp_path, cache=tmp_path / "cache"), image)


def check_that_only_passes_are_kept(folder: Path, work: CellWork) -> None:
    first, bad, second = (run(folder, name, work) for name in ("first", "bad", "second"))
    assert [each.verdict.outcome for each in (first, second)] == [Outcome.PASSED] * 2
    assert bad.verdict.outcome is not Outcome.PASSED
    assert [found(folder, name) for name in ("first", "bad", "second")] == [[], ["of-first"], ["of-first"]]
    uses = [record.attempts[0].cache for record in (first, bad, second)]
    assert all(use is not None for use in uses)
    told = [(use.files_in, use.files_out, use.kept, use.note) for use in uses if use]
    not_plain = "1 files are no plain files or too large: not kept"
    assert told == [
        (0, 1, True, not_plain),
        (1, 0, False, "not kept: the attempt did not pass"),
        (1, 2, True, not_plain),
    ]
    assert kept(folder) == {"of-first": "changed by second\n", "of-second": "changed by second\n"}
    assert not list(folder.glob("cell-*/attempt-*/cache")), "the private copies are gone"
    assert uses[1] is not None
    assert uses[1].layer.startswith("sha256:")  # a verdict can name what its cell started with


def test_only_what_passed_is_kept_in_processes(tmp_path: Path, process: CellWork) -> None:
    check_that_only_passes_are_kept(tmp_path, process)


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_only_what_passed_is_kept_in_containers(
    tmp_path: Path, docker_runtime: Runtime, cheap_image: PreparedImage
) -> None:
    check_that_only_passes_are_kept(tmp_path, work_in(tmp_path, docker_runtime, cheap_image))
    assert (tmp_path / "cell-first/attempt-1/where.txt").read_text() == "/caches/triton\n"


def test_every_passed_attempt_of_a_cell_warms_the_next(tmp_path: Path, process: CellWork) -> None:
    record = run(tmp_path, "again", replace(process, repeat=3))
    assert [found(tmp_path, "again", n) for n in (1, 2, 3)] == [[], ["of-again"], ["of-again"]]
    assert [attempt.cache.files_in for attempt in record.attempts if attempt.cache] == [0, 1, 1]


def test_nothing_is_kept_of_a_cell_that_had_secrets(tmp_path: Path, process: CellWork) -> None:
    record = run(tmp_path, "first", replace(process, environ={"TOKEN": "a secret"}), secrets=("TOKEN",))
    assert record.verdict.outcome is Outcome.PASSED
    assert record.attempts[0].cache is not None
    assert record.attempts[0].cache.note == "not kept: the cell had secrets"
    assert kept(tmp_path) == {}


def test_off_means_that_a_cell_has_no_such_folder(tmp_path: Path, process: CellWork) -> None:
    run(tmp_path, "first", process)
    off = run(tmp_path, "second", replace(process, caching=None))
    assert off.attempts[0].cache is None
    assert (tmp_path / "cell-second/attempt-1/where.txt").read_text() == "\n"


def test_a_matrix_file_that_names_a_folder_has_the_last_word(tmp_path: Path, process: CellWork) -> None:
    assert "TRITON_CACHE_DIR" in CACHE_ENV
    suite = Suite(path="suite", proof=Proof.TESTS, command=("sh", "{suite}/cell.sh", "{out}"))
    env = {"NAME": "own", "TRITON_CACHE_DIR": str(tmp_path / "own")}
    settings = CellSettings(image="i", suite=suite, limits=Limits(total_s=60), devices=0, env=env)
    entry = PlanEntry(cell=Cell.of({"platform": "cpu"}), status=Status.PLANNED, settings=settings)
    run_cell(entry, tmp_path / "cell-own", process)
    assert (tmp_path / "cell-own/attempt-1/where.txt").read_text() == f"{tmp_path}/own\n"
