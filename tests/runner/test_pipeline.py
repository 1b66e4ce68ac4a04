"""The whole program on the fake runtime: matrix file to exit code, run folder and grid, for every way a cell can end."""

import io
import json
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import hosts, pipeline, report, runs
from runner.errors import ExitCode, PrepareError, UsageError
from runner.facts import PreparedImage, Watch
from runner.hosts import locks
from runner.interrupt import CancelToken
from runner.model import Culprit, Fault, ModelRef, Outcome, Stop, Verdict
from runner.pipeline import resuming
from runner.records import CellRecord, PreparedModel, PrepareFailure, Run
from runner.runtimes import FakeCell, FakeRuntime

MATRIX = """\
version: 1
suite: {path: suite, proof: tests}
axes:
  platform: [cpu, rocm]
  case: [a, b]
rules:
  - {exclude: {platform: rocm, case: b}, reason: not there}
limits: {start: 1m, idle: 1m, total: 2m, memory: 100m}
"""


def junit(*cases: str) -> dict[str, str]:
    return {"junit.xml": f'<testsuites><testsuite name="s">{"".join(cases)}</testsuite></testsuites>'}


PASS = '<testcase classname="t" name="ok" time="0.1"/>'
FAIL = (
    '<testcase classname="t" name="bad"><failure message="assert 1 == 2">assert 1 == 2</failure></testcase>'
)
SKIP = '<testcase classname="t" name="no"><skipped message="no GPU"/></testcase>'
GREEN = FakeCell(out=junit(PASS))


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of a test's own: scripted cells take no device, and must not wait for cells that run on this host."""
    place = tmp_path / "run"
    place.mkdir(mode=0o777)
    place.chmod(0o1777)
    monkeypatch.setattr(hosts, "lease_folder", lambda: locks.lease_folder((place,)))


def wish(folder: Path, text: str = MATRIX, **options: Any) -> pipeline.Wish:
    (folder / "suite").mkdir(exist_ok=True)
    (folder / "matrix.yaml").write_text(text)
    return pipeline.Wish(
        matrix=folder / "matrix.yaml", out=folder / "reports", cache=folder / "cache", **options
    )


def show(run: Run) -> report.Progress:
    return report.progress(len(run.plan.planned()), io.StringIO())


def go(
    folder: Path, a: FakeCell | tuple[FakeCell, ...], b: FakeCell | tuple[FakeCell, ...] = GREEN
) -> pipeline.Done:
    runtime = FakeRuntime({"*cpu-a-*": a, "*cpu-b-*": b})
    return pipeline.run(wish(folder), show, CancelToken(), runtime=runtime)


def outcomes(run: Run) -> list[str]:
    return [record.verdict.outcome.value for record in run.records]


def test_all_green_is_0_and_the_folder_reads_back(tmp_path: Path) -> None:
    done = go(tmp_path, GREEN)
    assert (outcomes(done.run), done.exit_code) == (["passed", "passed"], ExitCode.OK)
    assert runs.load(done.folder) == done.run
    assert done.run.plan.totals() == {"planned": 2, "excluded": 1, "not_runnable": 1, "not_selected": 0}
    assert {p.name for p in done.folder.iterdir()} >= {"plan.json", "prepared.json", "run.json", "junit.xml"}
    assert "passed" in (done.folder / "index.html").read_text()
    assert "passed" in (done.folder / "summary.md").read_text()


SIGKILL = FakeCell(exit_code=137)
WAYS = {
    "a test fails": (FakeCell(exit_code=1, out=junit(PASS, FAIL)), Outcome.FAILED, 10),
    "exit 0 hides a failure in the report": (FakeCell(out=junit(FAIL)), Outcome.FAILED, 10),
    "no report with exit 0": (FakeCell(), Outcome.NO_REPORT, 10),
    "a cut report": (
        FakeCell(out={"junit.xml": "<testsuites><testsuite><testcase name='a'/>"}),
        Outcome.BAD_REPORT,
        10,
    ),
    "an empty suite": (FakeCell(exit_code=5, out=junit()), Outcome.NO_TESTS, 10),
    "all skipped": (FakeCell(out=junit(SKIP)), Outcome.SKIPPED, 10),
    "killed from outside": (SIGKILL, Outcome.KILLED, 10),
    "SIGSEGV after a green report": (FakeCell(exit_code=139, out=junit(PASS)), Outcome.CRASHED, 10),
    "out of memory": (FakeCell(exit_code=137, oom_killed=True), Outcome.OUT_OF_MEMORY, 10),
    "hangs silently": (FakeCell(exit_code=143, hangs=True), Outcome.HUNG, 10),
    "a network fault": (FakeCell(fault=Fault.NETWORK, message="no route"), Outcome.INFRA, 12),
    "a daemon fault": (FakeCell(fault=Fault.DAEMON, message="daemon gone"), Outcome.INFRA, 75),
}


