"""Triage, baseline, agreement and history as the page, the terminal and the summary say them."""

from __future__ import annotations

import re
from dataclasses import replace

from runner.expr import parse
from runner.model import Cell, Culprit, Outcome, Reason, Status
from runner.records import CellRecord, Prepared, Run, Seen
from runner.report import history_text, html, markdown, terminal
from runner.report.agreement import agreement
from runner.report.card import Context, context
from runner.report.groups import shelves
from runner.report.triaged import told
from runner.report.view import view
from runner.triage import Comparison, compare, judge
from tests.runner.report import factory as make
from tests.runner.report.test_report_page import Page

AXES = {**make.AXES, "platform": ("cuda", "rocm", "cpu")}


def grid_run(bad: bool = True) -> Run:
    """72 cells; quark_int8 is wrong from tp 2 on, each with a rank of its own; three cells of rocm fall back."""
    plan = make.plan(AXES, make.everything)
    records = []
    for n, entry in enumerate(plan.entries):
        where = entry.cell
        if bad and where.get("quantization") == "quark_int8" and where.get("tp") != "1":
            cause = f"rank {n}: expert weights are float32, expected int8"
            records.append(make.record(where, Outcome.FAILED, culprit=Culprit.PRODUCT, cause=cause))
        else:
            records.append(make.record(where))
    return make.run(
        plan, records, prepared=Prepared(suites={"tests/moe": "sha256:aa"}), run_id="now" if bad else "before"
    )


def against() -> Comparison:
    return compare(grid_run(), grid_run(bad=False))


SAID = (
    "fails iff tp&gt;=2 and quantization=quark_int8 (18 of 18 fail inside, 0 of 54 outside; confidence 99%)"
)


def section(text: str, name: str) -> str:
    return text[text.index(f'<section id="{name}"') :].split("</section>", 1)[0]


def test_the_page_says_what_is_broken_where_since_when_whose_fault_what_to_do() -> None:
    run = grid_run()
    since = {record.cell.id: "run-7" for record in run.records if not record.verdict.green}
    text = html(run, lambda _: None, comparison=against(), since=since)
    top = section(text, "triage")
    assert text.index('id="triage"') < text.index('id="grid"') < text.index('id="red"')
    assert top.count("<li>") == 1
    assert "<b>18</b>" in top
    assert SAID in top
    assert "<dt>Since<dd>since run run-7; 18 new against before</div>" in top
    assert "<dt>Whose<dd>product</div>" in top
    assert "<dt>Do<dd>report it to the engine" in top
    assert Page(text).open == []


def test_five_planted_faults_are_five_lines_with_their_rule_and_culprit() -> None:
    plan = make.plan(AXES, make.everything)
    planted = {
        "tp>=2 and quantization=quark_int8": (
            Outcome.FAILED,
            Culprit.PRODUCT,
            "rank {}: weights are float32",
        ),
        "platform=rocm and quantization=experts_int8": (
            Outcome.FELL_BACK,
            Culprit.PRODUCT,
            "method of rank {}",
        ),
        "platform=cpu and dtype=float16": (
            Outcome.REFUSED,
            Culprit.CONFIG,
            "line {}: chunked prefill is off",
        ),
        "platform=cuda and tp=8": (Outcome.OUT_OF_MEMORY, Culprit.HOST, "tried to allocate {} GiB at 0x{:x}"),
        "platform=cuda and dtype=float16 and tp=1": (Outcome.HUNG, Culprit.UNKNOWN, "no progress since {} s"),
    }
    records, expected = [], dict.fromkeys(planted, 0)
    for n, entry in enumerate(plan.entries):
        rule = next((rule for rule in planted if parse(rule).matches(dict(entry.cell.axes))), None)
        if rule is None:
            records.append(make.record(entry.cell))
            continue
        outcome, culprit, cause = planted[rule]
        records.append(make.record(entry.cell, outcome, culprit=culprit, cause=cause.format(n, n)))
        expected[rule] += 1
    lines = told(view(make.run(plan, records)))
    found = {(line.size, line.look.label, line.culprit, *rules(line.rule)) for line in lines}
    assert found == {
        (expected[rule], outcome.replace("_", " "), culprit, rule)
        for rule, (outcome, culprit, _) in planted.items()
    }


