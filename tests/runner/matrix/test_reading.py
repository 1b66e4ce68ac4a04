"""From bytes to a checked file: positions, all mistakes together, hostile input."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import runner.matrix
from runner.errors import MatrixError
from runner.matrix.shape import MatrixFile
from runner.model import Matrix
from runner.strictyaml.kinds import Record
from runner.strictyaml.mistakes import Mistakes, Unreadable, visible
from runner.strictyaml.nodes import Leaf, Node, Table, read_nodes

Load = Callable[..., Matrix]
Wrong = Callable[..., list[str]]
HEAD = "version: 1\nsuite: {proof: tests}\naxes: {platform: [cpu]}\n"


def test_all_mistakes_are_reported_together_in_the_order_of_the_file(wrong: Wrong) -> None:
    text = """\
suite: {proof: engin}
axes:
  platform: [cpu, xpu]
  tp: [1, two]
  dtype: [a, a]
platfroms: {}
limits: {start: 10, memory: 4x, total: 1h}
env: {OK: 1, "NOT OK": 2, CUDA_VISIBLE_DEVICES: 0}
engine_args: {a-b: 1, dtype: auto, flag: yes}
rules:
  - {exclude: {dtype: b}, reason: why}
  - {exclude: {platfrm: cpu}}
  - reason: nothing