@pytest.mark.parametrize(("cell", "outcome", "code"), WAYS.values(), ids=WAYS)
def test_each_way_to_end_has_its_outcome_and_exit_code(
    tmp_path: Path, cell: FakeCell, outcome: Outcome, code: int
) -> None:
    done = go(tmp_path, cell)
    assert outcomes(done.run) == [outcome.value, "passed"]
    assert done.exit_code == code


def test_out_of_memory_without_a_limit_of_its_own_is_the_hosts_fault(tmp_path: Path) -> None:
    text = MATRIX.replace(", memory: 100m", "")
    runtime = FakeRuntime({"*": FakeCell(exit_code=137, oom_killed=True)})
    done = pipeline.run(wish(tmp_path, text), show, CancelToken(), runtime=runtime)
    assert done.exit_code == ExitCode.HOST


def test_a_pass_after_a_host_fault_is_passed_with_both_attempts_shown(tmp_path: Path) -> None:
    done = go(tmp_path, (FakeCell(fault=Fault.DEVICE, message="device lost"), GREEN))
    record = done.run.records[0]
    assert (record.verdict.outcome, done.exit_code) == (Outcome.PASSED, ExitCode.OK)
    assert [attempt.verdict.outcome for attempt in record.attempts] == [Outcome.INFRA, Outcome.PASSED]


def test_a_failing_test_is_never_tried_again(tmp_path: Path) -> None:
    done = go(tmp_path, (FakeCell(exit_code=1, out=junit(FAIL)), GREEN))
    assert len(done.run.records[0].attempts) == 1


def test_an_image_that_cannot_be_had_gives_its_cells_infra_without_a_container(tmp_path: Path) -> None:
    runtime = FakeRuntime({"*": GREEN}, images={"images/cpu": Fault.PULL})
    done = pipeline.run(wish(tmp_path), show, CancelToken(), runtime=runtime)
    assert (outcomes(done.run), done.exit_code, runtime.ran) == (["infra", "infra"], 12, [])


class Hangs(FakeRuntime):
    """A host whose builds, pulls or jobs never end, until the watch ends them."""

    def __init__(self, images: bool) -> None:
        super().__init__({"recipe-*": FakeCell(hangs=True, exit_code=143), "*": GREEN})
        self.images = images

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        while self.images and watch is not None:
            if watch.poll(0.0) is not None:
                message = "given up"
                raise PrepareError(message, Fault.DAEMON)
            time.sleep(0.05)
        return super().image(ref, log_path)


PULLED = "platforms: {cpu: {image: reg.invalid/x:1}}\n"
BUILT = "platforms: {cpu: {image: suite}}\n"
RECIPE = "model: m\nmodels: {m: {recipe: r}}\n"
HANGING = {
    "a pull": (PULLED, "infra", "host", "image reg.invalid/x:1 was not ready after 1 s (limits.prepare;", 12),
    "a build": (BUILT, "crashed", "image", "suite was not ready after 1 s (limits.prepare;", 10),
    "a recipe": (RECIPE, "crashed", "image", "recipe-m ran past its limit of 1 s (limits.prepare)", 10),
}


