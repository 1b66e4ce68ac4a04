"""The summary: bounded in bytes (E02), never empty (E06), and no text of a test becomes markup (E07)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from runner.model import Culprit, Outcome
from runner.records import Run
from runner.report import markdown
from runner.report.markdown import SMALLEST
from runner.report.markup import block, code, inline
from tests.runner.report import factory as make

LIMIT = 1_048_576
BODY = "\u00e9\u4e2d\U0001f525 value <0.1> & more | ```\n" * 40
E07 = (
    ("one", "a | b\n```\nopen fence\n\n</pre></details>\n\n# Heading out of nowhere"),
    ("two", "<b>bold</b> @someone #1 [x](javascript:1)\n~~~~\n\x1b[31mred\x1b[0m\n\n    indented"),
    ("three", "must be visible\nplain"),
)


def one_cell_failing(cases: list[tuple[str, str]], total: int | None = None) -> Run:
    failing = [make.failing_case(name, text) for name, text in cases]
    bad = make.record(
        make.short(1, "none"),
        Outcome.FAILED,
        culprit=Culprit.PRODUCT,
        cause="t failed",
        failing=failing,
        failed=total,
    )
    return make.run(records=[bad, *make.run().records[1:]])


class Tags(HTMLParser):
    """Elements of a text and whether they nest and close; text by the innermost element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        where = self.open[-1] if self.open else ""
        self.texts[where] = self.texts.get(where, "") + data


def html_blocks(text: str) -> str:
    """The lines that a CommonMark reader takes as HTML: what starts with an element we write, to its end."""
    return "\n".join(re.findall(r"^(?:<details>.*?</details>)$", text, re.MULTILINE | re.DOTALL))


def test_the_whole_summary_of_a_mixed_run() -> None:
    text = markdown(make.mixed())
    assert text.startswith("## ✗ 3 of 6 planned cells did not pass: 1 failed, 1 fell back, 1 refused.\n")
    assert "product 72 = 6 planned + 18 excluded + 48 not runnable + 0 not selected" in text
    assert (
        "| cpu | bfloat16 | 2 | ✓ passed 1 min 01 s | ⊘ **refused** (2) | ✗ **failed** (3) 1 min 15 s |"
        in text
    )
    assert (
        "- ✗ **failed** `platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8` (product): "
        "`rank 1: expert weights are float32, expected int8`\n"
    ) in text
    assert "- 12 excluded: `float16 is not qualified on CPU (matrix.yaml:41)`" in text
    order = [
        text.index(part)
        for part in ("### Not passed", "### Failing tests", "### Left out", "### Cells in detail")
    ]
    assert order == sorted(order)


def test_e06_a_green_run_has_a_short_note() -> None:
    text = markdown(make.run())
    assert text.startswith("## ✓ All 6 planned cells passed.\n")
    assert "<details>" not in text
    empty = markdown(make.run(make.plan({}, make.everything), []))
    assert empty.strip()


def test_e02_3000_failing_tests_fit_into_a_mebibyte() -> None:
    text = markdown(one_cell_failing([(f"test_case[{n}-\u4e2d|x]", f"m {n}\n{BODY}") for n in range(3000)]))
    size = len(text.encode())
    assert LIMIT * 0.9 < size <= LIMIT
    found = re.search(r"_showing (\d[\d,]*) of 3,000 failing tests_", text)
    assert found
    tags = Tags(html_blocks(text))
    assert tags.open == []
    assert tags.seen.count("pre") == int(found[1]) + 1  # the cell's own details come first
    names = text[text.index("### Failing tests") : text.index("### Left out")]
    assert re.findall(r"^- `t::test_case\[(\d+)-\u4e2d\|x\]` ", names, re.MULTILINE) == [
        str(n) for n in range(3000)
    ]
    assert text.index("### Failing tests") < text.index("### Messages of failing tests")
    assert "`index.html` and `junit.xml`" in text.splitlines()[-1]


