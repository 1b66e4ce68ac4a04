"""What a run says beyond its cells stands in every form of the report, and a red one is never read as green."""

from __future__ import annotations

from dataclasses import replace

from runner.model import Culprit
from runner.records import Notice, NoticeKind
from runner.report import html, markdown, terminal
from runner.report.view import view
from runner.report.vocabulary import Tone
from tests.runner.report import factory

RED = Notice(
    kind=NoticeKind.AGREEMENT,
    text="tp=2 answers otherwise than tp=1 <b>by 3.1</b>",
    red=True,
    culprit=Culprit.PRODUCT,
)
NEWS = Notice(kind=NoticeKind.SUPPORT, text="my_int8 on cpu is newly working")


def test_a_red_notice_makes_a_run_of_passed_cells_red() -> None:
    shown = view(factory.run(notices=(NEWS, RED)))
    assert not shown.green
    assert shown.tone is Tone.BAD
    assert shown.headline == "All 6 planned cells passed, but 1 notice is red."
    assert [red for red, _, _ in shown.notices] == [True, False]


def test_news_alone_leaves_a_run_green() -> None:
    shown = view(factory.run(notices=(NEWS,)))
    assert shown.green
    assert shown.headline == "All 6 planned cells passed."


def test_a_red_run_says_both() -> None:
    said = view(factory.mixed()).headline
    both = view(replace(factory.mixed(), notices=(RED, RED))).headline
    assert both == said.removesuffix(".") + ", and 2 notices are red."


def test_the_terminal_has_them() -> None:
    text = terminal(factory.run(notices=(NEWS, RED)), color=False, width=120)
    lines = text.splitlines()
    at = lines.index("Beyond the cells")
    assert lines[at + 1] == "  ✗ tp=2 answers otherwise than tp=1 <b>by 3.1</b> (culprit product)"
    assert lines[at + 2] == "  - my_int8 on cpu is newly working"
    assert "! All 6 planned cells passed, but 1 notice is red." in lines
    assert "Beyond the cells" not in terminal(factory.run(), color=False, width=120)


def test_the_summary_has_them() -> None:
    text = markdown(factory.run(notices=(NEWS, RED)))
    assert (
        "### Beyond the cells\n\n- ✗ **red** (product): `tp=2 answers otherwise than tp=1 <b>by 3.1</b>`\n"
        in text
    )
    assert "- `my_int8 on cpu is newly working`\n" in text
    assert text.startswith("## ✗ All 6 planned cells passed, but 1 notice is red")


def test_the_page_has_them_and_no_markup_of_theirs() -> None:
    page = html(factory.run(notices=(NEWS, RED)), read_text=lambda _: None)
    part = page[page.index('<section id="notices"') : page.index('<section id="grid"')]
    assert "2 notices, 1 red" in part
    assert "tp=2 answers otherwise than tp=1 &lt;b&gt;by 3.1&lt;/b&gt;" in part
    assert "<b>by 3.1" not in page
    assert 'id="notices"' not in html(factory.run(), read_text=lambda _: None)
