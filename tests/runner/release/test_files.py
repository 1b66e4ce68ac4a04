"""Policies and waiver files: what is read, and every mistake with its place and the fix."""

from __future__ import annotations

import contextlib
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import PolicyError
from runner.model import Outcome, Proof
from runner.release import Minimum, Severity, load_policy, load_waivers

FULL = (
    """\
version: 1
blocking: platform=cpu and tp<=2
coverage:
  tp: {1: 3, 2: 2}
runtime: [docker, process]
proof: tests
engine_version: 0.32.0
images: {cpu: sha256:IMAGE}
suites: {tests/moe: sha256:SUITE}
matrix: MATRIX
max_age_days: 7
waivers: {max_days: 30, unmatched: report, passing: refuse}
""".replace("IMAGE", "ab" * 32)
    .replace("SUITE", "ef" * 32)
    .replace("MATRIX", "cd" * 32)
)

WAIVER = """\
version: 1
waivers:
  - scope: platform=cpu and quantization=fp8
    outcome: [crashed, failed]
    cause: "no operator .*fp8"
    owner: kernels
    bug: https://example.org/1
    expires: 2027-03-31
    reason: the op is not in the CPU build
"""


def mistakes(tmp_path: Path, text: str, load: object = load_policy) -> list[str]:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError) as caught:
        load(file)  # type: ignore[operator]
    assert caught.value.exit_code == 2
    return [line.removeprefix(f"{file}:") for line in str(caught.value).splitlines()]


def test_a_whole_policy_is_read(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(FULL)
    policy = load_policy(file)
    assert policy.blocking == "platform=cpu and tp<=2"
    assert policy.coverage == (
        Minimum(axis="tp", value="1", passed=3, source="policy.yaml:4"),
        Minimum(axis="tp", value="2", passed=2, source="policy.yaml:4"),
    )
    assert (policy.runtimes, policy.proof) == (("docker", "process"), Proof.TESTS)
    assert (policy.engine_version, policy.images) == ("0.32.0", {"cpu": "sha256:" + "ab" * 32})
    assert (policy.matrix_hash, policy.suites) == ("cd" * 32, {"tests/moe": "sha256:" + "ef" * 32})
    assert (policy.max_age_days, policy.max_waiver_days) == (7, 30)
    assert (policy.unmatched_waiver, policy.passing_waiver) == (Severity.REPORT, Severity.REFUSE)


def test_what_a_policy_does_not_say_is_strict(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\n")
    policy = load_policy(file)
    assert (policy.blocking, policy.runtimes, policy.proof) == ("", ("docker",), Proof.ENGINE)
    assert (policy.engine_version, policy.max_age_days, policy.matrix_hash) == (None, 30, "")
    assert (policy.unmatched_waiver, policy.passing_waiver) == (Severity.REFUSE, Severity.REPORT)


def test_all_mistakes_of_a_policy_are_told_together(tmp_path: Path) -> None:
    text = "version: 2\nblockng: x\nruntime: podman\nproof: sure\nmax_age_days: -1\nimages: {cpu: latest}\n"
    text += "matrix: ad1df5\n"
    assert mistakes(tmp_path, text) == [
        "1:10: version: '2' is not known (write version: 1; a file of another version needs another version of this program)",
        "2:1: the key 'blockng' is not known (did you mean blocking?)",
        "3:10: runtime: 'podman' is not known (known: docker, process)",
        "4:8: proof: 'sure' is not known (known: engine, tests)",
        "5:15: max_age_days: '-1' is no whole number from 0 to 3660",
        "6:15: images.cpu: 'latest' does not fit (write sha256: and 64 hex digits)",
        "7:9: matrix: 'ad1df5' does not fit (copy the matrix hash that `plan` shows)",
    ]


def test_an_expression_that_is_none_is_a_mistake_with_its_column(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "version: 1\nblocking: platform = \n")
    assert found[0].startswith("2:11: blocking: expression, column 11: expected a value for platform")


def test_a_key_given_twice_is_a_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "version: 1\nproof: engine\nproof: tests\n") == [
        "3:1: proof is given twice: here and in line 2 (keep one of them)"
    ]


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        PolicyError, match=r"policy.yaml:1:1: there is no such file \(give the path of a policy file\)"
    ):
        load_policy(tmp_path / "policy.yaml")


