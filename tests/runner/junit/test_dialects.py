"""Dialects beyond the handed cases, and elements or words that must never be overlooked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import BadReport
from runner.facts import JUnitReport, Tally, TestResult
from runner.junit import read, read_bytes, words


def case(attrs: str = "", children: str = "") -> JUnitReport:
    return read_bytes(
        f'<testsuite><testcase name="n" time="1" {attrs}>{children}</testcase></testsuite>'.encode()
    )


@pytest.mark.parametrize(
    ("attrs", "children", "result"),
    [
        ('status="run" result="completed"', "", "passed"),
        ('status="notrun" result="suppressed"', "", "skipped"),
        ('status="run" result="skipped"', '<skipped message="no GPU"/>', "skipped"),
        ('status="run" result="completed"', '<failure message="x"/>', "failed"),
        ('status="FAILED"', "", "failed"),
        ('status="timeout"', "", "error"),
        ('status="fail"', "<skipped/>", "failed"),
        ('status="fail"', '<flakyFailure message="x" type="t"/>', "failed"),
        ('status="passed"', "<error/>", "error"),
        ("", '<rerunFailure message="x" type="t"/>', "failed"),
        ("", '<rerun message="first try"/>', "flaky"),
        ("", '<skipped type="pytest.xfail"/>', "xfailed"),
        ("", '<skipped/><failure message="x"/>', "failed"),
        ('status="odd"', "<skipped/>", "skipped"),
        ("", "<properties><property name='a' value='b'/></properties><system-err/>", "passed"),
        ('outcome="failed"', "", "failed"),
        ('state="Error"', "", "error"),
        ('outcome="pending approval"', "", "passed"),
        ('executed="True" success="False"', "", "failed"),
        ('executed="false"', "", "skipped"),
        ('passed="0"', "", "failed"),
        ('timedout="true"', "", "error"),
        ('ignored="true"', "", "skipped"),
        ('success="true" skipped="false" failed="0"', "", "passed"),
        ('status="passed" outcome="failed"', "", "failed"),
    ],
)
def test_result_of_one_testcase(attrs: str, children: str, result: str) -> None:
    (found,) = case(attrs, children).cases
    assert found.result.value == result
    assert bool(found.messages) or result in {"passed", "skipped", "xfailed"}


@pytest.mark.parametrize("value", ["fal", "failled", "unknown", "42"])
def test_unknown_status_word_is_never_a_pass(value: str) -> None:
    (found,) = case(f'status="{value}"').cases
    assert found.result is TestResult.ERROR
    assert found.messages == (f'status="{value}" is not known, so the test does not count as passed',)


@pytest.mark.parametrize("tag", ["falure", "Failure", "warning", "assert"])
def test_unknown_child_is_never_a_pass(tag: str) -> None:
    (found,) = case("", f"<{tag}>text</{tag}>").cases
    assert found.result is TestResult.ERROR
    assert found.messages[0].startswith(f"element <{tag}> is not known")


@pytest.mark.parametrize(
    "inner",
    [
        "<tstcase name='n'><failure/></tstcase>",
        "<properties><testcase name='n'/></properties>",
        "<system-out><failure/></system-out>",
        "<testcase name='n'><testcase name='m'/></testcase>",
        "<testcase name='n'><failure><failure/></failure></testcase>",
        "<testcase name='n'><system-out><error/></system-out></testcase>",
        "<flakyFailure/>",
    ],
)
def test_results_in_odd_places_make_the_report_bad(inner: str) -> None:
    with pytest.raises(BadReport, match=r"^junit\.xml:1:\d+: "):
        read_bytes(f"<testsuite>{inner}</testsuite>".encode())


def test_header_that_counts_failures_the_file_does_not_show() -> None:
    cases = '<testcase name="a"/><testcase name="b"/>'
    with pytest.raises(
        BadReport, match="the header says 1 failed or broken, but no such test stands in the file"
    ):
        read_bytes(f'<testsuite tests="2" failures="1">{cases}</testsuite>'.encode())
    with pytest.raises(BadReport, match="the header says 2 failed or broken"):
        read_bytes(f'<testsuites errors="2"><testsuite>{cases}</testsuite></testsuites>'.encode())
    fewer = read_bytes(b'<testsuite failures="3"><testcase name="a"><failure/></testcase></testsuite>')
    assert fewer.tally == Tally(total=1, failed=1)
    assert "the header says 3 failed or broken, the file shows 1" in fewer.remarks


def test_error_of_the_suite_itself_is_a_test() -> None:
    report = read_bytes(
        b'<testsuite name="s" tests="1" errors="1"><error message="import broke"/></testsuite>'
    )
    assert report.tally == Tally(total=1, errors=1)
    assert (report.cases[0].name, report.cases[0].messages) == ("(suite itself)", ("import broke",))


def test_bazel_error_report() -> None:
    report = read_bytes(
        b'<testsuites><testsuite name="x" tests="1" failures="0" errors="1"><testcase name="x" status="run" '
        b'duration="2" time="2"><error message="exited with error code 1"></error></testcase>'
        b"<system-out>log &lt;a&gt;</system-out></testsuite></testsuites>"
    )
    assert report.tally == Tally(total=1, errors=1)
    assert report.seconds == 2


def test_namespaces_do_no_harm() -> None:
    plain = read_bytes(b'<testsuite xmlns="urn:j"><testcase name="a"><failure/></testcase></testsuite>')
    prefixed = read_bytes(
        b'<j:testsuite xmlns:j="urn:j"><j:testcase name="a"><j:failure/></j:testcase></j:testsuite>'
    )
    assert plain.tally == prefixed.tally == Tally(total=1, failed=1)


def test_j22_lost_in_a_nested_suite_is_counted_once() -> None:
    inner = '<testsuite name="i" tests="4"><testcase name="a"/><testcase name="b"/></testsuite>'
    report = read_bytes(
        f'<testsuites tests="5"><testsuite tests="5"><testcase name="c"/>{inner}</testsuite></testsuites>'.encode()
    )
    assert report.lost == 2


def test_j22_repeats_do_not_hide_lost_tests() -> None:
    tries = '<testcase name="a"/>' * 3
    assert read_bytes(f'<testsuite tests="2">{tries}</testsuite>'.encode()).lost == 1


@pytest.mark.parametrize("attribute", ["failures", "errors", "failed"])
@pytest.mark.parametrize("text", ["1", " 1 ", "+1", "1e0", "1.0", "-1", "one", "0.5", "1" * 12])
def test_a_header_that_may_speak_of_a_failure_is_not_overlooked(attribute: str, text: str) -> None:
    """A count in any form counts; what is no count at all is not taken for none."""
    with pytest.raises(BadReport, match="the header says"):
        read_bytes(f'<testsuite {attribute}="{text}"><testcase name="a"/></testsuite>'.encode())
    failed = read_bytes(
        f'<testsuite {attribute}="{text}"><testcase name="a"><failure/></testcase></testsuite>'.encode()
    )
    assert failed.tally == Tally(total=1, failed=1)


@pytest.mark.parametrize("text", ["", " ", "0", " 0 ", "+0", "0.0", "0e5"])
def test_a_header_that_says_none_in_any_form_is_no_failure(text: str) -> None:
    report = read_bytes(f'<testsuite tests="1" failures="{text}"><testcase name="a"/></testsuite>'.encode())
    assert (report.tally, report.remarks) == (Tally(total=1, passed=1), ("time unknown for 1 of 1 tests",))


@pytest.mark.parametrize(
    "attribute",
    ['status="failed"', 'result="Error"', 'state="crashed"', 'success="false"', 'aborted="1"', 'timeouts="2"'],
)  # fmt: skip
def test_a_suite_that_says_in_any_attribute_that_it_failed_is_no_pass(attribute: str) -> None:
    with pytest.raises(BadReport, match=r"the header says .* but no such test stands in the file"):
        read_bytes(
            f'<testsuites {attribute}><testsuite><testcase name="n"/></testsuite></testsuites>'.encode()
        )
    shown = f'<testsuite {attribute}><testcase name="n"><failure/></testcase></testsuite>'
    assert read_bytes(shown.encode()).tally == Tally(total=1, failed=1)


@pytest.mark.parametrize("attribute", ['status="passed"', 'success="true"', 'aborted="0"', 'timeouts=""'])
def test_a_suite_that_says_that_it_is_well_passes(attribute: str) -> None:
    said = f'<testsuite {attribute}><testcase name="n"/></testsuite>'
    assert read_bytes(said.encode()).tally == Tally(total=1, passed=1)


def test_a_promise_that_is_no_number_is_no_promise_kept() -> None:
    with pytest.raises(BadReport, match=r'the header says tests="many", which is no count of tests'):
        read_bytes(b'<testsuite tests="many" failures="" errors=""><testcase name="a"/></testsuite>')
    assert read_bytes(b'<testsuite tests=" 2 "><testcase name="a"/></testsuite>').lost == 1


@pytest.mark.parametrize(
    ("header", "cases", "good"),
    [
        ('tests="1" skipped="1"', "<testcase/>", False),
        ('disabled="1"', "<testcase/>", False),
        ('tests="2" skipped="1" disabled="1"', "<testcase/><testcase/>", False),
        ('tests="1" disabled="1"', '<testcase status="notrun"/>', True),
        ('tests="2" skipped="1"', "<testcase/>", True),
        ('tests="1" skipped="1"', "<testcase/><testcase><skipped/></testcase>", True),
        ('tests="1" skipped="1"', '<testcase><skipped type="pytest.xfail"/></testcase>', True),
        ('tests="1" skipped="no"', "<testcase/>", True),
    ],
)
def test_a_header_that_says_that_nothing_ran_beside_a_test_that_did(
    header: str, cases: str, good: bool
) -> None:
    """GoogleTest counts disabled tests and lists them as not run; some headers count skipped tests beside the others."""
    xml = f"<testsuites><testsuite {header}>{cases}</testsuite></testsuites>".encode()
    if good:
        assert not read_bytes(xml).tally.failed
    else:
        with pytest.raises(BadReport, match="skipped or disabled, but the file shows"):
            read_bytes(xml)


def test_suites_without_header_beside_one_with(tmp_path: Path) -> None:
    same = '<testcase classname="c" name="n"/>'
    report = read_bytes(
        f'<testsuites><testsuite tests="1"><testcase name="a"/></testsuite><testsuite>{same}{same}</testsuite></testsuites>'.encode()
    )
    assert report.tally == Tally(total=2, passed=2)


SOURCE = """
import pytest
@pytest.fixture
def bad_end():
    yield
    raise RuntimeError("teardown broke")