@pytest.mark.parametrize("name", HANGING)
def test_a_preparation_that_hangs_ends_at_its_limit_with_its_cause(tmp_path: Path, name: str) -> None:
    more, outcome, culprit, cause, code = HANGING[name]
    asked = wish(tmp_path, MATRIX.replace("limits: {", "limits: {prepare: 1s, ") + more)
    done = pipeline.run(asked, show, CancelToken(), runtime=Hangs(images=name != "a recipe"))
    assert {(r.verdict.outcome.value, r.verdict.culprit.value) for r in done.run.records} == {
        (outcome, culprit)
    }
    assert cause in done.run.records[0].verdict.cause
    assert done.exit_code == code


def test_a_hub_that_hangs_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr("runner.prepare.models.fetch", lambda *_: release.wait(60))
    text = MATRIX.replace("limits: {", "limits: {prepare: 1s, ") + "model: m\nmodels: {m: {hub: a/b}}\n"
    done = pipeline.run(wish(tmp_path, text), show, CancelToken(), runtime=FakeRuntime({"*": GREEN}))
    release.set()
    assert (outcomes(done.run), done.exit_code) == (["infra", "infra"], ExitCode.HOST_NETWORK)
    assert done.run.records[0].verdict.cause == "hub a/b took longer than 1 s (limits.prepare)"


def test_a_download_is_not_waited_for_once_the_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel, release = CancelToken(), threading.Event()

    def download(*_: object) -> None:
        cancel.cancel(signal.SIGTERM)
        release.wait(60)

    monkeypatch.setattr("runner.prepare.models.fetch", download)
    text = MATRIX + "model: m\nmodels: {m: {hub: a/b}}\n"
    done = pipeline.run(wish(tmp_path, text), show, cancel, runtime=FakeRuntime({"*": GREEN}))
    release.set()
    assert (outcomes(done.run), done.exit_code) == (["cancelled", "cancelled"], ExitCode.SIGTERM)


def test_a_suite_folder_that_is_missing_is_the_configurations_fault(tmp_path: Path) -> None:
    asked = wish(tmp_path)
    (tmp_path / "suite").rmdir()
    done = pipeline.run(asked, show, CancelToken(), runtime=FakeRuntime({}))
    assert outcomes(done.run) == ["no_tests", "no_tests"]
    assert {record.verdict.culprit for record in done.run.records} == {Culprit.CONFIG}


def test_an_interrupt_accounts_for_every_cell(tmp_path: Path) -> None:
    cancel = CancelToken()

    class Interrupting(FakeRuntime):
        def run(self, spec, watch):  # type: ignore[no-untyped-def]
            cancel.cancel(signal.SIGTERM)
            return super().run(spec, watch)

    runtime = Interrupting({"*": FakeCell(exit_code=143, hangs=True)})
    done = pipeline.run(wish(tmp_path), show, cancel, runtime=runtime)
    assert (outcomes(done.run), done.exit_code) == (["cancelled", "cancelled"], ExitCode.SIGTERM)
    assert done.run.interrupted == "SIGTERM"
    assert done.run.records[0].attempts[0].exit is not None
    assert done.run.records[0].attempts[0].exit.stopped is Stop.CANCELLED


def test_a_fault_of_the_runner_itself_is_a_record_and_loses_no_other_cell(tmp_path: Path) -> None:
    done = pipeline.run(wish(tmp_path), show, CancelToken(), runtime=FakeRuntime({"*cpu-b-*": GREEN}))
    assert (outcomes(done.run), done.exit_code) == (["infra", "passed"], ExitCode.RED)
    assert done.run.records[0].verdict.cause.startswith("the runner itself failed: KeyError: ")
    trace = done.folder / "cells" / done.run.records[0].cell.slug / "runner-error.txt"
    assert "Traceback" in trace.read_text()


def test_a_record_that_cannot_be_written_says_so_and_loses_no_other_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = runs.Folder.write_record

    def full_once(self: runs.Folder, record: CellRecord) -> None:
        if record.verdict.outcome is Outcome.PASSED and "cpu-a-" in record.cell.slug:
            raise OSError(28, "No space left on device")
        write(self, record)

    monkeypatch.setattr(runs.Folder, "write_record", full_once)
    done = go(tmp_path, GREEN)
    assert outcomes(done.run) == ["infra", "passed"]
    assert "of a cell that passed could not be written: [Errno 28]" in done.run.records[0].verdict.cause


