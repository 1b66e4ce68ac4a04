"""The decision: every blocking cell accounted for, every reason against the run found. Pure; nothing is read here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from runner.errors import UsageError
from runner.expr import parse
from runner.model import Outcome, PlanEntry
from runner.records import Run
from runner.release import candidate
from runner.release.standing import Placed, Standing, place
from runner.release.values import (
    Because,
    Covered,
    Decision,
    Policy,
    Refusal,
    Seen,
    Severity,
    Waiver,
    WaiverReport,
    WaiverState,
)
from runner.release.waiving import Waiving, apply

NOT_RUN = {
    Standing.NOT_RUNNABLE: (
        "cannot run on the host of this run",
        "run it on a host that can, or narrow 'blocking'",
    ),
    Standing.NOT_SELECTED: (
        "left out by the selection of this run",
        "run without -k, --cell and --failed-in",
    ),
}
OUTCOMES = {
    Outcome.NO_TESTS: "ran no test",
    Outcome.SKIPPED: "skipped every test",
    Outcome.NO_REPORT: "left no report",
    Outcome.BAD_REPORT: "left a report that cannot be read",
    Outcome.UNPROVEN: "passed tests without proof",
    Outcome.FLAKY: "failed and passed",
    Outcome.FELL_BACK: "fell back to what was not asked for",
    Outcome.REFUSED: "refused",
    Outcome.INFRA: "never tested: the host failed",
    Outcome.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class _View:
    """What the checks look at."""

    run: Run
    policy: Policy
    today: date
    blocking: tuple[Placed, ...]
    passed: tuple[Placed, ...]
    waiving: Waiving
    scope_problem: str

    def standing(self, standing: Standing) -> tuple[Placed, ...]:
        return tuple(each for each in self.blocking if each.standing is standing)


def decide(
    run: Run,
    policy: Policy,
    waivers: Sequence[Waiver],
    today: date,
    *,
    folder_problems: tuple[str, ...] = (),
) -> Decision:
    """Whether a run qualifies a release by a policy, with every reason against it.

    ``folder_problems`` is what :func:`runner.release.check_folder` found on disk. Never raises: a policy that speaks
    of what the run does not have is a reason for red.
    """
    waiving = apply(run, waivers, today, policy.max_waiver_days)
    entries, scope_problem = _blocking(run, policy)
    waived = {each.cell for each in waiving.waived}
    records = {record.cell: record for record in run.records}
    everything = [
        place(entry, records.get(entry.cell), waived=entry.cell in waived, proof=policy.proof)
        for entry in run.plan.entries
    ]
    chosen = {entry.cell for entry in entries}
    blocking = tuple(each for each in everything if each.cell in chosen)
    passed = tuple(each for each in everything if each.standing is Standing.PASSED)
    view = _View(run, policy, today, blocking, passed, waiving, scope_problem)
    ledger = Counter(each.standing.value for each in blocking)
    reasons = [
        *_folder(folder_problems),
        *_finished(view),
        *_scope(view),
        *_matrix(view),
        *candidate.reasons(run, policy, today, passed),
        *_not_passed(view),
        *_notices(view),
        *_coverage(view),
        *_waivers(view),
    ]
    return Decision(
        policy=policy.source,
        run_id=run.run_id,
        decided_on=today,
        reasons=tuple(sorted(reasons, key=lambda each: list(Because).index(each.kind))),
        ledger={standing.value: ledger[standing.value] for standing in Standing}
        | {"blocking": len(blocking) - ledger[Standing.EXCLUDED.value]},
        passed=tuple(each.cell for each in passed),
        waived=waiving.waived,
        reports=waiving.reports,
        coverage=_covered(view),
        also_red=tuple(
            Seen(cell=each.cell, text=each.text)
            for each in everything
            if each.cell not in chosen
            and each.standing in (Standing.NOT_PASSED, Standing.UNPROVEN, Standing.MISSING)
        ),
        engines=candidate.versions(run, passed),
        suites=candidate.suites(run, passed),
    )


def _blocking(run: Run, policy: Policy) -> tuple[tuple[PlanEntry, ...], str]:
    """The cells that must pass. Every cell of the run where the policy's expression cannot be read for it."""
    if not policy.blocking:
        return run.plan.entries, ""
    try:
        expression = parse(policy.blocking, values=run.plan.axes)
        return tuple(e for e in run.plan.entries if expression.matches(dict(e.cell.axes))), ""
    except UsageError as error:
        return run.plan.entries, str(error)


def _folder(problems: tuple[str, ...]) -> list[Refusal]:
    if not problems:
        return []
    text = f"{len(problems)} difference{'' if len(problems) == 1 else 's'} from what was recorded"
    fix = "take the folder as the runner left it, or run again"
    return [Refusal(kind=Because.FOLDER, text=text, details=problems, fix=fix)]


def _finished(view: _View) -> list[Refusal]:
    if view.run.interrupted:
        text = f"the run was stopped by {view.run.interrupted}"
        return [Refusal(kind=Because.UNFINISHED, text=text, fix="run it again")]
    if not view.run.finished:
        text = "the run is unfinished: it has no run.json"
        return [Refusal(kind=Because.UNFINISHED, text=text, fix="finish it with: run --resume RUN_DIR")]
    return []