def test_a_waiver_is_read(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(WAIVER)
    (waiver,) = load_waivers(file)
    assert waiver.scope == "platform=cpu and quantization=fp8"
    assert waiver.outcomes == (Outcome.CRASHED, Outcome.FAILED)
    assert (waiver.expires, waiver.source) == (date(2027, 3, 31), "w.yaml:3")


@pytest.mark.parametrize("key", ["owner", "bug", "scope"])
def test_blanks_are_no_words(tmp_path: Path, key: str) -> None:
    """Nobody signs off by a blank."""
    file = tmp_path / "w.yaml"
    lines = [f'{line.partition(":")[0]}: "  "' if f"{key}:" in line else line for line in WAIVER.splitlines()]
    file.write_text("\n".join(lines))
    with pytest.raises(PolicyError, match=rf"waivers\[0\]\.{key}: '  ' is empty \(write a value\)"):
        load_waivers(file)


def test_no_waivers_are_an_empty_list(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("version: 1\nwaivers: []\n")
    assert load_waivers(tmp_path / "w.yaml") == ()


@pytest.mark.parametrize("key", ["scope", "outcome", "cause", "owner", "bug", "expires"])
def test_a_waiver_without_a_part_is_none(tmp_path: Path, key: str) -> None:
    part = WAIVER.replace(f"    {key}:", "    x-gone:").replace(f"  - {key}:", "  - x-gone:")
    text = "\n".join(line for line in part.splitlines() if "    x-gone" not in line)
    if key == "scope":
        text = text.replace("  - x-gone: platform=cpu and quantization=fp8\n    ", "  - ")
    found = mistakes(tmp_path, text, load_waivers)
    assert any(f"the key {key!r} is missing" in line for line in found), found


BAD = {
    "a free-text date": ("2027-03-31", "next spring", "8:14: waivers[0].expires: 'next spring' is no day"),
    "a day that is none": ("2027-03-31", "2027-02-30", "8:14: waivers[0].expires: '2027-02-30' is no day"),
    "a date without dashes": ("2027-03-31", "20270331", "8:14: waivers[0].expires: '20270331' is no day"),
    "a pass": ("[crashed, failed]", "passed", "4:14: waivers[0].outcome: passed cannot be waived"),
    "no tests": ("[crashed, failed]", "no_tests", "4:14: waivers[0].outcome: no_tests cannot be waived"),
    "a host fault": ("[crashed, failed]", "infra", "4:14: waivers[0].outcome: infra cannot be waived"),
    "a mistyped outcome": ("[crashed, failed]", "crash", "did you mean crashed?"),
    "no outcome": ("[crashed, failed]", "[]", "3:5: outcome: the list is empty"),
    "any cause": ('"no operator .*fp8"', '".*"', "5:12: waivers[0].cause: '.*' fits every cause"),
    "a group": ('"no operator .*fp8"', '"(a+)+b"', "5:12: waivers[0].cause: '(a+)+b' has a group"),
    "three repeats": ('"no operator .*fp8"', '"a.*b.*c.*d"', "repeats more than 2 things"),
    "no expression": ('"no operator .*fp8"', '"[a"', "is no regular expression"),
    "a huge pattern": ('"no operator .*fp8"', "a" * 201, "has 201 characters, the limit is 200"),
    "an unknown key": ("    owner:", "    ticket: 1\n    owner:", "the key 'ticket' is not known"),
    "a scope that is none": ("platform=cpu and", "platform=cpu or or", "scope: expression, column 17"),
}


@pytest.mark.parametrize(("old", "new", "said"), BAD.values(), ids=BAD)
def test_a_waiver_that_signs_off_too_much_or_nothing_is_a_mistake(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in WAIVER
    found = mistakes(tmp_path, WAIVER.replace(old, new), load_waivers)
    assert any(said in line for line in found), found


PIECES = (
    "version: 1\n",
    "\n",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "#",
    "'",
    '"',
    "waivers",
    "scope",
    "coverage",
    "1",
)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_is_read_or_refused_in_one_way(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text)
    for load in (load_policy, load_waivers):
        with contextlib.suppress(PolicyError):
            load(file)
