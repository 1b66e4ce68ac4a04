"""The command line: every error that a user can cause is one line without a traceback, with the code that it has."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.arguments import STORED, make_parser
from runner.cli import main
from runner.outlet import host_error

PROJECT = Path(__file__).parents[2]
MATRIX = """\
version: 1
suite: {path: suite, proof: tests, command: ["true"]}
axes: {platform: [cpu], case: [a, b], size: [1, 2]}
limits: {idle: 90s}
overrides: [{when: case=b, limits: {idle: 2m}}]
"""
CELL = "platform=cpu,case=a,size=1"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small matrix in a folder of its own, which is the current one."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    (tmp_path / "text").write_text("no folder\n")
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "run.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLLM_MATRIX_CACHE", str(tmp_path / "cache"))
    return "matrix.yaml"


MISTAKES = {
    "no file": (["plan"], "FILE is missing"),
    "no file, run": (["run"], "give either FILE or --resume RUN_DIR"),
    "missing file": (["plan", "nothing.yaml"], "nothing.yaml:1:1: there is no such file"),
    "a folder": (["plan", "suite"], "suite:1:1: this is a directory"),
    "no matrix": (["plan", "text"], "text:1:1: the file is a single value, not a mapping"),
    "bad -k": (["plan", "matrix.yaml", "-k", "case="], "expression, column 6: expected a value for case"),
    "unknown axis": (["plan", "matrix.yaml", "-k", "cases=a"], "'cases' is not known, did you mean case?"),
    "unknown value": (["plan", "matrix.yaml", "-k", "case=c"], "case has no value 'c', known: a, b"),
    "order of texts": (["plan", "matrix.yaml", "-k", "case>1"], "both sides must be numbers"),
    "unknown cell": (
        ["plan", "matrix.yaml", "--cell", "platform=cpu,case=a,size=3"],
        "nearest: platform=cpu,case=",
    ),
    "too many cells": (
        ["plan", "matrix.yaml", "--max-cells", "3"],
        "the product has 4 cells (4 after exclude), the limit is 3",
    ),
    "failed-in": (["plan", "matrix.yaml", "--failed-in", "nowhere"], "nowhere"),
    "failed-in, damaged": (["plan", "matrix.yaml", "--failed-in", "junk"], "junk"),
    "settle": (["plan", "matrix.yaml", "--settle", "nowhere"], "nowhere"),
    "rotate alone": (["plan", "matrix.yaml", "--rotate", "x"], "give --cover 2 or --cover 3 too"),
    "pin alone": (["plan", "matrix.yaml", "--pin", CELL], "give --cover 2 or --cover 3 too"),
    "unknown pin": (["plan", "matrix.yaml", "--cover", "2", "--pin", "x"], "--pin x: no such cell would run"),
    "bad shard": (["plan", "matrix.yaml", "--shard", "0/2"], "--shard '0/2': write I/N"),
    "no durations": (
        ["plan", "matrix.yaml", "--shard", "1/2", "--durations", "nowhere"],
        "--durations nowhere: No such",
    ),
    "bad durations": (
        ["plan", "matrix.yaml", "--durations", "text"],
        "--durations text: not a file of durations",
    ),
    "image, no platform": (["plan", "matrix.yaml", "--image", "x"], "--image 'x': write PLATFORM=REF"),
    "image, credentials": (
        ["plan", "matrix.yaml", "--image", "cpu=me:pass=word@r.example/x"],
        "--image '***@r.example/x': what stands before the @ of an image would be credentials",
    ),
    "image, credentials alone": (
        ["plan", "matrix.yaml", "--image", "me:pass@r.example/x"],
        "--image '***@r.example/x': write PLATFORM=REF",
    ),
    "image, no digest": (
        ["plan", "matrix.yaml", "--image", "cpu=r.example/x@sha256:ab"],
        "--image 'cpu=r.example/x@sha256:ab': a digest is sha256: and 64 hexadecimal digits",
    ),
    "image, unknown": (["plan", "matrix.yaml", "--image", "cuda=x"], "has no platform 'cuda', known: cpu"),
    "image twice": (
        ["plan", "matrix.yaml", "--image", "cpu=x", "--image", "cpu=y"],
        "once for each platform",
    ),
    "diff, no file": (
        ["plan", "matrix.yaml", "--diff", "other.yaml"],
        "other.yaml:1:1: there is no such file",
    ),
    "diff, no git": (["plan", "matrix.yaml", "--diff", "git:HEAD"], "--diff git:HEAD: fatal: "),
    "diff, option": (["plan", "matrix.yaml", "--diff", "git:--output=x"], "--diff git:--output=x: fatal: "),
    "explain-cell": (
        ["explain-cell", "matrix.yaml", "platform=cpu,case=a,size=3"],
        "did you mean platform=cpu,case=",
    ),
    "report": (["report", "nowhere"], "nowhere"),
    "report, file": (["report", "text"], "text"),
    "report, damaged": (["report", "junk"], "junk"),
    "resume": (["--resume", "nowhere"], "nowhere"),
    "resume and file": (["matrix.yaml", "--resume", "nowhere"], "give either FILE or --resume RUN_DIR"),
    "resume, choice": (
        ["--resume", "junk", "--repeat", "2", "-k", "case=a", "--no-rules"],
        "--resume junk: the run goes on as it was begun; leave out -k, --no-rules, --repeat",
    ),
    "unwritable out": (["matrix.yaml", "--runtime", "process", "--out", "text"], "text"),
    "waivers": (["matrix.yaml", "--waivers", "nowhere.yaml"], "nowhere.yaml"),
    "gate, policy": (["gate", "junk", "--policy", "nowhere.yaml"], "nowhere.yaml"),
    "gate, folder": (["gate", "nowhere", "--policy", "text"], "text:1:1: "),
    "history": (["history", CELL, "--in", "nowhere"], "nowhere"),
    "explain": (["explain"], "explain: give at least one of --junit, --log, --exit-code, --evidence"),
    "explain, log": (["explain", "--log", "nowhere"], "nowhere: No such file or directory"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_user_is_one_line_and_2(
    name: str, file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words, said = MISTAKES[name]
    assert main([file if word == "matrix.yaml" else word for word in words]) == 2
    shown = capfd.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert "pass" not in shown.err
    assert "Traceback" not in shown.err + shown.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "matrix.yaml", "--cover", "4"], "argument --cover: invalid choice"),
        (["plan", "matrix.yaml", "--jobs", "0"], "argument --jobs: '0' is not a whole number above 0"),
        (["matrix.yaml", "--repeat", "²"], "is not a whole number above 0"),
        (["plan", "matrix.yaml", "--json", "--diff", "x"], "not allowed with argument"),
        (["images", "burn", "matrix.yaml"], "invalid choice: 'burn'"),
        (["gate", "junk"], "the following arguments are required: --policy"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_wrong_options_end_with_2_and_the_usage(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_every_mistake_of_a_file_has_its_own_line(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text("version: 1\nsuite: {prof: tests}\naxes: {platform: [cpu, gpu]}\n")
    assert main(["plan", file]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[:3] for line in lines] == [["matrix.yaml", "2", "9"], ["matrix.yaml", "3", "24"]]


def test_help_is_quick_since_it_imports_nothing_of_the_program() -> None:
    code = (
        "import sys\nfrom runner.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(n for n in sys.modules if n.startswith('runner')), file=sys.stderr)\n"
        "print([n for n in ('yaml', 'jinja2', 'rich', 'docker', 'msgspec', 'pytest') if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines() == ["['runner', 'runner.arguments', 'runner.cli', 'runner.outlet']", "[]"]
    assert "explain-cell" in done.stdout


def test_a_closed_pipe_is_no_error(file: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m runner plan {file} --json | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_plan_json_has_every_cell_once_and_totals_that_add_up(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", file, "--json", "--cover", "2", "--rotate", "night 7"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (len(made["cells"]), made["product"], sum(made["totals"].values())) == (4, 4, 4)
    assert sorted(made["order"]) == sorted(cell["id"] for cell in made["cells"])
    assert made["cost"][-1] == "no history for 4 of 4 cells, stated guess: 60 s cpu (4)"
    assert made["certificate"] == ["4 cells (the fewest possible) cover 8 of 8 valid pairs"]


def test_a_sample_pins_and_says_why_the_others_are_out(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(MATRIX.replace("size: [1, 2]", "size: [1, 2], place: [x, y]"))
    pin = "platform=cpu,case=b,place=y,size=2"
    assert main(["plan", file, "--json", "--cover", "2", "--pin", pin]) == 0
    made = json.loads(capsys.readouterr().out)
    statuses = {cell["id"]: cell["status"] for cell in made["cells"]}
    assert statuses[pin] == "planned"
    assert made["totals"]["planned"] == 4
    out = [cell for cell in made["cells"] if cell["status"] == "not_selected"]
    assert len(out) == 4
    assert all(cell["reason"].startswith("not in the pair cover (--cover 2): ") for cell in out)


def test_another_key_makes_another_sample(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(MATRIX.replace("size: [1, 2]", "size: [1, 2], place: [x, y]"))

    def chosen(key: str) -> frozenset[str]:
        assert main(["plan", file, "--json", "--cover", "2", "--rotate", key]) == 0
        cells = json.loads(capsys.readouterr().out)["cells"]
        return frozenset(cell["id"] for cell in cells if cell["status"] == "planned")

    assert chosen("monday") == chosen("monday")
    assert len({chosen(str(number)) for number in range(8)}) == 2


def test_shards_part_the_plan(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    found: list[str] = []
    for number in (1, 2, 3):
        assert main(["plan", file, "--json", "--shard", f"{number}/3"]) == 0
        cells = json.loads(capsys.readouterr().out)["cells"]
        found += [cell["id"] for cell in cells if cell["status"] == "planned"]
    assert len(found) == 4
    assert len(set(found)) == 4


def test_shared_durations_decide_shards_order_and_cost(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [f"platform=cpu,case={case},size={size}" for case in "ab" for size in (1, 2)]
    seconds = dict(zip((f"{name} suite" for name in ids), (10.0, 20.0, 30.0, 60.0), strict=True))
    Path("known.json").write_text(json.dumps({"seconds": seconds}))
    assert main(["plan", file, "--json", "--shard", "1/2", "--durations", "known.json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["id"] for cell in cells if cell["status"] == "planned"] == [ids[3]]
    assert main(["plan", file, "--durations", "known.json"]) == 0
    text = capsys.readouterr().out
    assert "about 2 min for 4 cells, not below 2 min in any order" in text
    listed = text.partition("in this order")[2].partition("\n\n")[0].splitlines()[1:]
    order = [line.split()[1] for line in listed]
    assert order == ids[::-1]


def test_without_history_the_guess_is_stated(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", file]) == 0
    assert "no history for 4 of 4 cells, stated guess: 60 s cpu (4)" in capsys.readouterr().out


def test_plan_diff_against_another_file_and_a_revision(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.yaml").write_text(MATRIX.replace("90s", "80s"))
    assert main(["plan", file, "--diff", "other.yaml"]) == 0
    text = capsys.readouterr().out
    assert "limits.idle_s: 80 -> 90  [2 cells]" in text.replace(".0", "")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
    for words in (["init", "-q"], ["add", file], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    Path(file).write_text(MATRIX.replace("case: [a, b]", "case: [a, b, c]"))
    assert main(["plan", file, "--diff", "git:HEAD"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Plan of matrix.yaml at HEAD -> plan of matrix.yaml\n")
    assert "Cells: 2 added, 4 unchanged" in text


def test_the_candidate_replaces_the_image_and_leaves_the_hash(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", file]) == 0
    before = capsys.readouterr().out
    assert main(["plan", file, "--image", "cpu=registry.example/vllm:nightly"]) == 0
    after = capsys.readouterr().out
    assert "note: cpu cells run in registry.example/vllm:nightly, not in the file's image (--image)" in after
    assert main(["plan", file, "--expect-engine", "0.32.0"]) == 0
    said = "note: a cell whose engine does not say 0.32.0 will be unproven (--expect-engine)"
    assert said in capsys.readouterr().out
    assert after.count("registry.example/vllm:nightly") == 5
    hashes = [
        [line for line in text.splitlines() if line.startswith("matrix hash")] for text in (before, after)
    ]
    assert hashes[0] == hashes[1] != []


def test_explain_cell_names_lines_and_what_was_replaced(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain-cell", file, "platform=cpu,case=b,size=1"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "case b [matrix.yaml:3, axes]" in lines
    at = lines.index("limits.idle 120s [matrix.yaml:5, override when case=b]")
    assert lines[at + 1] == "instead of 90s [matrix.yaml:4, top level]"
    assert "image images/cpu [default: the folder of the platform]" in lines
    assert "limits.shm 1g [default]" in lines


def test_images_list_says_what_each_image_is(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("images/cpu").mkdir(parents=True)
    Path("images/cpu/Dockerfile").write_text("FROM scratch\n")
    assert main(["images", "list", file]) == 0
    assert capsys.readouterr().out == "cpu: images/cpu (built from its Dockerfile; 4 cells)\n"
    digest = "sha256:" + "ab" * 32
    assert main(["images", "list", file, "--image", f"cpu=r.example/x@{digest}"]) == 0
    assert capsys.readouterr().out == f"cpu: r.example/x@{digest} (by digest; 4 cells)\n"
    assert main(["images", "list", file, "-k", "case=a and case=b"]) == 13


def test_a_run_with_nothing_selected_is_13_and_one_green_is_0(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file, "--runtime", "process", "-k", "case=a and case=b"]) == 13
    assert "Traceback" not in capsys.readouterr().err


def test_an_image_that_a_process_cannot_use_is_red_in_one_line(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["images", "pull", file, "--runtime", "process", "--image", "cpu=r.example/none:1"]
    assert main(words) == 10
    shown = capsys.readouterr()
    assert shown.out.startswith("r.example/none:1: making it ready; log: ")
    assert shown.out.count("\n") == shown.err.count("\n") == 1
    assert "the process runtime cannot use images of a registry" in shown.err


def piped(
    *words: str, shell_after: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The program in a shell, with something done to its standard output; the exit code is the program's own."""
    line = (
        shlex.join([sys.executable, "-m", "runner", *words]) + " " + shell_after + "; exit ${PIPESTATUS[0]}"
    )
    environ = {**os.environ, "PYTHONPATH": str(PROJECT), **(env or {})}
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, env=environ, cwd=PROJECT
    )