def unfinished(folder: Path, kill_after: int) -> Path:
    """A run folder as it stands when its runner was killed after some cells."""
    done = go(folder, GREEN)
    (done.folder / "run.json").unlink()
    for record in done.run.records[kill_after:]:
        (done.folder / "cells" / record.cell.slug / "cell.json").unlink()
    return done.folder


def test_a_killed_run_is_resumed_without_repeating_finished_cells(tmp_path: Path) -> None:
    folder = unfinished(tmp_path, kill_after=1)
    runtime = FakeRuntime({"*cpu-b-*": GREEN})
    done = pipeline.resume(folder, wish(tmp_path), show, CancelToken(), runtime=runtime)
    assert (outcomes(done.run), done.exit_code, done.folder) == (["passed", "passed"], ExitCode.OK, folder)
    assert [spec.name.rsplit("-", 1)[1] for spec in runtime.ran] == ["2"]
    assert runs.load(folder).finished


def test_a_resumed_run_keeps_what_was_prepared_for_the_cells_that_had_ended(tmp_path: Path) -> None:
    folder = unfinished(tmp_path, kill_after=1)
    begun = runs.load(folder).prepared
    (image,) = begun.images
    model = PreparedModel(name="m", path="/m", digest="sha256:1", source="recipe m")
    failed = {
        name: PrepareFailure(verdict=Verdict(outcome=Outcome.INFRA)) for name in (image, f"{image}|gone")
    }
    runs.Folder(folder).write_prepared(replace(begun, models={f"{image}|m": model}, failures=failed))
    done = pipeline.resume(
        folder, wish(tmp_path), show, CancelToken(), runtime=FakeRuntime({"*cpu-b-*": GREEN})
    )
    assert outcomes(done.run) == ["passed", "passed"], (
        "an earlier failure of an image that is there now counts no more"
    )
    assert done.run.prepared.models == {f"{image}|m": model}
    assert list(done.run.prepared.failures) == [f"{image}|gone"]


@pytest.mark.parametrize("what", ["image", "the engine in", "model m", "suite suite"])
def test_a_run_is_not_resumed_on_other_things_than_its_finished_cells_ran_with(
    tmp_path: Path, what: str
) -> None:
    folder = unfinished(tmp_path, kill_after=1)
    begun = runs.load(folder).prepared
    ((name, image),) = begun.images.items()
    before = {
        "image": replace(begun, images={name: replace(image, digest="sha256:old")}),
        "the engine in": replace(begun, images={name: replace(image, engine_digest="sha256:old")}),
        "model m": replace(
            begun,
            models={f"{name}|m": PreparedModel(name="m", path="/m", digest="sha256:old", source="recipe m")},
        ),
        "suite suite": replace(begun, suites={"suite": "sha256:old"}),
    }[what]
    now = replace(
        begun,
        images={name: replace(image, digest=image.digest or "sha256:new", engine_digest="sha256:new")},
        models={f"{name}|m": PreparedModel(name="m", path="/m", digest="sha256:new", source="recipe m")},
    )
    run = runs.load(folder)
    uses = replace(run, plan=replace(run.plan, entries=tuple(
        replace(e, settings=replace(e.settings, model=ModelRef(name="m", recipe="m"))) for e in run.plan.entries
    )))  # fmt: skip
    first = run.plan.planned()[0].cell.id
    with pytest.raises(
        UsageError,
        match=f"^{what}.* is not what {first} ran with: sha256:old then, .* now; start a new run",
    ):
        resuming.together(replace(uses, prepared=before), now, {first})
    assert resuming.together(replace(uses, prepared=before), now, ()).images == now.images, (
        "nothing rests on it yet"
    )


def test_an_image_that_another_registry_gave_again_is_the_same_by_its_id(tmp_path: Path) -> None:
    run = runs.load(unfinished(tmp_path, kill_after=1))
    ((name, image),) = run.prepared.images.items()
    before = replace(
        run, prepared=replace(run.prepared, images={name: replace(image, digest="a", id="held")})
    )
    first = run.plan.planned()[0].cell.id
    now = replace(run.prepared, images={name: replace(image, digest="b", id="held")})
    assert resuming.together(before, now, {first}).images == now.images
    other = replace(run.prepared, images={name: replace(image, digest="b", id="another")})
    with pytest.raises(UsageError, match="ran with: a then, b now"):
        resuming.together(before, other, {first})


