"""The page: self-contained, inert against hostile text, readable without script, small for 10,000 cells."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from runner.model import Culprit, Outcome, Proof
from runner.records import Run
from runner.report import html
from runner.report.page_data import script_json
from tests.runner.report import factory as make

VOID = {"meta", "link", "input", "br", "rect"}
IMPLIED = {"td", "th", "tr", "dt", "dd", "tbody", "html", "head", "body"}
HOSTILE = "</script><script>alert(1)</script></pre></details><!-- <img src=x onerror=alert(2)> \u2028 ${x} \x1b[31mred\x1b[0m"


class Page(HTMLParser):
    """Elements with their attributes, whether they close, and text by element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID | IMPLIED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID | IMPLIED:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.seen if name == tag]

    def text(self) -> str:
        return "".join(data for tag, data in self.texts if tag not in {"script", "style"})

    def data(self) -> dict[str, Any]:
        found = next(data for tag, data in self.texts if tag == "script" and data.startswith("{"))
        return dict(json.loads(found))


def nothing(_: str) -> None:
    return None


def hostile_run(text: str = HOSTILE) -> Run:
    bad = make.record(
        make.short(1, "none"),
        Outcome.FAILED,
        culprit=Culprit.PRODUCT,
        cause=text,
        failing=[make.failing_case(text, text)],
    )
    axes = {**make.AXES, "quantization": ("none", "experts_int8", "quark_int8", text)}
    return make.run(make.plan(axes), [bad], run_id="r", command=text, runtime_detail=text)