@pytest.mark.parametrize("after", ["| true", "| head -1", ">&-", "> /dev/full", "| cat"])
def test_where_standard_output_goes_changes_no_verdict(tmp_path: Path, after: str) -> None:
    sample = tmp_path / "sample"
    shutil.copytree(PROJECT / "reports" / "sample", sample)
    (sample / "run.json").unlink()
    done = piped("report", str(sample), shell_after=after)
    assert done.returncode == 10
    assert "Traceback" not in done.stderr


def test_a_full_disk_names_the_file_or_the_folders_and_what_to_do(tmp_path: Path) -> None:
    with (
        Path("/dev/full").open("wb", buffering=0) as file,
        pytest.raises(OSError, match="No space") as caught,
    ):
        file.write(b"x")
    out, cache = tmp_path / "reports", tmp_path / "cache"
    room = "(--out, VLLM_MATRIX_CACHE, TMPDIR)"
    do = f": No space left on device: free some, or choose other folders {room}"
    assert host_error(caught.value, out, cache) == f"{out} or {cache} or {tempfile.gettempdir()}{do}"
    named = OSError(errno.ENOSPC, "No space left on device", "/a/log.txt")
    assert host_error(named, out, cache) == f"/a/log.txt{do}"
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory", "/a")
    assert host_error(gone, None, cache) == "/a: No such file or directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_run_on_a_full_disk_says_which_folder_is_full(file: str, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=200", "tmpfs", str(full)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        (full / "ballast").write_bytes(b"x" * 8192)
        words = [sys.executable, "-m", "runner", file, "--runtime", "process", "--out", str(full)]
        environ = {**os.environ, "PYTHONPATH": str(PROJECT)}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert done.stderr.splitlines()[-1].startswith(f"{full}")
    assert ": No space left on device: free some, or choose other folders (--out, " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 75