def test_a_resumed_run_whose_image_changed_runs_no_cell_and_can_still_be_resumed(tmp_path: Path) -> None:
    folder = unfinished(tmp_path, kill_after=1)
    begun = runs.load(folder).prepared
    ((name, image),) = begun.images.items()
    assert image.digest
    runs.Folder(folder).write_prepared(replace(begun, images={name: replace(image, digest="sha256:old")}))
    runtime = FakeRuntime({"*": GREEN})
    with pytest.raises(UsageError, match="start a new run, or bring back what was there"):
        pipeline.resume(folder, wish(tmp_path), show, CancelToken(), runtime=runtime)
    assert runtime.ran == []
    runs.Folder(folder).write_prepared(begun)
    assert (
        pipeline.resume(folder, wish(tmp_path), show, CancelToken(), runtime=runtime).exit_code is ExitCode.OK
    )


def test_a_run_is_not_resumed_without_the_secrets_that_its_cut_cells_may_have_written(tmp_path: Path) -> None:
    runtime = FakeRuntime({"*": GREEN})
    text = MATRIX + "secrets: [HF_TOKEN]\n"
    begun = wish(tmp_path, text, environ={"HF_TOKEN": "hf_0123456789"})
    folder = pipeline.run(begun, show, CancelToken(), runtime=runtime).folder
    (folder / "run.json").unlink()
    record = max((folder / "cells").glob("*/cell.json"))
    record.unlink()
    with pytest.raises(
        UsageError, match=r"^HF_TOKEN not set: .*; set it as when the run began, or to nothing$"
    ):
        pipeline.resume(folder, wish(tmp_path, text, environ={}), show, CancelToken(), runtime=runtime)
    for value in ("hf_0123456789", ""):
        again = wish(tmp_path, text, environ={"HF_TOKEN": value})
        done = pipeline.resume(folder, again, show, CancelToken(), runtime=runtime)
        assert done.exit_code is ExitCode.OK
        (folder / "run.json").unlink()
        record.unlink()


def test_an_unfinished_run_is_reported_and_never_green(tmp_path: Path) -> None:
    folder = unfinished(tmp_path, kill_after=1)
    run, _ = pipeline.load_report(folder)
    assert (run.finished, len(run.missing()), pipeline.exit_code(run)) == (False, 1, ExitCode.RED)
    assert "missing" in (folder / "summary.md").read_text()


def test_a_resumed_run_repeats_as_it_was_begun(tmp_path: Path) -> None:
    bad = FakeCell(exit_code=1, out=junit(FAIL))
    before = go(tmp_path, GREEN)
    begun = wish(tmp_path, repeat=4, until_fail=True, jobs=2, expect_engine="1.2", baseline=before.folder)
    done = pipeline.run(begun, show, CancelToken(), runtime=FakeRuntime({"*": GREEN}))
    (done.folder / "run.json").unlink()
    for record in done.run.records:
        (done.folder / "cells" / record.cell.slug / "cell.json").unlink()
    runtime = FakeRuntime({"*cpu-a-*": GREEN, "*cpu-b-*": (GREEN, bad, GREEN)})
    again = pipeline.resume(done.folder, wish(tmp_path), show, CancelToken(), runtime=runtime)
    assert [len(record.attempts) for record in again.run.records] == [4, 2]
    assert (again.run.jobs, again.run.repeat, again.run.until_fail) == (2, 4, True)
    assert again.run.expect_engine == "1.2"
    assert again.past.comparison is not None


def test_a_folder_in_which_a_runner_works_is_left_alone(tmp_path: Path) -> None:
    folder = unfinished(tmp_path, kill_after=1)
    with runs.Folder(folder).held(), pytest.raises(UsageError, match="a runner is at work in it"):
        pipeline.resume(folder, wish(tmp_path), show, CancelToken(), runtime=FakeRuntime({}))
    done = pipeline.resume(folder, wish(tmp_path), show, CancelToken(), runtime=FakeRuntime({"*": GREEN}))
    assert done.exit_code == ExitCode.OK


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    done = go(tmp_path, GREEN)
    with pytest.raises(UsageError, match="the run is finished; --failed-in"):
        pipeline.resume(done.folder, wish(tmp_path), show, CancelToken())