def test_e02_3000_failing_cells_are_named_before_their_details() -> None:
    plan = make.plan({**make.AXES, "model": tuple(f"model-{n}" for n in range(42))}, make.everything)
    records = [make.record(e.cell, Outcome.FAILED, culprit=Culprit.PRODUCT, cause=BODY) for e in plan.entries]
    text = markdown(make.run(plan, records))
    assert len(plan.entries) == 3024
    assert len(text.encode()) <= LIMIT
    names = text[: text.index("### Cells in detail")]
    assert set(re.findall(r"^- ✗ \*\*failed\*\* `(.*?)` ", names, re.MULTILINE)) == {
        e.cell.id for e in plan.entries
    }
    assert re.search(r"_showing [\d,]+ of 3,024 cells_", text)
    assert Tags(html_blocks(text)).open == []


@pytest.mark.parametrize("limit", [SMALLEST, 3_000, 5_001, 20_000, 65_536])
def test_e02_any_limit_is_kept_with_closed_tags_and_whole_letters(limit: int) -> None:
    run = one_cell_failing([(f"test_\U0001f525{n}", BODY) for n in range(100)])
    text = markdown(run, max_bytes=limit)
    assert len(text.encode()) <= limit
    assert text.startswith("## ✗ 1 of 6 planned cells did not pass: 1 failed.\n")
    assert "index.html" in text.splitlines()[-1]
    assert Tags(html_blocks(text)).open == []
    assert "\ufffd" not in text


def test_too_small_a_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"needs at least 2,048 bytes, got 2,047"):
        markdown(make.run(), max_bytes=2047)


def test_e02_tests_that_were_not_kept_are_counted() -> None:
    text = markdown(one_cell_failing([("a", "x"), ("b", "y")], total=3000))
    assert text.count("_showing 2 of 3,000 failing tests_") == 2


def test_e07_no_text_of_a_test_becomes_markup() -> None:
    text = markdown(one_cell_failing(list(E07)))
    tags = Tags(html_blocks(text))
    assert tags.open == []
    assert set(tags.seen) == {"details", "summary", "code", "pre"}
    assert tags.seen.count("pre") == 4
    for name in ("one", "two", "three"):
        assert f"t::{name}" in tags.texts["code"]
    shown = tags.texts["pre"]
    assert "</pre></details>" in shown
    assert "<b>bold</b> @someone #1 [x](javascript:1)\n~~~~\nred" in shown
    assert "must be visible\nplain" in shown
    assert "\x1b" not in text
    assert not any(re.match(r"(```|~~~|# Heading)", line) for line in text.splitlines())


def test_e07_no_blank_line_inside_a_block() -> None:
    for _, message in E07:
        inner = block(message).strip("\n")
        assert inner.startswith("<pre>")
        assert inner.endswith("</pre>")
        assert all(line.strip() for line in inner.split("\n"))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("plain", "`plain`"),
        ("a ` b", "``a ` b``"),
        ("``` fence", "```` ``` fence ````"),
        ("two\nlines \x1b[31mred", "`two lines red`"),
        ("", ""),
    ],
)
def test_code_spans_cannot_be_left(text: str, span: str) -> None:
    assert code(text) == span


def test_bars_in_a_table_are_escaped() -> None:
    assert code("a|b", in_table=True) == "`a\\|b`"
    assert (
        inline("a|b *c* <i> see http://x @y #1")
        == "a&#124;b &#42;c&#42; &#60;i&#62; see http&#58;//x &#64;y &#35;1"
    )


def test_axis_values_with_markup_stay_in_their_table_cell() -> None:
    axes = {**make.AXES, "quantization": ("none", "a|b</td><script>")}
    text = markdown(make.run(make.plan(axes)))
    head = next(line for line in text.splitlines() if line.startswith("| platform"))
    assert head == "| platform | dtype | tp | none | `a\\|b</td><script>` |"
