"""``explain`` with nothing but a log: what may follow an engine's whole life, a host that failed, the running test."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from runner.verdict import explain, find_cause

DATA = Path(__file__).parent / "data"
LABELS: dict[str, dict[str, Any]] = json.loads((DATA / "logs" / "labels.json").read_text())
ERROR_TEXTS: list[dict[str, Any]] = [
    *json.loads((DATA / "F05.json").read_text()),
    *json.loads((DATA / "F06.json").read_text()),
]


def log(name: str) -> list[str]:
    return (DATA / "logs" / name).read_bytes().decode("utf-8", "replace").split("\n")


PASSING = [name for name in LABELS if LABELS[name]["outcome"] == "passed"]
GOOD = log("cpu-0.32-quark-int8-tp2-zentorch-pass.log")
OTHER = log("cuda-0.26-h200-quark-int8-tp2-pass.log")
REFUSED = log("cpu-0.32-jamba-no-chunked-prefill.log")
REFUSAL = "Chunked prefill is required for mamba cache mode 'align'."


def said(lines: list[str], code: int | None = None) -> dict[str, Any]:
    return explain(None, "", lines, code, None)


TAILS = [
    "bash: line 1:  4242 Segmentation fault      (core dumped) python x.py",
    "Killed",
    "./run.sh: line 3:  77 Killed                  python serve.py",
    "sh: 1: Killed",
    "Aborted (core dumped)",
    "Terminated",
    "FAILED tests/test_a.py::test_x - AssertionError: tokens differ",
    "ERROR tests/test_a.py - ImportError: no module",
    "=========== 1 failed, 3 passed in 41.2s ===========",
    "3 passed, 2 errors in 1.20s",
    "E       AssertionError: tokens differ",
    "E       assert [1] == [2]",
    "[12345.6] Out of memory: Killed process 4242 (python3) total-vm:1kB",
    "SystemExit: 1",
    "make: *** [Makefile:3: run] Error 1",
    "\N{POLICE CARS REVOLVING LIGHT} Error: The command exited with status 1",
    "##[error]Process completed with exit code 1.",
    "[rank1]:[W1130 ProcessGroupNCCL.cpp:1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
    "FATAL: kernel mismatch",
    "Error: exit status 3",
    "free(): invalid pointer",
    "malloc(): unsorted double linked list corrupted",
    "terminate called without an active exception",
    "python: symbol lookup error: x.so: undefined symbol: y",
    "*** SIGSEGV received at time=1796050979 on cpu 3 ***",
    "Traceback (most recent call last):",
    "FAIL: tokens differ",
    "not ok 3 - tokens",
    "Exited (137) 3 seconds ago",
    "vllm.service: Main process exited, code=dumped, status=11/SEGV",
    "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-30T12:40:38 DUE TO TIME LIMIT ***",
    "exitcode  : -11 (pid: 77)",
    "!!!!!!!!!! _pytest.outcomes.Exit: done !!!!!!!!!!",
    "============ no tests ran in 0.01s ============",
    "============ 3 skipped in 0.12s ============",
    "zsh: killed     python x.py",
    "Finished: FAILURE",
    "python[77]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch.so",
]


@pytest.mark.parametrize("tail", TAILS)
def test_a_bad_end_after_a_whole_life_is_no_pass(tail: str) -> None:
    found = said([*GOOD, tail, ""])
    assert found["outcome"] != "passed"
    assert " ".join(tail.split())[-17:] in found["cause"]
    assert said([*GOOD, tail, ""], 0)["outcome"] == "no_report"


@pytest.mark.parametrize(
    "tail",
    [
        "=========== 3 passed, 1 warning in 41.2s ===========",
        "3 passed, 2 xfailed in 1.20s",
        "exit code: 0",
        "Process exited with status 0",
        "killed 0 leftover processes",
        "done: 0 failed, 0 errors in 3 s",
        "no errors found, Job succeeded",
        "tests=3 failures=0 errors=0",
        "=========== 3 passed, 1 skipped in 41.2s ===========",
        "tests/test_a.py::test_a[timeout-error] PASSED",
        "[rank0]:[W1130 12:00:00.1 ProcessGroupNCCL.cpp:1] Warning: not destroyed before program exit, see errors",
        "n1:77:99 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 3b000 - Abort COMPLETE",
        "python/lib/resource_tracker.py:1: UserWarning: resource_tracker: process died unexpectedly, relaunching",
        'Exception ignored in: <A>\nTraceback (most recent call last):\n  File "/a.py", line 3, in b\nAttributeError: no',
    ],
)
def test_a_good_end_after_a_whole_life_stays_a_pass(tail: str) -> None:
    assert said([*GOOD, *tail.split("\n")])["outcome"] == "passed"


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (GOOD + OTHER, "passed"),
        (GOOD + GOOD[: len(GOOD) // 2], "no_report"),
        (GOOD[: len(GOOD) // 2] + GOOD, "no_report"),
        (GOOD + OTHER[: len(OTHER) // 2], "no_report"),
        (GOOD + OTHER[20 : len(OTHER) * 5 // 6], "no_report"),
        (GOOD[20:], "passed"),
    ],
    ids=["two", "half behind", "half before", "half of another", "without its head", "one without its head"],
)
def test_each_engine_that_started_must_also_have_ended(lines: list[str], outcome: str) -> None:
    found = said(lines)
    assert found["outcome"] == outcome
    assert ("one did not generate and shut down" in found["cause"]) is (outcome != "passed")


PREFIXES = {
    "buildkite": "\x1b_bk;t=1796050979304\x07",
    "compose": "vllm-1  | ",
    "timestamps": "2026-11-30T12:00:00.123456789Z ",
    "compose with times": "vllm-1  | 2026-11-30T12:00:00.123456789Z ",
    "cri": "2026-11-30T12:00:00.123456789+01:00 stderr F ",
    "kubectl": "[pod/vllm-5d9c-x2/vllm] ",
    "stern": "vllm-5d9c-x2 vllm ",
    "journal": "Nov 30 12:40:38.123456 host-1.example vllm[117]: ",
    "gitlab": "2026-11-30T12:40:38.123456Z 01O ",
    "jenkins": "12:40:38  ",
    "mpirun": "[1,0]<stderr>:",
    "srun": "0: ",
    "quoted": "> ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("name", LABELS)
def test_what_a_collector_writes_before_each_line_changes_nothing(name: str, prefix: str) -> None:
    plain = log(name)
    assert find_cause(prefix + line for line in plain) == find_cause(plain)
    assert said([prefix + line for line in plain]) == said(plain)


@pytest.mark.parametrize(
    ("prefix", "tail"),
    [(PREFIXES["kubectl"], tail) for tail in TAILS] + [(prefix, TAILS[6]) for prefix in PREFIXES.values()],
)
def test_no_collector_hides_a_bad_end(prefix: str, tail: str) -> None:
    assert said([prefix + line for line in [*GOOD, tail, ""]])["outcome"] != "passed"


@pytest.mark.parametrize("name", LABELS)
def test_a_file_of_dockers_json_log_driver_is_read(name: str) -> None:
    told = [
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-30T12:00:00Z"})
        for line in log(name)
    ]
    assert said(told) == said(log(name))


@pytest.mark.parametrize("line", ['{"log": 1}', '{"log": "x', '{"log":' + "[" * 100_000, '{"log":null}'])
def test_what_only_begins_like_that_file_is_a_line_like_any(line: str) -> None:
    assert said([line])["outcome"] == "no_report"
    assert said([*GOOD, line])["outcome"] == "passed"


def test_a_prefix_whose_numbers_and_blanks_change_is_one_prefix() -> None:
    numbered = [f"{number:6}\t{line}" for number, line in enumerate(REFUSED, 1)]
    assert said(numbered) == said(REFUSED)
    assert said(numbered)["cause"] == REFUSAL


def test_a_prefix_is_not_learned_from_what_lines_quote() -> None:
    """A log that begins without a prefix has none; and pytest's mark and an exception's name are no collector's words."""
    worker = "(Worker_TP1 pid=7) ERROR 11-30 12:40:38 [a.py:1] RuntimeError: CUDA error: out of memory"
    for before in ("E   ", "RuntimeError: "):
        assert find_cause([before + worker] * 4 + [before + "assert 1 == 2"]) == find_cause([before + worker])
    quoted = [*REFUSED[:3], *(f"said: {line}" for line in REFUSED)]
    assert find_cause(quoted) == find_cause(quoted[:3])