def test_failed_in_runs_what_was_not_green_and_only_that(tmp_path: Path) -> None:
    before = go(tmp_path, FakeCell(exit_code=1, out=junit(FAIL)))
    done = pipeline.run(
        wish(tmp_path, failed_in=before.folder), show, CancelToken(), runtime=FakeRuntime({"*cpu-a-*": GREEN})
    )
    assert [record.cell.get("case") for record in done.run.records] == ["a"]
    assert done.run.plan.totals()["not_selected"] == 1


def test_repeat_runs_a_cell_n_times_and_mixed_results_are_flaky(tmp_path: Path) -> None:
    bad = FakeCell(exit_code=1, out=junit(FAIL))
    runtime = FakeRuntime({"*cpu-a-*": (GREEN, bad, GREEN), "*cpu-b-*": GREEN})
    done = pipeline.run(wish(tmp_path, repeat=3), show, CancelToken(), runtime=runtime)
    assert outcomes(done.run) == ["flaky", "passed"]
    assert [len(record.attempts) for record in done.run.records] == [3, 3]


def test_until_fail_stops_at_the_first_failure(tmp_path: Path) -> None:
    bad = FakeCell(exit_code=1, out=junit(FAIL))
    runtime = FakeRuntime({"*cpu-a-*": (GREEN, bad, GREEN), "*cpu-b-*": GREEN})
    done = pipeline.run(wish(tmp_path, repeat=5, until_fail=True), show, CancelToken(), runtime=runtime)
    assert [len(record.attempts) for record in done.run.records] == [2, 5]


def test_nothing_selected_is_13(tmp_path: Path) -> None:
    done = pipeline.run(
        wish(tmp_path, select="case=a and case=b"), show, CancelToken(), runtime=FakeRuntime({})
    )
    assert (done.exit_code, done.run.records) == (ExitCode.NOTHING_RAN, ())


def test_cells_run_side_by_side_and_records_stay_in_plan_order(tmp_path: Path) -> None:
    done = pipeline.run(wish(tmp_path, jobs=2), show, CancelToken(), runtime=FakeRuntime({"*": GREEN}))
    assert [record.cell.get("case") for record in done.run.records] == ["a", "b"]


def test_what_a_cell_is_started_with(tmp_path: Path) -> None:
    text = MATRIX + 'env: {FLAG: "no", V: "1.10"}\n'
    runtime = FakeRuntime({"*": GREEN})
    done = pipeline.run(wish(tmp_path, text, select="case=a"), show, CancelToken(), runtime=runtime)
    (spec,) = runtime.ran
    assert (spec.env["FLAG"], spec.env["V"]) == ("no", "1.10")
    assert [(m.target, m.read_only) for m in spec.mounts] == [
        ("/cell", True),
        ("/suite", True),
        ("/matrix", True),
    ]
    assert re.match(r"vllm-matrix-\d{8}T\d{6}Z-[0-9a-f]{6}-cpu-a-[0-9a-f]{8}-1$", spec.name)
    assert spec.labels["vllm-matrix.cell"] == "platform=cpu,case=a"
    attempt = done.folder / "cells" / done.run.records[0].cell.slug / "attempt-1"
    assert json.loads((attempt / "cell-input.json").read_text())["axes"] == {"platform": "cpu", "case": "a"}
    assert sorted(p.name for p in attempt.iterdir()) == ["cell-input.json", "junit.xml", "log.txt"]
    assert set(done.run.records[0].attempts[0].files) == {
        "attempt-1/cell-input.json",
        "attempt-1/junit.xml",
        "attempt-1/log.txt",
    }


MOUNTED = MATRIX.replace(
    "limits:",
    """\
platforms:
  cpu:
    image: host
    mounts: [{engine}, "{engine}/lib:/opt/lib"]
    python: /opt/python3
    engine_digest: [{engine}]
    env: {PYTHONPATH: /opt/lib}
limits:""",
)