def test_a_terminal_without_the_signs_gets_ascii_ones() -> None:
    done = piped("plan", "matrix.yaml", shell_after="", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "planned" in done.stdout
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "matrix.yaml", "-k", ""],
        ["run", "matrix.yaml", "--out="],
        ["plan", "matrix.yaml", "--expect-engine", "  "],
    ],
)
def test_an_empty_value_is_refused_and_chooses_nothing(words: list[str]) -> None:
    done = piped(*words, shell_after="")
    assert done.returncode == 2
    assert "an argument is empty: is a variable unset?" in done.stderr


def test_a_mistyped_baseline_is_found_before_anything_starts(tmp_path: Path) -> None:
    done = piped("run", "matrix.yaml", "--baseline", "nope", "--out", str(tmp_path / "out"), shell_after="")
    assert (done.returncode, done.stderr.strip()) == (2, "nope: no such run folder")
    assert not (tmp_path / "out").exists()


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for words in (
        ["plan", "matrix.yaml", "--durations", str(fifo)],
        ["explain", "--log", str(fifo)],
    ):
        done = piped(*words, shell_after="")
        assert done.returncode == 2, words
        assert "plain file" in done.stderr


def test_ctrl_c_in_a_verb_that_starts_nothing_is_130(tmp_path: Path) -> None:
    axes = "\n".join(f"  a{n}: [{', '.join(map(str, range(10)))}]" for n in range(5))
    big = tmp_path / "big.yaml"
    big.write_text(f"version: 1\nsuite: {{path: ., proof: tests}}\naxes:\n  platform: [cpu]\n{axes}\n")
    argv = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "runner",
        "plan",
        str(big),
    ]  # it says when it is at work
    process = subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("runner.matrix.expand" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error


def test_a_folder_without_the_files_of_its_attempts_says_so() -> None:
    done = piped("report", "reports/sample", shell_after="")
    assert done.returncode == 0
    assert "files of attempts are no longer in reports/sample" in done.stderr


def test_a_folder_that_was_changed_says_so(tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    shutil.copytree(PROJECT / "reports" / "sample", sample)
    cell = next((sample / "cells").iterdir())
    assert "was recorded" not in piped("report", str(sample), shell_after="").stderr
    (cell / "attempt-2").mkdir()
    done = piped("report", str(sample), shell_after="")
    assert f"note: 1 difference between {sample} and what was recorded" in done.stderr
    assert f"cells/{cell.name}/attempt-2: not in the record; it was added later" in done.stderr


def test_explain_says_that_a_named_report_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mistyped = tmp_path / "junti.xml"
    assert main(["explain", "--junit", str(mistyped), "--exit-code", "0", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["outcome"] == "no_report"
    assert said["cause"] == f"no test report was written; exit code 0; there is no file {mistyped}"


def test_a_resumed_run_has_every_option_from_its_folder_but_these() -> None:
    parser, _ = make_parser()
    names = set(vars(parser.parse_args(["run", "--resume", "x"])))
    assert names - set(STORED) == {"verb", "file", "resume", "baseline", "waivers", "stored"}