def test_what_pytest_quotes_is_not_taken_for_a_collectors_line() -> None:
    assert find_cause(["E   | RuntimeError: CUDA error: out of memory"]) is None


@pytest.mark.parametrize("name", LABELS)
def test_nuls_between_and_before_the_characters_change_nothing(name: str) -> None:
    chosen = random.Random(4)
    plain = log(name)
    text = list("\n".join(plain))
    for _ in range(len(text) // 100):
        text.insert(chosen.randrange(len(text)), "\0")
    holed = "".join(text).split("\n")
    holed[0] = "\0" * 100_000 + holed[0]
    assert said(holed) == said(plain)


def test_a_refusal_is_found_between_the_lines_of_another_process() -> None:
    other = log("cpu-0.32-qwen3-moe-bf16-pass.log")
    for first, second in ((REFUSED, other), (other, REFUSED)):
        both = zip([*first, *[""] * len(second)], [*second, *[""] * len(first)], strict=False)
        found = find_cause([line for pair in both for line in pair])
        assert found is not None
        assert (found.line, found.kind) == (REFUSAL, "refused")


@pytest.mark.parametrize("row", ERROR_TEXTS, ids=[str(number) for number in range(len(ERROR_TEXTS))])
@pytest.mark.parametrize(
    ("before", "code"), [("docker: Error response from daemon: ", 125), ("docker: Error response from daemon: ", None), ("", 125)]
)  # fmt: skip
def test_f05_f06_in_the_output_of_docker_run(row: dict[str, Any], before: str, code: int | None) -> None:
    text = before + str(row.get("text") or row.get("log") or row["stream"][-1]["error"])
    found = said(["Unable to find image 'a:b' locally", text, "See 'docker run --help'."], code)
    wanted = {
        "infra": ("infra", "host"),
        "config": ("refused", "config"),
        "runner-bug": ("crashed", "test"),
    }[row["class"]]
    assert (found["outcome"], found["culprit"]) == wanted
    assert found["cause"].startswith(text[:60])


def test_words_of_a_host_fault_that_a_script_says_are_none() -> None:
    assert said(["retry: Connection refused", "done"])["outcome"] == "no_report"
    assert said(["docker: Error response from daemon: manifest unknown"], 0)["outcome"] == "no_report"
    assert said([*GOOD, "manifest unknown"])["outcome"] == "passed"


def test_a_log_is_not_alone_where_a_report_was_named_that_is_not_there() -> None:
    found = explain(None, "", GOOD, 0, None, report_asked=True)
    assert (found["outcome"], found["culprit"]) == ("no_report", "test")
    refused = explain(None, "", REFUSED, 1, None, report_asked=True)
    assert (refused["outcome"], refused["cause"]) == ("refused", REFUSAL)


VERBOSE = [
    "============================= test session starts ==============================",
    "collecting ... collected 3 items",
    "",
    "test_dies.py::test_a PASSED                                              [ 33%]",
]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["test_dies.py::test_b "], "1 passed, running test_dies.py::test_b"),
        (["test_dies.py::test_b[x y] ", "output"], "1 passed, running test_dies.py::test_b[x y]"),
        (["test_dies.py::test_b FAILED", "test_dies.py::test_c "], "1 passed, 1 failed, running test_dies.py::test_c"),
        (["test_dies.py::test_b output", "PASSED", "test_dies.py::test_c"], "2 passed, running test_dies.py::test_c"),
    ],
)  # fmt: skip
def test_c05_the_running_test_of_a_verbose_log_is_named(more: list[str], words: str) -> None:
    found = said([*VERBOSE, *more], 0)
    assert (found["outcome"], words in found["cause"]) == ("no_report", True)
    assert "running" in said([*VERBOSE, *more], 139)["cause"]


@pytest.mark.parametrize(
    "more",
    [
        ["test_dies.py::test_b PASSED", "", "=========== 2 passed in 0.01s ==========="],
        ["test_dies.py::test_b ", "[gw0] [ 33%] PASSED test_dies.py::test_a "],
        ["test_dies.py:3: AssertionError"],
    ],
)
def test_c05_no_test_is_named_that_ended_or_cannot_be_known(more: list[str]) -> None:
    assert "running" not in said([*VERBOSE, *more], 1)["cause"]
