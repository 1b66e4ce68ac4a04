"""What is opened, what is refused before parsing, and the bounds while reading."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.errors import BadReport
from runner.facts import Tally, TestResult
from runner.junit import CAPS, Caps, read, read_bytes, read_many

ONE = b'<testsuite name="s" tests="1"><testcase classname="c" name="n"/></testsuite>'


def suite(*cases: str) -> bytes:
    return f"<testsuite>{''.join(cases)}</testsuite>".encode()


def bad(name: str, text: str = "x") -> str:
    return f'<testcase classname="c" name="{name}"><failure message="{text}"/></testcase>'


def test_missing_stays_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "junit.xml")
    with pytest.raises(FileNotFoundError):
        read_many([tmp_path / "junit.xml"])


def test_directory_fifo_and_socket_are_bad_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.xml")
    (tmp_path / "dir.xml").mkdir()
    with pytest.raises(BadReport, match=r"^fifo\.xml: is a FIFO, not a file$"):
        read(tmp_path / "fifo.xml")
    with pytest.raises(BadReport, match=r"^dir\.xml: is a directory, not a file$"):
        read(tmp_path / "dir.xml")
    with pytest.raises(BadReport, match=r"^zero: is a device, not a file$"):
        read(Path("/dev/zero"))


def test_link_loop_and_file_as_folder(tmp_path: Path) -> None:
    (tmp_path / "loop.xml").symlink_to("loop.xml")
    with pytest.raises(BadReport, match=r"^loop\.xml: cannot be opened: "):
        read(tmp_path / "loop.xml")
    (tmp_path / "file").write_bytes(ONE)
    with pytest.raises(BadReport, match=r"^junit\.xml: cannot be opened: Not a directory$"):
        read(tmp_path / "file" / "junit.xml")


def test_file_that_opens_but_cannot_be_read() -> None:
    with pytest.raises(BadReport, match=r"^mem: cannot be read: "):
        read(Path("/proc/self/mem"))  # a regular file whose first byte is an input/output error


def test_j24_report_over_the_limit_is_refused_before_parsing(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    with path.open("wb") as file:
        file.truncate(CAPS.file_bytes + 1)  # sparse: takes no space
    with pytest.raises(BadReport, match="268,435,457 bytes, more than the 268,435,456 that are read"):
        read(path)


def test_size_also_bounds_what_grows_while_it_is_read() -> None:
    with pytest.raises(BadReport, match="more than the 20 bytes"):
        read_bytes(ONE, caps=Caps(file_bytes=20))


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_empty_file_is_truncated(data: bytes) -> None:
    with pytest.raises(BadReport, match="truncated report") as caught:
        read_bytes(data)
    assert caught.value.truncated


def test_zeros_after_the_end_and_two_reports_in_one_file_are_bad() -> None:
    for data in (ONE + bytes(50), ONE + ONE, ONE + b"warning: slow"):
        with pytest.raises(BadReport) as caught:
            read_bytes(data)
        assert not caught.value.truncated


def test_foreign_root_is_bad() -> None:
    with pytest.raises(BadReport, match=r"^junit\.xml:1:1: the root element <html> is not JUnit; "):
        read_bytes(b"<html/>")


def test_depth_is_bounded() -> None:
    fine = b"<testsuite>" * 50 + b"</testsuite>" * 50
    assert read_bytes(fine).tally == Tally()
    with pytest.raises(BadReport, match="nested deeper than 100"):
        read_bytes(b"<testsuite>" * 100_000)


def test_one_huge_attribute_is_bounded() -> None:
    with pytest.raises(BadReport, match="a tag of more than 4,194,304 bytes"):
        read_bytes(suite(bad("n", "x" * 6_000_000)))


def test_number_of_tests_is_bounded() -> None:
    with pytest.raises(BadReport, match="more than 3 tests; read until there: 3 passed"):
        read_bytes(suite("<testcase/>" * 4), caps=Caps(cases=3))


def test_number_of_different_names_is_bounded() -> None:
    tags = "".join(f"<a{n}/>" for n in range(12_000))
    with pytest.raises(BadReport, match="more than 10,000 different names of elements and attributes"):
        read_bytes(suite(f'<testcase name="n"><failure>{tags}</failure></testcase>'))


def test_repeats_and_suites_are_bounded_in_what_they_say() -> None:
    report = read_bytes(suite(bad("n") * 50))
    (case,) = report.cases
    assert (case.attempts, len(case.messages)) == (50, 21)
    inner = "".join(f'<testsuite failures="{n}">{bad("n")}</testsuite>' for n in range(2, 40))
    report = read_bytes(f"<testsuites>{inner}</testsuites>".encode())
    assert report.tally == Tally(total=38, failed=38)
    assert len(report.remarks) == 6


def test_kept_cases_are_bounded_and_counts_are_not() -> None:
    caps = Caps(kept_all=3, kept_bad=2)
    cases = [f'<testcase classname="c" name="p{n}" time="1"/>' for n in range(10)] + [
        bad(f"b{n}") for n in range(5)
    ]
    report = read_bytes(suite(*cases), caps=caps)
    assert report.tally == Tally(total=15, passed=10, failed=5)
    assert [case.name for case in report.cases] == ["p0", "p1", "p2", "b0", "b1"]
    assert "5 of 15 tests are listed: the first ones and those that did not pass" in report.remarks
    assert "only 2 of 5 tests that did not pass are listed" in report.remarks


def test_j06_repeats_are_folded_beyond_what_is_kept() -> None:
    many = [f'<testcase classname="c" name="p{n}"/>' for n in range(3_000)]
    cases = [
        *many,
        '<testcase classname="c" name="p7"/>',
        bad("p9"),
        bad("f"),
        '<testcase classname="c" name="f"/>',
    ]
    report = read_bytes(suite(*cases), caps=Caps(kept_all=5))
    assert report.tally == Tally(total=3_001, passed=2_999, failed=1, flaky=1)
    assert {(case.name, case.result) for case in report.cases[5:]} == {
        ("p9", TestResult.FAILED),
        ("f", TestResult.FLAKY),
    }


def test_messages_are_bounded_in_number_and_text() -> None:
    children = "".join(f'<failure message="m{n}"/>' for n in range(30))
    (case,) = read_bytes(suite(f'<testcase name="n">{children}</testcase>')).cases
    assert len(case.messages) == 21
    assert case.messages[-1] == "[... 10 more messages ...]"
    caps = Caps(text_chars=1_000)
    report = read_bytes(suite(*(bad(f"n{n}", "x" * 3_000) for n in range(3))), caps=caps)
    sizes = [len(case.messages[0]) for case in report.cases]
    assert sizes[0] > 1_500
    assert sizes[1] < 300
    assert sizes[2] < 300


def test_captured_output_inside_a_result_is_no_message() -> None:
    inner = "<flakyFailure message='m'><stackTrace>trace</stackTrace><system-out>noise</system-out>end</flakyFailure>"
    (case,) = read_bytes(suite(f"<testcase name='n'>{inner}</testcase>")).cases
    assert case.messages == ("m\ntraceend",)


def test_long_names_are_cut_but_stay_apart() -> None:
    names = ["n" * 5_000 + end for end in "ab"]
    report = read_bytes(suite(*(f'<testcase classname="c" name="{name}"/>' for name in names)))
    assert report.tally == Tally(total=2, passed=2)
    assert report.cases[0].name == "n" * 2_000 + "... (5,001 characters)"


@pytest.mark.parametrize("name", ["utf-7", "hex", "zip", "idna", "no-such-thing", "cp037"])
def test_j18_codecs_that_are_no_report_encoding(name: str) -> None:
    with pytest.raises(BadReport, match=f"unknown encoding '{name}'"):
        read_bytes(f'<?xml version="1.0" encoding="{name}"?>'.encode() + ONE)


@pytest.mark.parametrize("name", ["shift_jis", "gb18030", "euc_kr", "windows-1252", "ISO-8859-15", "koi8-r"])
def test_j18_legacy_encodings(name: str) -> None:
    word = {"windows-1252": "\u20ac", "ISO-8859-15": "\u20ac", "koi8-r": "\u0436"}.get(name, "\u4e2d")
    text = f'<?xml version="1.0" encoding="{name}"?><testsuite>{bad("n", word)}</testsuite>'
    report = read_bytes(text.encode(name))
    assert report.cases[0].messages == (word,)
    assert report.remarks[0].startswith("time unknown")


def test_j18_utf16_without_a_mark_and_with_another_declaration() -> None:
    text = '<?xml version="1.0" encoding="utf-8"?>' + suite(bad("n", "\u00e9")).decode()
    for codec in ("utf-16-le", "utf-16-be", "utf-16"):
        assert read_bytes(text.encode(codec)).cases[0].messages == ("\u00e9",)


def test_j12_utf16_cut_in_a_character_is_truncated() -> None:
    with pytest.raises(BadReport) as caught:
        read_bytes(suite(bad("n")).decode().encode("utf-16")[:-31])
    assert caught.value.truncated


def test_j11_mending_works_over_the_edges_of_pieces() -> None:
    """A reference and a character in two pieces of the file are mended as in one."""
    pad = "y" * (1 << 18)
    for shift in range(12):
        text = suite(bad("n", "x")).decode().replace('"x"', f'"{pad[: -90 + shift]}&#x1;\u4e2d&amp;z"')
        report = read_bytes(text.encode())
        assert report.remarks[0].startswith("report repaired: 1 character ")
        assert report.cases[0].messages[0].endswith("\ufffd\u4e2d&z")


def test_j11_mending_does_not_touch_structure() -> None:
    for data in (
        b"<testsuite><test\x01case name='n'/></testsuite>",
        b"<testsuite><testcase na\xffme='n'/></testsuite>",
    ):
        with pytest.raises(BadReport, match="not XML"):
            read_bytes(data)