def _scope(view: _View) -> list[Refusal]:
    if view.scope_problem:
        text = f"{view.policy.blocking_source}: blocking: {view.scope_problem}"
        fix = "the policy speaks of another matrix than this run's; until mended, every cell is blocking"
        return [Refusal(kind=Because.SCOPE, text=text, fix=fix)]
    counted = [each for each in view.blocking if each.standing is not Standing.EXCLUDED]
    if not counted:
        what = f"with {view.policy.blocking}" if view.policy.blocking else "at all"
        text = (
            f"there is nothing to qualify: the run has no cell {what} that the matrix file does not exclude"
        )
        return [
            Refusal(kind=Because.NOTHING, text=text, fix="see 'blocking' in the policy and the run's plan")
        ]
    if all(each.standing is Standing.WAIVED for each in counted):
        all_of_them = (
            "the only blocking cell is" if len(counted) == 1 else f"all {len(counted)} blocking cells are"
        )
        text = f"nothing passed: {all_of_them} waived"
        return [Refusal(kind=Because.NOTHING, text=text, fix="waivers alone qualify nothing")]
    return []


def _matrix(view: _View) -> list[Refusal]:
    wanted, found = view.policy.matrix_hash, view.run.plan.matrix_hash
    if not wanted or found == wanted:
        return []
    text = f"the matrix of the run has the hash {found or 'of nothing'}, the policy qualifies {wanted}"
    fix = "run the matrix file that was agreed on, or have the policy changed with it"
    return [Refusal(kind=Because.MATRIX, text=text, fix=fix)]


def _notices(view: _View) -> list[Refusal]:
    """Red notices about a blocking cell, or about the run as a whole."""
    blocking = {each.cell for each in view.blocking}
    return [
        Refusal(kind=Because.NOTICE, text=notice.text, cells=tuple(Seen(cell=cell) for cell in notice.cells))
        for notice in view.run.notices
        if notice.red and (not notice.cells or blocking & set(notice.cells))
    ]


def _not_passed(view: _View) -> list[Refusal]:
    found = []
    missing = view.standing(Standing.MISSING)
    if missing:
        text = f"{_cells(missing)} planned and never accounted for"
        found.append(_about(Because.MISSING, text, missing, "finish the run, or run it again"))
    for standing, (text, fix) in NOT_RUN.items():
        left = view.standing(standing)
        if left:
            found.append(_about(Because.NOT_RUN, f"{_cells(left)} {text}", left, fix))
    red = view.standing(Standing.NOT_PASSED)
    for outcome in Outcome:
        some = tuple(each for each in red if each.record and each.record.verdict.outcome is outcome)
        if some:
            text = f"{_cells(some)} {OUTCOMES.get(outcome, outcome.value.replace('_', ' '))}"
            noted = [
                Seen(cell=each.cell, text=_with_misfit(each, view.waiving.misfits.get(each.cell, "")))
                for each in some
            ]
            found.append(Refusal(kind=Because.NOT_PASSED, text=text, cells=tuple(noted)))
    unproven = view.standing(Standing.UNPROVEN)
    if unproven:
        text = f"{_cells(unproven)} recorded as passed without the proof that the policy asks for"
        found.append(_about(Because.UNPROVEN, text, unproven))
    return found


def _with_misfit(each: Placed, misfit: str) -> str:
    return f"{each.text} (waiver {misfit})" if misfit else each.text


def _cells(some: Sequence[Placed]) -> str:
    return f"{len(some)} blocking cell{'' if len(some) == 1 else 's'}:"


def _about(kind: Because, text: str, some: Sequence[Placed], fix: str = "") -> Refusal:
    return Refusal(
        kind=kind, text=text, cells=tuple(Seen(cell=each.cell, text=each.text) for each in some), fix=fix
    )


def _covered(view: _View) -> tuple[Covered, ...]:
    return tuple(
        Covered(
            axis=each.axis,
            value=each.value,
            passed=sum(placed.cell.get(each.axis) == each.value for placed in view.passed),
            wanted=each.passed,
        )
        for each in view.policy.coverage
    )


def _coverage(view: _View) -> list[Refusal]:
    details = []
    for minimum, covered in zip(view.policy.coverage, _covered(view), strict=True):
        if covered.passed < covered.wanted:
            known = minimum.value in view.run.plan.axes.get(minimum.axis, ())
            absent = "" if known else ", and the matrix of the run has no such cell"
            count = f"{covered.passed} of {covered.wanted} passed{absent}"
            details.append(f"{minimum.axis}={minimum.value}: {count} [{minimum.source}]")
    if not details:
        return []
    text = f"{len(details)} of {len(view.policy.coverage)} minimums are not met"
    fix = "waived, unproven and missing cells do not count"
    return [Refusal(kind=Because.COVERAGE, text=text, details=tuple(details), fix=fix)]


def _waivers(view: _View) -> list[Refusal]:
    refuse = {WaiverState.EXPIRED, WaiverState.TOO_LONG}
    if view.policy.unmatched_waiver is Severity.REFUSE:
        refuse.add(WaiverState.UNMATCHED)
    if view.policy.passing_waiver is Severity.REFUSE:
        refuse.add(WaiverState.PASSING)
    return [_waiver(report) for report in view.waiving.reports if report.state in refuse]


def _waiver(report: WaiverReport) -> Refusal:
    text = f"{report.waiver.source}: the waiver for {report.waiver.scope!r} {_said(report)}"
    fixes = {
        WaiverState.EXPIRED: f"remove it, or have {report.waiver.owner} sign it anew ({report.waiver.bug})",
        WaiverState.TOO_LONG: "choose an earlier day",
        WaiverState.UNMATCHED: "mend its scope, or remove it",
    }
    cells = tuple(Seen(cell=cell) for cell in report.cells)
    return Refusal(kind=Because.WAIVER, text=text, cells=cells, fix=fixes.get(report.state, ""))


def _said(report: WaiverReport) -> str:
    return f"matches nothing: {report.text}" if report.state is WaiverState.UNMATCHED else report.text