@pytest.fixture
def bad_start():
    raise RuntimeError("setup broke")
def test_ok(): pass
def test_both(bad_end): assert 1 == 2, "call broke"
def test_end(bad_end): pass
def test_start(bad_start): pass
def test_skip(): pytest.skip("no device")
@pytest.mark.xfail(reason="known")
def test_known(): assert 0
def test_escape(): assert not "\\x1b[31mred\\x00"
"""


def test_real_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SOURCE)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=r.xml",
        "-c",
        "/dev/null",
    ]
    done = subprocess.run(
        [*argv, "test_it.py", "--rootdir=."], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 1
    report = read(tmp_path / "r.xml")
    assert report.tally == Tally(total=7, passed=1, failed=2, errors=2, skipped=1, xfailed=1)
    assert report.lost == 0
    (both,) = [case for case in report.cases if case.name == "test_both"]
    assert both.attempts == 1
    assert "call broke" in both.messages[0]
    assert "teardown broke" in both.messages[1]
    assert not any("\x1b" in message for case in report.cases for message in case.messages)


@pytest.mark.parametrize("names", [("success", "passed"), ("passed", "success"), ("ok", "outcome")])
def test_of_words_that_say_the_same_the_first_in_the_file_is_named(names: tuple[str, str]) -> None:
    attrs = {name: "failed" if name == "outcome" else "false" for name in names}
    assert words.result(0, attrs) == (words.FAILED, f'{names[0]}="false"')
