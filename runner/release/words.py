"""Words that page and terminal share."""

from __future__ import annotations

from runner.release.values import Because, Decision, WaiverReport, WaiverState
from runner.strictyaml.mistakes import visible

MAX_CELLS = 12
"""Cells named under one reason; the rest is counted."""

HEADINGS = {
    Because.FOLDER: "The run folder was changed",
    Because.UNFINISHED: "The run did not finish",
    Because.SCOPE: "The policy does not fit the run",
    Because.MATRIX: "Another matrix",
    Because.NOTHING: "Nothing to qualify",
    Because.ENGINE: "Another engine",
    Because.IMAGE: "Another or unresolved image",
    Because.MODEL: "An unresolved model",
    Because.SUITE: "Other tests",
    Because.RUNTIME: "Another runtime",
    Because.AGE: "Too old",
    Because.MISSING: "Missing cells",
    Because.NOT_RUN: "Cells that did not run",
    Because.NOT_PASSED: "Cells that did not pass",
    Because.UNPROVEN: "Cells without proof",
    Because.NOTICE: "What the run says beyond its cells",
    Because.COVERAGE: "Too little coverage",
    Because.WAIVER: "A waiver that does not hold",
}

_LEDGER = ("passed", "waived", "not_passed", "unproven", "missing", "not_runnable", "not_selected")


def plain(text: str, limit: int = 400) -> str:
    """Text of others in one line, nothing hidden in it."""
    return visible(" ".join(text.split()), limit)


def headline(decision: Decision) -> str:
    """The answer in one sentence."""
    if decision.green:
        return f"GREEN: the run qualifies by {decision.policy}"
    count = len(decision.reasons)
    return f"RED: the run does not qualify by {decision.policy}: {count} reason{'' if count == 1 else 's'}"


def accounts(decision: Decision) -> str:
    """The sum over the blocking cells; the parts add up to the whole."""
    ledger = decision.ledger
    parts = [f"{ledger[name]} {name.replace('_', ' ')}" for name in _LEDGER if ledger.get(name)]
    excluded = (
        f" ({ledger['excluded']} more are excluded by rules of the matrix file)"
        if ledger.get("excluded")
        else ""
    )
    count = ledger.get("blocking", 0)
    return f"{count} blocking cell{'' if count == 1 else 's'} = {' + '.join(parts) or '0'}{excluded}"


def about(report: WaiverReport) -> str:
    """One waiver, in one line."""
    waiver = report.waiver
    who = f"owner {waiver.owner}, {waiver.bug}"
    return plain(
        f"{waiver.source} {waiver.scope!r}: {report.state.value.replace('_', ' ')}: {report.text} ({who})"
    )


def news(decision: Decision) -> tuple[WaiverReport, ...]:
    """Waivers that somebody should look at and that are not among the reasons."""
    told = [reason.text for reason in decision.reasons if reason.kind is Because.WAIVER]
    return tuple(
        each
        for each in decision.reports
        if each.state is not WaiverState.USED
        and not any(text.startswith(f"{each.waiver.source}: ") and text.endswith(each.text) for text in told)
    )