def rules(text: str) -> list[str]:
    return re.findall(r"(?:fails iff|likely fails where) (.*?) \(", text)


def test_terminal_and_summary_say_the_same_in_less_room() -> None:
    plain = SAID.replace("&gt;", ">")
    text = terminal(grid_run(), color=False, width=140, comparison=against())
    assert (
        f"     18  ✗ failed, product: rank 5..71: expert weights are float32, expected int8\n         {plain}\n"
        in text
    )
    assert "\nagainst before: 18 new, 54 same\n" in text
    short = markdown(grid_run(), comparison=against())
    assert (
        f"- ✗ **18 cells failed** (product): `rank 5..71: expert weights are float32, expected int8`  \n  `{plain}`"
        in short
    )
    assert "\nagainst before: 18 new, 54 same\n" in short
    assert short.index("### Triage") < short.index("### Not passed")


def test_the_baseline_stands_in_the_grid_the_table_and_the_data() -> None:
    text = html(grid_run(), lambda _: None, comparison=against())
    assert section(text, "grid").count("<b>new</b>") == 18
    assert section(text, "baseline").count('<span class="bad">new</span>') == 18
    data = Page(text).data()
    changed = [
        cell for cell in data["cells"] if "b" in cell and data["pools"]["changes"][cell["b"]][0] == "new"
    ]
    assert len(changed) == 18
    assert data["pools"]["changes"][changed[0]["b"]][:2] == ["new", "passed"]
    without = html(grid_run(), lambda _: None)
    assert 'id="baseline"' not in without
    assert "<b>new</b>" not in without


def test_a_cell_gone_from_the_matrix_is_listed() -> None:
    now = grid_run()
    kept = tuple(e for e in now.plan.entries if e.cell.get("tp") != "8")
    gone = replace(
        now,
        plan=replace(now.plan, entries=kept),
        records=tuple(r for r in now.records if r.cell.get("tp") != "8"),
    )
    found = compare(gone, grid_run(bad=False))
    assert "18 missing" in found.text
    assert "<td>not in the matrix" in section(html(gone, lambda _: None, comparison=found), "baseline")


def test_the_cell_data_keeps_index_zero_of_its_pools() -> None:
    data = Page(html(make.run(), lambda _: None)).data()
    planned = [cell for cell in data["cells"] if cell["w"] == "passed"]
    assert {cell["e"] for cell in planned} == {0}
    assert "F" not in planned[0]


# ---- agreement


def with_distance(
    where: Cell, distance: float | None, same: bool | None, bound: float | None = 0.01
) -> CellRecord:
    record = make.record(where)
    found = make.evidence(where)
    evidence = replace(found, max_abs_logprob_diff=distance, tokens_equal=same, logprob_bound=bound)
    return replace(record, attempts=(replace(record.attempts[0], evidence=evidence),))


def test_agreement_is_a_share_of_the_bound_by_tp() -> None:
    records = [
        with_distance(make.short(1, "none"), 0.0001, True),
        with_distance(make.short(2, "none"), 0.031, False),
        with_distance(make.short(1, "quark_int8"), 0.004, True),
        with_distance(make.short(2, "quark_int8"), float("nan"), None),
        with_distance(make.short(1, "experts_int8"), 0.5, True, bound=None),
        with_distance(make.short(2, "experts_int8"), None, None),
    ]
    heat = agreement(view(make.run(records=records)).cells, make.AXES)
    assert heat is not None
    assert heat.axes == ("platform", "quantization")
    assert heat.columns == ("1", "2")
    shown = {
        key: [(s.distance, s.share, s.tokens, s.shade) if s else None for s in row] for key, row in heat.rows
    }
    assert shown == {
        ("cpu", "none"): [
            ("0.0001", "1% of 0.01", "same tokens", 0),
            ("0.031", "310% of 0.01", "other tokens", 5),
        ],
        ("cpu", "experts_int8"): [("0.5", "no bound", "same tokens", 0), None],
        ("cpu", "quark_int8"): [("0.004", "40% of 0.01", "same tokens", 3), ("not a number", "", "", 5)],
    }
    text = section(html(make.run(records=records), lambda _: None), "agreement")
    assert "<strong>other tokens</strong>" in text
    assert 'class="h5"' in text


