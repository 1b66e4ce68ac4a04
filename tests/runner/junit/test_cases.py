"""The handed field cases: each file's exact reading. Data: ``data/<case>/``; ids and names begin with the case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import codec
from runner.errors import BadReport
from runner.facts import JUnitReport, Tally, TestCase, TestResult
from runner.junit import read, read_bytes, read_many

DATA = Path(__file__).parent / "data"


def at(name: str) -> JUnitReport:
    return read(DATA / name)


def one(report: JUnitReport, name: str) -> TestCase:
    found = [case for case in report.cases if case.name == name]
    assert len(found) == 1, name
    return found[0]


TALLIES = {
    "J01/xunit1.xml": Tally(total=6, passed=1, failed=2, errors=1, skipped=1, xfailed=1),
    "J01/xunit2.xml": Tally(total=6, passed=1, failed=2, errors=1, skipped=1, xfailed=1),
    "J02/suite-root.xml": Tally(total=2, passed=1, failed=1),
    "J02/two-suites.xml": Tally(total=3, passed=2, failed=1),
    "J02/case-under-root.xml": Tally(total=2, passed=1, failed=1),
    "J02/case-root.xml": Tally(total=1, failed=1),
    "J03/nested.xml": Tally(total=5, passed=2, failed=2, skipped=1),
    "J04/one-case.xml": Tally(total=1, failed=1),
    "J04/two-cases.xml": Tally(total=1, failed=1),
    "J06/reruns.xml": Tally(total=2, failed=1, flaky=1),
    "J06/fail-then-pass.xml": Tally(total=1, flaky=1),
    "J07/surefire.xml": Tally(total=4, passed=1, failed=1, flaky=2),
    "J09/ctest.xml": Tally(total=5, passed=1, failed=2, skipped=2),
    "J11/bad-utf8.xml": Tally(total=2, passed=1, failed=1),
    "J11/charref.xml": Tally(total=2, passed=1, failed=1),
    "J11/esc.xml": Tally(total=2, passed=1, failed=1),
    "J11/nul.xml": Tally(total=2, passed=1, failed=1),
    "J16/honest.xml": Tally(total=1, failed=1),
    "J18/bom.xml": Tally(total=1, failed=1),
    "J18/latin1-declared.xml": Tally(total=1, failed=1),
    "J18/latin1-lie.xml": Tally(total=1, failed=1),
    "J18/utf16-lie.xml": Tally(total=1, failed=1),
    "J18/utf16-real.xml": Tally(total=1, failed=1),
    "J18/utf8-alias.xml": Tally(total=1, failed=1),
    "J19/shard-0.xml": Tally(total=2, passed=2),
    "J19/shard-1.xml": Tally(total=2, passed=1, failed=1),
    "J19/nameless.xml": Tally(total=3, passed=2, failed=1),
    "J21/times.xml": Tally(total=10, passed=10),
    "J22/crash.xml": Tally(total=3, passed=2, errors=1),
    "J22/crash-then-pass.xml": Tally(total=2, passed=1, errors=1),
    "J22/lost-tests.xml": Tally(total=3, passed=3),
    "J23/subtests.xml": Tally(total=2, passed=1, failed=1),
    "J23/subtests-pass.xml": Tally(total=1, passed=1),
    "J26/all-skipped.xml": Tally(total=3, skipped=3),
    "J26/empty.xml": Tally(),
    "J26/no-suite.xml": Tally(),
    "E07/report.xml": Tally(total=3, failed=3),
}
REFUSED = {"J12/cut-after-case.xml", "J12/cut-in-tag.xml", "J16/bomb.xml", "J16/quadratic.xml"}


@pytest.mark.parametrize("name", TALLIES)
def test_tally(name: str) -> None:
    report = at(name)
    assert report.tally == TALLIES[name]
    assert read_many([DATA / name]) == TALLIES[name]
    parts = (report.tally.passed, report.tally.failed, report.tally.errors, report.tally.skipped)
    assert sum(parts) + report.tally.xfailed + report.tally.flaky == report.tally.total == len(report.cases)


def test_every_file_is_expected() -> None:
    files = {f"{path.parent.name}/{path.name}" for path in DATA.glob("[JE]*/*.xml")}
    assert files == TALLIES.keys() | REFUSED


@pytest.mark.parametrize("name", ["J01/xunit1.xml", "J01/xunit2.xml"])
def test_j01_times_and_kinds(name: str) -> None:
    report = at(name)
    assert report.seconds == 3.25
    assert report.remarks == ()
    assert one(report, "test_known_bad").result is TestResult.XFAILED
    assert one(report, "test_should_fail").result is TestResult.FAILED
    assert one(report, "test_setup_breaks").result is TestResult.ERROR
    assert one(report, "test_mul[fp16-2]").messages[0].startswith("assert 3 == 4")


def test_j03_suite_path_and_seconds() -> None:
    report = at("J03/nested.xml")
    assert report.seconds == 1.5
    assert [(case.name, case.suite) for case in report.cases] == [
        ("same", "outer"),
        ("m1", "outer / middle"),
        ("same", "outer / middle / inner"),
        ("i2", "outer / middle / inner"),
        ("i3", "outer / middle / inner"),
    ]


@pytest.mark.parametrize("name", ["J04/one-case.xml", "J04/two-cases.xml"])
def test_j04_failure_and_teardown_error_are_one_test(name: str) -> None:
    (case,) = at(name).cases
    assert (case.result, case.attempts) == (TestResult.FAILED, 1)
    assert [message.partition("\n")[0] for message in case.messages] == [
        "call broke",
        'failed on teardown with "Boom"',
    ]


def test_j06_repeats_are_folded_and_said() -> None:
    report = at("J06/reruns.xml")
    third, always = one(report, "test_third_time"), one(report, "test_always")
    assert (third.result, third.attempts) == (TestResult.FLAKY, 3)
    assert (always.result, always.attempts) == (TestResult.FAILED, 3)
    assert "test_third_time ran 3 times" in " ".join(report.remarks)
    (case,) = at("J06/fail-then-pass.xml").cases
    assert (case.result, case.attempts, case.messages) == (TestResult.FLAKY, 2, ("first try",))


def test_j06_repeats_that_the_header_counts_are_no_reruns() -> None:
    same = '<testcase classname="c" name="n"/>'
    counted = read_bytes(f'<testsuite name="s" tests="2">{same}{same}</testsuite>'.encode())
    assert counted.tally == Tally(total=1, passed=1)
    assert counted.cases[0].attempts == 2
    reruns = read_bytes(f'<testsuite name="s" tests="1">{same}{same}</testsuite>'.encode())
    assert reruns.tally == Tally(total=1, flaky=1)


def test_j07_surefire() -> None:
    report = at("J07/surefire.xml")
    assert one(report, "flaky1").result is TestResult.FLAKY
    assert one(report, "flaky1").messages == ("was off by one\nline a\nline b",)
    assert one(report, "flaky2").result is TestResult.FLAKY
    tries = one(report, "all_tries")
    assert (tries.result, tries.attempts) == (TestResult.FAILED, 3)
    assert tries.messages == ("bad", "bad", "bad again\nbad")
    assert one(report, "slow").time_s == 1234.56
    assert report.lost == 0


def test_j09_ctest() -> None:
    report = at("J09/ctest.xml")
    results = {case.name: case.result.value for case in report.cases}
    assert results == {
        "t_ok": "passed",
        "t_fail": "failed",
        "t_fail_nochild": "failed",
        "t_missing": "skipped",
        "t_off": "skipped",
    }
    assert one(report, "t_missing").messages == ("Unable to find executable",)
    assert one(report, "t_fail").messages == ("failed without a message",)


@pytest.mark.parametrize(
    ("name", "count", "where", "message"),
    [
        ("bad-utf8.xml", 4, "2:145", "a\ufffd\ufffd b\nhalf \ufffd\ufffd end"),
        ("charref.xml", 3, "1:145", "a\ufffdb\nx \ufffd[0m \ufffd"),
        ("esc.xml", 2, "1:148", "got \ufffd[31mred\ufffd[0m\nx"),
        ("nul.xml", 1, "1:152", "a\ntext \ufffd here"),
    ],
)
def test_j11_bad_characters_are_repaired_and_said(name: str, count: int, where: str, message: str) -> None:
    report = at(f"J11/{name}")
    assert report.remarks[0].startswith(f"report repaired: {count} character")
    assert report.remarks[0].endswith(f"the first at {where}")
    assert one(report, "bad").messages == (message,)


@pytest.mark.parametrize(
    ("name", "where", "partial", "counts"),
    [
        ("cut-in-tag.xml", "2:224", "2 passed, 1 failed", Tally(total=3, passed=2, failed=1)),
        ("cut-after-case.xml", "2:148", "2 passed", Tally(total=2, passed=2)),
    ],
)
def test_j12_truncated(name: str, where: str, partial: str, counts: Tally) -> None:
    with pytest.raises(BadReport) as caught:
        at(f"J12/{name}")
    assert caught.value.truncated
    assert str(caught.value).startswith(f"{name}:{where}: truncated report: ")
    assert str(caught.value).endswith(f"read until there: {partial}")
    assert caught.value.partial == counts


@pytest.mark.parametrize("name", ["bomb.xml", "quadratic.xml"])
def test_j16_doctype_is_refused(name: str) -> None:
    with pytest.raises(BadReport, match="a DOCTYPE is refused") as caught:
        at(f"J16/{name}")
    assert not caught.value.truncated
    assert "zzz" not in str(caught.value)
    assert "qqq" not in str(caught.value)


def test_j16_bomb_in_utf16_is_refused() -> None:
    data = (DATA / "J16" / "bomb.xml").read_text(encoding="utf-8").encode("utf-16")
    with pytest.raises(BadReport, match="a DOCTYPE is refused"):
        read_bytes(data)


def test_j16_quoted_doctype_is_text() -> None:
    (case,) = at("J16/honest.xml").cases
    assert case.messages == ('saw <!DOCTYPE x [<!ENTITY y "z">]>\n<!DOCTYPE',)


@pytest.mark.parametrize("name", ["bom", "latin1-declared", "utf16-real", "utf8-alias", "utf16-lie"])
def test_j18_text_survives(name: str) -> None:
    report = at(f"J18/{name}.xml")
    (case,) = report.cases
    assert (case.name, case.messages) == ("caf\u00e9", ("\u00e9",))
    assert ("read as utf-8" in report.remarks[0]) is (name == "utf16-lie")


def test_j18_latin1_lie_is_repaired() -> None:
    report = at("J18/latin1-lie.xml")
    assert (
        report.remarks[0] == "report repaired: 2 characters that XML cannot hold replaced, the first at 1:92"
    )
    assert report.cases[0].result is TestResult.FAILED


def test_j19_shards_are_four_tests() -> None:
    shards = [DATA / "J19/shard-0.xml", DATA / "J19/shard-1.xml"]
    assert read_many(shards) == Tally(total=4, passed=3, failed=1)
    assert one(read(shards[1]), "test_b").file == "y/test_util.py"


def test_j19_same_name_in_two_files_of_one_report() -> None:
    cases = (
        '<testcase classname="u" name="b" file="x/u.py"/>'
        '<testcase classname="u" name="b" file="y/u.py"><failure message="y broke"/></testcase>'
        '<testcase classname="u" name="b" file="z/u.py"/>'
    )
    report = read_bytes(f'<testsuite tests="3" failures="1">{cases}</testsuite>'.encode())
    assert report.tally == Tally(total=3, passed=2, failed=1)


def test_j19_two_suites_of_one_name_hold_different_tests() -> None:
    suite = '<testsuite name="pytest" tests="1"><testcase classname="c" name="n"/></testsuite>'
    assert read_bytes(f"<testsuites>{suite}{suite}</testsuites>".encode()).tally == Tally(total=2, passed=2)


def test_j19_nameless_have_a_placeholder() -> None:
    names = [case.name for case in at("J19/nameless.xml").cases]
    assert names == ["(no name) 1", "[1] v", "(no name) 3"]


def test_j21_times() -> None:
    report = at("J21/times.xml")
    times = {case.name: case.time_s for case in report.cases}
    assert times.pop("t0") == 1234.56
    assert times.pop("t9") == 1e-05
    assert times == {f"t{n}": None for n in range(1, 9)}
    assert report.remarks == ("time unknown for 8 of 10 tests (such as 'NaN')",)
    assert json.loads(codec.dumps(report), parse_constant=pytest.fail)["seconds"] == 1234.56001


def test_j22_crash_is_an_error_of_the_worker() -> None:
    report = at("J22/crash.xml")
    assert report.crashed
    boom = one(report, "test_boom")
    assert (boom.result, boom.crashed) == (TestResult.ERROR, True)
    assert boom.messages[0].startswith("worker crash: ")
    assert "worker crash in test_boom" in report.remarks


def test_j22_crash_stands_over_a_later_pass() -> None:
    report = at("J22/crash-then-pass.xml")
    boom = one(report, "test_boom")
    assert (boom.result, boom.crashed, boom.attempts) == (TestResult.ERROR, True, 2)
    assert report.crashed
    assert report.lost == 0


def test_j22_lost_tests() -> None:
    report = at("J22/lost-tests.xml")
    assert report.lost == 3
    assert report.remarks[0].startswith("the header promises 6 tests, the file holds 3: 3 not reported")


def test_j23_failed_subtests_are_one_failed_test() -> None:
    report = at("J23/subtests.xml")
    many = one(report, "test_many")
    assert many.messages == ("assert 1 != 1\nE i=1", "assert 3 != 3\nE i=3", "contains 2 failed subtests")
    assert report.lost == 0
    assert "subtests are counted but not listed" in report.remarks[0]


def test_j23_passing_subtests_leave_only_the_count() -> None:
    """The file alone cannot tell them from lost tests: ``lost`` is the fact, exit code and test log decide."""
    report = at("J23/subtests-pass.xml")
    assert report.lost == 3
    assert "or subtests" in report.remarks[0]


def test_j24_huge_text(tmp_path: Path) -> None:
    line = "step 000 loss 0.123456 throughput 999.9 items per second\n"
    noisy = f'<testcase classname="t" name="noisy"><system-out>{line * (12_000_000 // len(line))}</system-out></testcase>'
    loud = f'<testcase classname="t" name="bad"><failure message="no">{line * 100_000}the end</failure></testcase>'
    path = tmp_path / "big.xml"
    quiet = '<testcase classname="t" name="quiet"/>'
    path.write_text(
        f'<testsuites><testsuite tests="3" failures="1">{quiet}{noisy}{loud}</testsuite></testsuites>'
    )
    report = read(path)
    assert report.tally == Tally(total=3, passed=2, failed=1)
    (message,) = one(report, "bad").messages
    assert len(message) < 4_200
    assert f"[... cut: {len(line) * 100_000 + 7:,} characters in all ...]" in message
    assert message.startswith("no\nstep 000")
    assert message.endswith("the end")


def test_j26_common_reason_of_skips() -> None:
    assert "all 3 tests were skipped: no accelerator visible" in at("J26/all-skipped.xml").remarks


def test_c14_report_of_a_run_whose_exit_code_was_lost() -> None:
    data = (
        '<testsuites><testsuite name="p" tests="2" failures="1"><testcase classname="t" name="a"/>'
        '<testcase classname="t" name="b"><failure message="no"/></testcase></testsuite></testsuites>\n'
    )
    assert read_bytes(data.encode()).tally == Tally(total=2, passed=1, failed=1)


def test_e02_three_thousand_failures_with_multibyte_text() -> None:
    body = "\u00e9\u4e2d\U0001f525 value &lt;0.1&gt; &amp; more | ```\n" * 40
    cases = "".join(
        f'<testcase classname="t" name="test_case[{i}-\u4e2d|x]"><failure message="m {i}">{body}</failure></testcase>'
        for i in range(3000)
    )
    report = read_bytes(f'<testsuite name="p" tests="3000" failures="3000">{cases}</testsuite>'.encode())
    assert report.tally == Tally(total=3000, failed=3000)
    assert len(report.cases) == 3000
    assert report.cases[2999].name == "test_case[2999-\u4e2d|x]"
    assert report.cases[0].messages[0].startswith("m 0\n\u00e9\u4e2d\U0001f525 value <0.1> & more")


def test_e07_markup_stays_text() -> None:
    assert [case.name for case in at("E07/report.xml").cases] == ["one", "two", "three"]
    assert one(at("E07/report.xml"), "one").messages[0].endswith("# Heading out of nowhere")