def mounted(folder: Path) -> tuple[pipeline.Done, FakeRuntime]:
    engine = folder / "engine"
    runtime = FakeRuntime({"*": GREEN})
    options = wish(folder, MOUNTED.replace("{engine}", str(engine)))
    return pipeline.run(options, show, CancelToken(), runtime=runtime), runtime


def test_an_engine_on_the_host_is_mounted_and_its_content_recorded(tmp_path: Path) -> None:
    (tmp_path / "engine" / "lib").mkdir(parents=True)
    (tmp_path / "engine" / "lib" / "a.py").write_text("one")
    done, runtime = mounted(tmp_path)
    spec = runtime.ran[0]
    assert [(str(m.source), m.target, m.read_only) for m in spec.mounts[:2]] == [
        (str(tmp_path / "engine"), str(tmp_path / "engine"), True),
        (str(tmp_path / "engine" / "lib"), "/opt/lib", True),
    ]
    assert spec.argv[0] == "/opt/python3"
    assert spec.env["PYTHONPATH"] == "/matrix:/opt/lib"
    first = done.run.prepared.images["host"]
    assert first.python == "/opt/python3"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", first.engine_digest)
    assert mounted(tmp_path)[0].run.prepared.images["host"] == first
    (tmp_path / "engine" / "lib" / "a.py").write_text("two")
    assert mounted(tmp_path)[0].run.prepared.images["host"].engine_digest != first.engine_digest


def test_a_host_path_that_is_not_there_refuses_its_cells(tmp_path: Path) -> None:
    done, runtime = mounted(tmp_path)
    assert (outcomes(done.run), done.exit_code, runtime.ran) == (["refused", "refused"], ExitCode.RED, [])
    verdict = done.run.records[0].verdict
    assert verdict.culprit is Culprit.CONFIG
    assert f"this host has no {tmp_path}/engine" in verdict.cause


class Registry(FakeRuntime):
    """A registry that answers every pull with one message."""

    def __init__(self, message: str) -> None:
        super().__init__({})
        self.message = message

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        msg = f"image {ref}: {self.message}"
        raise PrepareError(msg, Fault.PULL)


@pytest.mark.parametrize(
    ("message", "outcome", "code"),
    [
        ("manifest for r.example/x:1 not found: manifest unknown", "refused", 10),
        ("pull access denied for x, repository does not exist or may require 'docker login'", "refused", 10),
        ("toomanyrequests: You have reached your pull rate limit", "infra", 12),
    ],
)
def test_an_image_that_cannot_be_had_is_config_and_a_registry_that_fails_is_the_host(
    tmp_path: Path, message: str, outcome: str, code: int
) -> None:
    done = pipeline.run(wish(tmp_path), show, CancelToken(), runtime=Registry(message))
    assert (outcomes(done.run), done.exit_code) == ([outcome, outcome], code)
    assert message in done.run.records[0].verdict.cause


def test_the_candidate_is_recorded_and_stands_on_the_grids_first_line(tmp_path: Path) -> None:
    runtime = FakeRuntime({"*": GREEN})
    asked = wish(tmp_path, images=("cpu=r.example/vllm:rc1",), expect_engine="1.2")
    done = pipeline.run(asked, show, CancelToken(), runtime=runtime)
    assert done.run.images == {"cpu": "r.example/vllm:rc1"}
    assert {spec.image for spec in runtime.ran} == {"r.example/vllm:rc1"}
    first = report.terminal(done.run, color=False, width=200).splitlines()[0]
    assert "(candidate: engine 1.2, cpu in r.example/vllm:rc1)" in first
    assert runs.load(done.folder).images == done.run.images


def test_long_cells_start_first_and_records_stay_in_plan_order(tmp_path: Path) -> None:
    slow = FakeCell(out=junit(PASS), duration_s=30.0)
    runtime = FakeRuntime({"*cpu-a-*": GREEN, "*cpu-b-*": slow})
    pipeline.run(wish(tmp_path), show, CancelToken(), runtime=runtime)
    assert [spec.name.split("cpu-")[1][0] for spec in runtime.ran] == ["a", "b"]
    again = FakeRuntime({"*": GREEN})
    done = pipeline.run(wish(tmp_path), show, CancelToken(), runtime=again)
    assert [spec.name.split("cpu-")[1][0] for spec in again.ran] == ["b", "a"]
    assert [record.cell.get("case") for record in done.run.records] == ["a", "b"]