"""
    assert wrong(text) == [
        "1:1: the key 'version' is missing (begin the file with: version: 1)",
        "1:16: suite.proof: 'engin' is not known (did you mean engine?)",
        "3:19: axis platform: 'xpu' is not known (did you mean cpu?)",
        "4:11: axis tp: 'two' does not fit (write a whole number from 1)",
        "5:14: axis dtype holds 'a' twice: here and in line 5 (remove one)",
        "6:1: the key 'platfroms' is not known (did you mean platforms?)",
        "7:17: limits.start: '10' is no time (write it with units: 90s, 10m, 1h30m)",
        "7:29: limits.memory: '4x' is no size (write it with a unit: 64k, 512m, 4g)",
        "8:14: env: the name 'NOT OK' does not fit (use letters, digits and _, a letter first)",
        "8:27: env: the name 'CUDA_VISIBLE_DEVICES' is set by the runner from the devices that a cell leases (remove it)",
        "9:15: engine_args: the name 'a-b' does not fit (write it as in Python, with _)",
        "9:23: engine_args: the name 'dtype' is what the axis dtype says (use the axis dtype)",
        "9:42: engine_args.flag: yes may mean a text or a truth (write true or false, or quote it)",
        "11:23: the axis dtype has no value 'b', so this matches nothing (known: a)",
        "12:5: rules[1]: the key 'reason' is missing (give the reason that is shown)",
        "12:16: exclude: 'platfrm' is no axis (did you mean platform?)",
        "13:5: a rule must have one of exclude and require (write one rule for each)",
    ]


def test_more_than_fifty_mistakes_are_counted(wrong: Wrong) -> None:
    found = wrong(HEAD + "".join(f"k{number}: 1\n" for number in range(80)))
    assert len(found) == 51
    assert found[-1] == "53:1: and 30 more mistakes (mend these first)"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "a: [1, 2",
            "1:9: this is no YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'",
        ),
        ("a: b: c", "1:5: this is no YAML: mapping values are not allowed here"),
        ('a: "b', "1:6: this is no YAML: while scanning a quoted scalar found unexpected end of stream"),
        ("a: {tp: >2}", '1:9: a plain value cannot begin with > (put the value in quotes: "...")'),
        ("a: @b", '1:4: a plain value cannot begin with @ (put the value in quotes: "...")'),
        ("a: *b", "1:4: *b has no anchor &b above it"),
        ("? [a, b]\n: c", "1:3: a key must be a plain word (in a flow list, put a comma or quotes)"),
        ("<<: 3", "1:5: << takes a mapping or a list of mappings (write <<: *NAME)"),
        ("<<: {}\n<<: {}", "2:1: << is given twice: here and in line 1 (keep one of them)"),
        ("a: !!str 3", "1:4: the tag !!str is not taken: a matrix holds plain values only (remove it)"),
        (
            "---\na: 1\n---\nb: 2",
            "3:1: the file holds a second YAML document (keep one; for another matrix write another file)",
        ),
        (
            "a: 1\n...\nb",
            "3:1: this is no YAML: expected '<document start>', but found '<scalar>'",
        ),
        ("just words", "1:1: the file is a single value, not a mapping (begin with: version: 1)"),
        (
            "%YAML 9.9\n---\na: 1",
            "1:1: this is no YAML: found incompatible YAML document (version 1.* is required)",
        ),
    ],
)
def test_what_is_no_matrix_at_all(wrong: Wrong, text: str, mistake: str) -> None:
    assert mistake in wrong(text)


def test_unquoted_comparisons_in_blocks_get_the_quoting_advice(wrong: Wrong) -> None:
    axes = "version: 1\nsuite: {proof: tests}\naxes: {platform: [cpu], tp: [1, 4]}\n"
    text = axes + "rules:\n  - exclude:\n      tp: >2\n    reason: x\n"
    assert wrong(text) == [
        '6:11: rules[0].exclude.tp: an unquoted > begins a block of text (write ">2" in quotes)'
    ]
    text = axes + "rules:\n  - exclude: {tp: !=1}\n    reason: x\n"
    assert wrong(text) == ['5:19: a plain value cannot begin with ! (put the value in quotes: "...")']
    text = axes + "rules:\n  - exclude:\n      tp: !=1\n    reason: x\n"
    assert any(each.endswith('(quote the value if it begins with !: "!=1")') for each in wrong(text))


@pytest.mark.parametrize("char", ["\u00a0", "\u200b", "\u202e", "\ufeff", "\u2028", "\u00ad", "\u0085"])
def test_invisible_characters_are_shown(wrong: Wrong, char: str) -> None:
    code = f"U+{ord(char):04X}"
    (mistake,) = wrong(
        f'version: 1\nsuite: {{proof: tests}}\naxes: {{platform: [cpu], a: ["x\\u{ord(char):04x}y"]}}\n'
    )
    assert mistake == f"3:29: axis a: 'x<{code}>y' holds the invisible character {code} (remove it)"
    (mistake,) = wrong(HEAD + f'"li\\u{ord(char):04x}mits": {{start: 1m}}\n')
    assert mistake == f"4:1: the key 'li<{code}>mits' is not known (did you mean limits?)"


def test_escapes_cannot_bring_control_characters_into_reports(wrong: Wrong) -> None:
    text = HEAD + 'rules: [{exclude: {platform: cpu}, reason: "\\e[31mred"}]\n'
    assert wrong(text)[0] == (
        "4:44: rules[0].reason: '<U+001B>[31mred' holds the invisible character U+001B (remove it)"
    )


def test_escapes_that_are_no_character_are_refused(wrong: Wrong) -> None:
    assert wrong(HEAD + 'env: {A: "\\ud800"}\n') == [
        "4:10: the escape U+D800 is half of a character (write the character itself)"
    ]
    (mistake,) = wrong(HEAD + 'env: {A: "\\UFFFFFFFF"}\n')
    assert mistake.startswith("4:")
    assert mistake.endswith(": this is no YAML: an escape names no character (write it out)")


def test_utf16_and_broken_bytes_are_named(wrong: Wrong) -> None:
    assert wrong(HEAD.encode("utf-16")) == [
        "1:1: byte 0xFF is not UTF-8, the file looks like UTF-16 (save the file as UTF-8)"
    ]
    assert wrong(HEAD.encode() + b"# \x80") == ["4:3: byte 0x80 is not UTF-8 (save the file as UTF-8)"]
    assert wrong(b"\xef\xbb\xbf# \xe9")[0].startswith("1:3: byte 0xE9 is not UTF-8")


def test_size_and_depth_are_capped(wrong: Wrong) -> None:
    assert wrong(b"#" * (256 * 1024 + 1)) == [
        "1:1: the file has more than 262144 bytes, which is the limit for a matrix"
    ]
    assert wrong("a: " + "[" * 200_000) == ["1:35: nested deeper than 32 levels"]
    assert wrong("{a: " * 60_000)[0] == "1:129: nested deeper than 32 levels"


@pytest.mark.parametrize(
    "text",
    [
        "x: &x {" + ", ".join(f"k{n}: 1" for n in range(3_000)) + "}\nl:\n" + "  - {<<: *x}\n" * 3_000,
        "x: &x [" + "1, " * 3_000 + "]\nl: [" + "*x, " * 40_000 + "]\n",
    ],
    ids=["merges", "aliases"],
)
def test_merges_and_aliases_are_bounded_before_they_are_written_out(wrong: Wrong, text: str) -> None:
    tracemalloc.start()
    try:
        found = wrong(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "more than 200000 values" in found[0]
    assert peak < 150 << 20


def test_a_file_is_read_up_to_the_limit_and_only_where_it_may_be(tmp_path: Path, wrong: Wrong) -> None:
    assert wrong(HEAD + "# " + "x" * 262144) == [
        "1:1: the file has more than 262144 bytes, which is the limit for a matrix"
    ]
    if os.geteuid() != 0:
        path = tmp_path / "matrix.yaml"
        path.write_text(HEAD)
        path.chmod(0)
        with pytest.raises(MatrixError, match="may not be read"):
            runner.matrix.load(path)


def nodes(text: str) -> Node:
    mistakes = Mistakes("m")
    found = read_nodes(text, mistakes)
    assert not mistakes.found
    return found


def test_merge_keys_follow_yaml() -> None:
    found = nodes("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {z: 3, <<: [*a, *b]}\n")
    assert isinstance(found, Table)
    merged = found.entries[2][1]
    assert isinstance(merged, Table)
    assert [(key.text, value.text) for key, value in merged.entries if isinstance(value, Leaf)] == [
        ("z", "3"),
        ("x", "1"),
        ("y", "1"),
    ]


def test_an_alias_as_a_key_twice_is_a_duplicate(wrong: Wrong) -> None:
    found = wrong("x-a: [&k cpu]\nx-b: {*k : 1, *k : 2}\n" + HEAD)
    assert found == ["1:7: x-b.cpu is given twice: here and in line 1 (keep one of them)"]


def test_numbers_below_an_engine_keep_their_types_and_quoted_ones_their_texts(
    load: Load, wrong: Wrong
) -> None:
    args = (
        'engine_args: {a: true, b: "true", c: 256, d: "256", e: 0.90, f: -1, g: auto, h: 1.10.0, i: "no"}\n'
    )
    assert dict(load(HEAD + args).cells[0].settings.engine_args) == {
        "a": True,
        "b": "true",
        "c": 256,
        "d": "256",
        "e": 0.9,
        "f": -1,
        "g": "auto",
        "h": "1.10.0",
        "i": "no",
    }
    for text in ("010", "1e3", "1_000", "0x10", ".inf", ".5", "-.nan", "+1", "1.", "9" * 19, "1" * 5000):
        (mistake,) = wrong(HEAD + f"engine_args: {{a: {text}}}\n")
        assert (
            mistake
            == f"4:18: engine_args.a: {visible(text)} may mean a text or a number (quote it, or write it plainly)"
        )
    for text in ("on", "off", "Yes", "NO", "True", "FALSE"):
        (mistake,) = wrong(HEAD + f"engine_args: {{a: {text}}}\n")
        assert mistake == (
            f"4:18: engine_args.a: {text} may mean a text or a truth (write true or false, or quote it)"
        )


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("'a,b'", "'a,b' holds ',', which separates the parts of a cell id (use another character)"),
        ("a=b", "'a=b' holds '=', which separates the parts of a cell id (use another character)"),
        ("' a'", "' a' begins or ends with a space (remove it)"),
        ("'>2'", "'>2' begins with '>', which means a comparison (use another word)"),
        ("''", "'' is empty (write a value)"),
        ('"a\\nb"', "'a<U+000A>b' holds the invisible character U+000A (remove it)"),
        ("x" * 121, "a value of 121 characters (use at most 120)"),
    ],
)
def test_axis_values_fit_into_a_cell_id(wrong: Wrong, value: str, fix: str) -> None:
    assert wrong(f"version: 1\nsuite: {{proof: tests}}\naxes: {{platform: [cpu], a: [{value}]}}\n") == [
        f"3:29: axis a: {fix}"
    ]


@pytest.mark.parametrize("name", ["a-b", "2a", "a b", "and", "not", "'a=b'", "'é'"])
def test_axis_names_fit_into_an_expression(wrong: Wrong, name: str) -> None:
    (mistake,) = wrong(f"version: 1\nsuite: {{proof: tests}}\naxes: {{platform: [cpu], {name}: [x]}}\n")
    assert mistake.startswith("3:25: axes: the name ")


@given(st.text(max_size=200))
def test_any_text_gives_mistakes_with_a_place_or_a_file(text: str) -> None:
    mistakes = Mistakes("m")
    read: Node | None = None
    try:
        read = read_nodes(text, mistakes)
        Record(MatrixFile).read(read, "", mistakes)
    except Unreadable:
        assert mistakes.found
    assert all(each.line >= 1 and each.column >= 1 and each.text for each in mistakes.found)