def test_no_evidence_no_agreement() -> None:
    run = make.run()
    bare = tuple(
        replace(r, attempts=tuple(replace(a, evidence=None) for a in r.attempts)) for r in run.records
    )
    assert agreement(view(replace(run, records=bare)).cells, make.AXES) is None


# ---- log lines


def red_view(run: Run) -> Context:
    cell = next(c for c in view(run).red if c.word == "failed")
    log = (
        "".join(f"line {n}\n" for n in range(1, 5001))
        + "E rank 1: expert weights are float32, expected int8\nend\n"
    )
    return context(cell, lambda _: log)


def test_the_context_knows_the_lines_of_the_log() -> None:
    found = red_view(make.mixed())
    assert found.hit == 5001
    assert found.rows[0] == (4991, "line 4991")
    assert found.rows[-1] == (5002, "end")
    assert found.numbered.splitlines()[-2] == "  5001  E rank 1: expert weights are float32, expected int8"
    assert found.link("cells/a b/log.txt") == (
        "cells/a%20b/log.txt#:~:text=E%20rank%201%3A%20expert%20weights%20are%20float32%2C%20expected%20int8"
    )


def test_the_recorded_line_of_the_cause_outranks_its_words() -> None:
    run = make.mixed()
    last = run.records[-1]
    told = replace(last, attempts=(replace(last.attempts[0], cause_line=7),))
    found = red_view(replace(run, records=(*run.records[:-1], told)))
    assert (found.hit, found.rows[6]) == (7, (7, "line 7"))
    beyond = replace(last, attempts=(replace(last.attempts[0], cause_line=9_999_999),))
    assert red_view(replace(run, records=(*run.records[:-1], beyond))).hit == 0


def test_lines_of_the_page_can_be_linked_to() -> None:
    log = (
        "".join(f"line {n}\n" for n in range(1, 30)) + "E rank 1: expert weights are float32, expected int8\n"
    )
    text = html(make.mixed(), lambda _: log)
    slug = make.short(2, "quark_int8").slug
    assert f'<a class="ln" id="L30-{slug}" href="#L30-{slug}">30</a><mark>E rank 1' in text
    assert re.search(rf'<a href="cells/{slug}/attempt-1/log.txt#:~:text=E[^"]*">line 30 of log.txt</a>', text)


# ---- left out, history


def test_shelves_name_each_reason_once_and_add_up() -> None:
    found = shelves(view(make.run()).cells, make.AXES)
    assert [(s.names, s.word, s.size, len(s.reasons)) for s in found] == [
        (("cuda",), "not_runnable", 24, 1),
        (("rocm",), "not_runnable", 24, 2),
        (("cpu",), "excluded", 18, 2),
    ]
    assert found[1].reasons == (
        ("no AMD device: /dev/kfd is missing", 24, ""),
        ("experts_int8 is not qualified on rocm (matrix.yaml:29)", 8, "quantization=experts_int8"),
    )


def test_platforms_with_the_same_reason_share_a_shelf() -> None:
    plan = make.plan(decide=lambda _: (Status.NOT_SELECTED, (Reason(text="-k tp=16"),)))
    (one,) = shelves(view(make.run(plan, [])).cells, plan.axes)
    assert (one.names, one.size, one.reasons) == (("cuda", "rocm", "cpu"), 72, (("-k tp=16", 72, ""),))


def test_history_text_lists_results_and_says_what_they_mean() -> None:
    seen = [
        Seen(
            run_id=f"r{n}",
            result=letter,
            outcome="passed" if letter == "P" else "failed",
            host="h",
            seconds=41.0,
        )
        for n, letter in enumerate("PPPPPPFFFF")
    ]
    text = history_text("platform=cpu,tp=1", seen, judge(seen), earlier=3, unread=("x: damaged",))
    lines = text.splitlines()
    assert lines[:2] == ["platform=cpu,tp=1", "PPPPPPFFFF"]
    assert sum(line.startswith("r") and "failed" in line for line in lines) == 4
    assert "regression since r6: all 4 results from then on fail, all 6 before did not" in lines
    assert "3 earlier results of other tests or another model not counted" in lines
    assert lines[-1] == "not read: x: damaged"
    assert max(map(len, lines)) <= 100