def test_only_cells_that_ran_their_tests_say_how_long_they_take(tmp_path: Path) -> None:
    go(tmp_path, FakeCell(exit_code=137, duration_s=5.0), FakeCell(out=junit(PASS), duration_s=7.0))
    known = json.loads((tmp_path / "cache" / "durations.json").read_text())["seconds"]
    assert known == {"platform=cpu,case=b suite": 7.0}


def test_a_sample_runs_its_cells_and_stores_the_certificate(tmp_path: Path) -> None:
    text = MATRIX.replace("case: [a, b]", "case: [a, b]\n  x: [k, l]\n  y: [m, n]")
    asked = wish(tmp_path, text, cover=2, rotate="w1", select="platform=cpu")
    done = pipeline.run(asked, show, CancelToken(), runtime=FakeRuntime({"*": GREEN}))
    assert (len(done.run.records), done.exit_code) == (4, ExitCode.OK)
    stored = runs.load(done.folder).plan
    assert stored.certificate[0].startswith("4 cells (the fewest possible) cover 18 of 18 valid pairs; ")
    assert stored.selection == "-k 'platform=cpu' --cover 2 --rotate w1"
    assert stored.totals()["planned"] == 4


IMAGES = """\
version: 1
suite: {path: suite}
axes: {platform: [cpu, rocm]}
platforms: {cpu: {image: here}, rocm: {image: r.example/rocm}}
model: m
models: {m: {recipe: r}}
"""


@pytest.mark.parametrize(
    ("action", "select", "said"),
    [
        ("build", "platform=cpu", ["here: {root}/here fake:{root}/here (fake, 0 s)"]),
        ("pull", "platform=rocm", ["r.example/rocm: r.example/rocm fake:r.example/rocm (fake, 0 s)"]),
        ("pull", "platform=cpu", ["here: a folder: nothing to pull"]),
        ("build", "platform=rocm", ["r.example/rocm: a reference: nothing to build"]),
        (
            "probe",
            "platform=cpu",
            ['here: {root}/here fake:{root}/here (fake, 0 s)\n{\n  "engine_version": "1.2"\n}'],
        ),
    ],
)
def test_images_are_made_ready_without_a_run(
    tmp_path: Path, action: Any, select: str, said: list[str]
) -> None:
    asked = wish(tmp_path, IMAGES, select=select)
    (tmp_path / "here").mkdir()
    (tmp_path / "suite" / "probe.py").touch()
    runtime = FakeRuntime({"probe": FakeCell(log='{"engine_version": "1.2"}\n')})
    noted: list[str] = []
    found = list(pipeline.images(asked, action, note=noted.append, runtime=runtime))
    assert len([line for line in noted if "; log: " in line]) == sum(line.count("(fake") for line in said) + (
        action == "probe"
    )
    assert runtime.kept == []
    assert [line.text.replace(str(tmp_path), "{root}") for line in found] == said
    assert [line.code for line in found] == [ExitCode.OK] * len(said)


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Fault.NETWORK, ExitCode.HOST_NETWORK), (Fault.DISK, ExitCode.HOST), (Fault.BUILD, ExitCode.RED)],
)
def test_an_image_that_fails_has_a_line_and_a_code(tmp_path: Path, fault: Fault, code: ExitCode) -> None:
    runtime = FakeRuntime({}, images={"r.example/rocm": fault})
    asked = wish(tmp_path, IMAGES, select="platform=rocm")
    (line,) = pipeline.images(asked, "pull", runtime=runtime)
    assert (line.text, line.code) == (f"image r.example/rocm: scripted {fault} fault", code)


def test_a_suite_without_a_probe_is_told(tmp_path: Path) -> None:
    asked = wish(tmp_path, IMAGES, select="platform=cpu")
    (line,) = pipeline.images(asked, "probe", runtime=FakeRuntime({}))
    assert line.code is ExitCode.RED
    assert line.text == "here: the suite suite has no probe.py to ask the engine with"
