"""What a run as a whole says: counts that add up to the plan, and the exit code."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from runner.errors import ExitCode
from runner.model import Culprit, Fault, Outcome, Verdict
from runner.records import Run

MISSING = "missing"
_ELSEWHERE = frozenset({Fault.PULL, Fault.NETWORK})
"""Faults that another host would share."""


def _verdicts(run: Run) -> list[Verdict | None]:
    """The verdict of every planned cell in plan order; None for a cell without a record."""
    known = {record.cell: record.verdict for record in run.records}
    return [known.get(entry.cell) for entry in run.plan.planned()]


def tally(run: Run) -> Mapping[str, int]:
    """Planned cells by outcome, and ``missing``; every outcome is there and the values add up to the plan's cells."""
    counts = {outcome.value: 0 for outcome in Outcome} | {MISSING: 0}
    for verdict in _verdicts(run):
        counts[MISSING if verdict is None else verdict.outcome.value] += 1
    return counts


def _of_cell(verdict: Verdict | None) -> ExitCode:
    """What one cell asks for. A missing cell and every culprit but the host is red."""
    if verdict is None:
        return ExitCode.RED
    if verdict.green:
        return ExitCode.OK
    if verdict.culprit is not Culprit.HOST:
        return ExitCode.RED
    return ExitCode.HOST_NETWORK if verdict.fault in _ELSEWHERE else ExitCode.HOST


PRECEDENCE = (ExitCode.RED, ExitCode.HOST, ExitCode.HOST_NETWORK)
"""Which red wins. A fault of this host beside one of the network is 75: another host may help with one of them."""


def exit_code(run: Run, *, interrupted: int) -> ExitCode:
    """The exit code of ``run``. ``interrupted`` is the number of the signal that stopped the runner, or 0.

    Precedence: 130 or 143, 10, 75 or 12, 13 (nothing was planned), 0. Usage (2) and gate (11) are not decided here.
    A run that did not finish is 10 at least: what it did not come to is not known. So is one with a red notice.
    """
    if interrupted:
        return ExitCode.SIGINT if interrupted == signal.SIGINT else ExitCode.SIGTERM
    asked = {_of_cell(verdict) for verdict in _verdicts(run)}
    if asked and (not run.finished or any(notice.red for notice in run.notices)):
        asked.add(ExitCode.RED)
    if not asked:
        return ExitCode.NOTHING_RAN
    return next((code for code in PRECEDENCE if code in asked), ExitCode.OK)
