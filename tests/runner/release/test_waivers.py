"""Waivers: a waived cell still runs, an expired one is red, one that no longer fits is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from runner.errors import ExitCode
from runner.model import Culprit
from runner.pipeline.gate import read_waivers, waive
from runner.records import Notice, NoticeKind
from runner.release import Because, WaiverState
from runner.runtimes import FakeCell
from tests.runner.release.conftest import Make
from tests.runner.release.factory import FAIL, TODAY, Gated, days, evidence, junit, slug

BROKEN = {
    f"*{slug(2, 'experts_int8')}-*": FakeCell(
        exit_code=1, out={"junit.xml": junit(FAIL), "evidence.jsonl": evidence(2, "experts_int8")}
    )
}
LOW = """\
version: 1
blocking: platform=cpu
coverage: {platform: {cpu: 3}}
engine_version: 0.32.0
"""


def waiver(
    scope: str = "platform=cpu and tp=2 and quantization=experts_int8",
    outcome: str = "failed",
    cause: str = "KeyError",
    expires: date | None = None,
) -> str:
    return f"""\
version: 1
waivers:
  - scope: {scope}
    outcome: {outcome}
    cause: "{cause}"
    owner: kernels
    bug: https://example.org/1
    expires: {expires or days(10)}
"""


def kinds(gated: Gated, text: str, today: date = TODAY) -> list[Because]:
    return [reason.kind for reason in gated.gate(text, today=today, policy=LOW).decision.reasons]


def test_a_waived_cell_ran_and_counts_as_waived(make_run: Make) -> None:
    gated = make_run(BROKEN)
    assert kinds(gated, "") == [Because.NOT_PASSED]
    result = gated.gate(waiver(), policy=LOW)
    assert result.green
    assert (result.decision.ledger["passed"], result.decision.ledger["waived"]) == (3, 1)
    (waived,) = result.decision.waived
    assert (waived.cell.get("tp"), waived.outcome.value) == ("2", "failed")
    assert "KeyError: scale" in waived.cause
    assert [report.state for report in result.decision.reports] == [WaiverState.USED]


def test_a_waived_cell_does_not_count_for_coverage(make_run: Make) -> None:
    gated = make_run(BROKEN)
    result = gated.gate(waiver())
    assert [reason.kind for reason in result.decision.reasons] == [Because.COVERAGE]
    assert result.decision.reasons[0].details == (
        "platform=cpu: 3 of 4 passed [policy.yaml:4]",
        "quantization=experts_int8: 1 of 2 passed [policy.yaml:5]",
    )


def test_waivers_alone_qualify_nothing(make_run: Make) -> None:
    only = (
        "version: 1\nblocking: platform=cpu and tp=2 and quantization=experts_int8\nengine_version: 0.32.0\n"
    )
    (reason,) = make_run(BROKEN).gate(waiver(), policy=only).decision.reasons
    assert (reason.kind, reason.text) == (Because.NOTHING, "nothing passed: the only blocking cell is waived")


def test_a_waiver_holds_through_its_last_day_and_is_red_the_day_after(make_run: Make) -> None:
    gated = make_run(BROKEN)
    assert kinds(gated, waiver(expires=days(10)), days(10)) == []
    assert kinds(gated, waiver(expires=days(10)), days(11)) == [Because.NOT_PASSED, Because.WAIVER]
    text = gated.gate(waiver(), today=days(11)).text(200)
    assert f"expired on {days(10)}" in text
    assert "have kernels sign it anew (https://example.org/1)" in text


def test_an_expired_waiver_is_red_even_where_its_cell_passes(green: Gated) -> None:
    assert kinds(green, waiver(expires=days(-1))) == [Because.WAIVER]


def test_a_waiver_for_another_outcome_or_cause_does_not_waive(make_run: Make) -> None:
    gated = make_run(BROKEN)
    for text, said in (
        (waiver(outcome="crashed"), "expects crashed"),
        (waiver(cause="no operator"), "expects a cause with 'no operator'"),
    ):
        (reason,) = gated.gate(text, policy=LOW).decision.reasons
        assert reason.kind is Because.NOT_PASSED
        assert reason.cells[0].text.endswith(f"(waiver waivers.yaml:3 {said})")


def test_a_passing_waived_cell_is_reported_and_refused_only_where_the_policy_says_so(green: Gated) -> None:
    result = green.gate(waiver(), policy=LOW)
    assert result.green
    assert "a cell it waives passes: remove it" in result.text(200)
    strict = LOW + "waivers: {passing: refuse}\n"
    assert [reason.kind for reason in green.gate(waiver(), policy=strict).decision.reasons] == [
        Because.WAIVER
    ]


def test_a_waiver_that_matches_no_cell_is_refused_with_the_nearest_name(green: Gated) -> None:
    for scope, said in (
        ("quantisation=experts_int8", "did you mean quantization?"),
        ("quantization=expert_int8", "did you mean experts_int8?"),
        ("platform=cpu and platform=rocm", "its scope is no cell of the product"),
        ("dtype<2", "cannot be decided"),
        ("platform=rocm and quantization=experts_int8", "the matrix file excludes every cell of its scope"),
    ):
        result = green.gate(waiver(scope=scope), policy=LOW)
        assert [reason.kind for reason in result.decision.reasons] == [Because.WAIVER]
        assert said in result.decision.reasons[0].text
        assert result.text(200).count("waivers.yaml:3") == 1
    relaxed = LOW + "waivers: {unmatched: report}\n"
    assert green.gate(waiver(scope="tp=1 and tp=2"), policy=relaxed).green


def test_a_waiver_for_cells_that_did_not_run_is_idle_and_waives_nothing(green: Gated) -> None:
    result = green.gate(waiver(scope="platform=rocm"), policy="version: 1\nengine_version: 0.32.0\n")
    assert [report.state for report in result.decision.reports] == [WaiverState.IDLE]
    assert [reason.kind for reason in result.decision.reasons] == [Because.NOT_RUN]
    assert result.decision.ledger["not_runnable"] == 2


def test_a_missing_cell_cannot_be_waived(make_run: Make) -> None:
    gated = make_run(BROKEN)
    (gated.folder / "run.json").unlink()
    (gated.cell(2, "experts_int8") / "cell.json").unlink()
    assert kinds(gated, waiver()) == [Because.UNFINISHED, Because.MISSING]


def test_a_waiver_that_holds_for_years_is_refused(green: Gated) -> None:
    assert kinds(green, waiver(expires=days(180))) == []
    (reason,) = green.gate(waiver(expires=days(181)), policy=LOW).decision.reasons
    assert "more than 180 days from now" in reason.text


def test_two_waivers_for_one_cell_the_first_has_it_and_both_are_used(make_run: Make) -> None:
    gated = make_run(BROKEN)
    second = waiver(scope="tp=2 and quantization=experts_int8").partition("waivers:\n")[2]
    result = gated.gate(waiver() + second, policy=LOW)
    assert result.green
    assert [each.waiver.source for each in result.decision.waived] == ["waivers.yaml:3"]
    assert [report.state for report in result.decision.reports] == [WaiverState.USED] * 2


def test_run_with_waivers_exits_0_where_all_red_cells_are_waived(make_run: Make) -> None:
    gated = make_run(BROKEN)
    run = gated.gate().run
    assert run is not None
    file = gated.policy.with_name("w.yaml")
    file.write_text(waiver())
    waivers = read_waivers(file)
    assert waive(run, (), TODAY).exit_code is ExitCode.RED
    assert waive(run, (), TODAY).text(100) == ""
    held = waive(run, waivers, TODAY)
    assert held.exit_code is ExitCode.OK
    assert held.text(200).startswith(
        "waived: platform=cpu,dtype=bfloat16,tp=2,quantization=experts_int8: failed"
    )
    assert waive(run, waivers, days(11)).exit_code is ExitCode.RED
    assert waive(run, waivers, TODAY, interrupted=15).exit_code is ExitCode.SIGTERM
    one = replace(run, plan=replace(run.plan, entries=tuple(e for e in run.plan.planned() if e.cell in {
        each.cell for each in held.waiving.waived})))  # fmt: skip
    assert waive(one, waivers, TODAY).exit_code is ExitCode.OK
    red = Notice(
        kind=NoticeKind.AGREEMENT, text="tp 2 disagrees with tp 1", red=True, culprit=Culprit.PRODUCT
    )
    for each in (run, one):
        assert waive(replace(each, notices=(red,)), waivers, TODAY).exit_code is ExitCode.RED, (
            "no waiver is for a notice"
        )
        assert waive(replace(each, finished=False), waivers, TODAY).exit_code is ExitCode.RED