def test_page_closes_its_elements_and_loads_nothing() -> None:
    page = Page(html(make.mixed(), nothing))
    assert page.open == []
    assert {attrs.get("type", "") for attrs in page.all("script")} == {"application/json", ""}
    assert not any("src" in attrs for _, attrs in page.seen)
    assert [attrs["href"] for attrs in page.all("link")] == ["data:,"]
    policy = next(attrs["content"] for attrs in page.all("meta") if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    links = [attrs["href"] for attrs in page.all("a")]
    assert all(
        link.startswith(("#", "cells/")) or re.fullmatch(r"[a-z]+\.(xml|md|json)", link) for link in links
    )
    assert not any("style" in attrs or any(name.startswith("on") for name in attrs) for _, attrs in page.seen)


def test_ids_are_unique_and_every_local_link_has_its_target() -> None:
    page = Page(html(make.mixed(), nothing))
    ids = [attrs["id"] for _, attrs in page.seen if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for attrs in page.all("a") if attrs["href"].startswith("#")} <= set(ids)
    assert {f"cell-{entry.cell.slug}" for entry in make.plan().entries} <= set(ids)


def test_every_cell_has_its_word_and_reason_without_script() -> None:
    text = html(make.mixed(), nothing)
    bare = text[text.index("<noscript>") : text.index("</noscript>")]
    rows = re.findall(r"<tr><td>(.*?)<td>(.*?)<td>(.*)", bare)
    assert len(rows) == 72
    assert ("platform=cpu,dtype=bfloat16,tp=1,quantization=none", "✓ passed", "") in rows
    assert all(reason for _, word, reason in rows if word != "✓ passed")


def test_red_cells_show_cause_culprit_log_and_rerun() -> None:
    log = (
        "start\n" * 50
        + "E AssertionError: rank 1: expert weights are float32, expected int8\n"
        + "after\n" * 50
    )
    asked: list[str] = []

    def read(path: str) -> str:
        asked.append(path)
        return log

    text = html(make.mixed(), read)
    slug = make.short(2, "quark_int8").slug
    card = text[text.index(f'id="red-{slug}"') :].split("</article>", 1)[0]
    assert '<p class="cause">rank 1: expert weights are float32, expected int8</p>' in card
    assert "<dt>Culprit<dd>product" in card
    assert f'<a href="cells/{slug}/attempt-1/log.txt">log.txt</a>' in card
    assert f'<a href="cells/{slug}/attempt-1/junit.xml">junit.xml</a>' in card
    assert (
        "<code>python -m runner matrix.yaml --cell platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8 --runtime docker</code>"
        in card
    )
    assert "First error in its context" in card
    assert "<mark>E AssertionError: rank 1: expert weights are float32, expected int8</mark>" in card
    assert card.count("start\n") == 10
    fell_back = text[text.index(f'id="red-{make.short(1, "experts_int8").slug}"') :].split("</article>", 1)[0]
    assert "End of the log" in fell_back
    assert all(path.endswith("/attempt-1/log.txt") for path in asked)
    assert len(asked) == 2  # the refused cell ran nothing


def test_proof_of_a_green_cell_is_in_the_data() -> None:
    data = Page(html(make.run(), nothing)).data()
    cell = next(c for c in data["cells"] if c["s"] == make.short(2, "quark_int8").slug)
    assert cell["w"] == "passed"
    assert cell["a"] == ["cpu", "bfloat16", "2", "quark_int8"]
    proof = cell["t"][0]["p"]
    assert proof[:12] == [
        "vllm",
        "0.32.0",
        "cpu",
        "cpu",
        "bfloat16",
        2,
        "quark_int8",
        True,
        "0.0013",
        "0.01",
        0,
        "shared memory vllm_a of 4 bytes",
    ]
    assert data["pools"]["ranks"][proof[12]] == [
        [0, 2, "QuarkW8A8Int8MoEMethod", "int8", "zentorch", "", "cpu", None],
        [1, 2, "QuarkW8A8Int8MoEMethod", "int8", "zentorch", "", "cpu", None],
    ]
    assert data["pools"]["phases"][proof[13]] == ["import", "load", "ready", "generate", "shutdown"]
    assert proof[14] == [6.2, 3.1, 14.9, 9.4, 1.2]
    assert [data["pools"]["files"][n] for n in cell["t"][0]["f"]] == list(make.FILES)
    left = next(c for c in data["cells"] if c["w"] == "not_runnable")
    assert [data["pools"]["reasons"][n] for n in left["r"]] == ["no NVIDIA device: /dev/nvidiactl is missing"]


@pytest.mark.parametrize(
    "run",
    [
        make.run(finished=False),
        make.run(records=make.run().records[:5]),
        make.run(interrupted="SIGTERM"),
        make.mixed(),
    ],
    ids=["unfinished", "missing", "interrupted", "red"],
)
def test_a_run_that_is_not_whole_and_green_has_a_red_headline(run: Run) -> None:
    text = html(run, nothing)
    assert '<h1 class="bad">' in text
    assert "All 6 planned cells passed" not in text


def test_a_green_run_has_a_green_headline_and_no_red_section() -> None:
    text = html(make.run(), nothing)
    assert '<h1 class="good">All 6 planned cells passed.</h1>' in text
    assert 'id="red"' not in text


def test_cells_without_engine_proof_are_marked() -> None:
    text = html(make.run(make.plan(proof=Proof.TESTS)), nothing)
    assert "✓ passed*<i>41s</i>" in text
    assert "no engine proof: judged by tests and exit code alone" in text


def test_e07_hostile_text_is_inert_and_visible() -> None:
    benign = Page(html(hostile_run("plain"), nothing))
    text = html(hostile_run(), lambda _: HOSTILE + "\nlast line")
    page = Page(text)
    assert page.open == []
    assert {tag for tag, _ in page.seen} - {tag for tag, _ in benign.seen} <= {
        "pre",
        "details",
        "summary",
        "mark",
    }
    assert len(page.all("script")) == 2
    assert page.all("img") == []
    assert "\x1b" not in text
    assert "\u2028" not in text
    assert "<img src=x onerror=alert(2)>" in page.text()
    assert "last line" in page.text()
    failing = next(cell for cell in page.data()["cells"] if cell["w"] == "failed")
    assert failing["u"].startswith("</script><script>alert(1)</script>")


def test_script_json_cannot_leave_its_element() -> None:
    value = {"a": "</script><!--<script>&\u2028\u2029é"}
    text = script_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_a_log_of_one_endless_line_and_a_missing_log() -> None:
    run = make.mixed()
    assert len(html(run, lambda _: "x" * 3_000_000)) < 200_000
    assert "End of the log" not in html(run, nothing)


def test_10000_cells_stay_under_10_megabytes() -> None:
    run = make.ten_thousand()
    assert len(run.records) == 10_000
    text = html(run, lambda _: "line of a log\n" * 2_000)
    assert len(text.encode()) < 10_000_000
    assert "showing 100 of 1,000" in text
    assert text.count("<article") == 100
    assert text.count(' id="cell-') == 10_000
