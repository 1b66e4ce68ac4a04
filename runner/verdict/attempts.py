"""One verdict over the attempts of a cell: a retry never hides what an earlier attempt said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runner.model import Outcome, Verdict
from runner.records import CAUSE_CHARS
from runner.verdict.case import one_line
from runner.verdict.rate import rate

NOT_TESTED = frozenset({Outcome.INFRA, Outcome.CANCELLED})
"""Attempts that say nothing of the cell: the host failed, or somebody stopped it."""
UNREADABLE = frozenset(
    {Outcome.NO_REPORT, Outcome.BAD_REPORT, Outcome.NO_TESTS, Outcome.SKIPPED, Outcome.UNPROVEN}
)
"""Attempts from which nothing can be learned. A later pass does not explain them, so they stay."""


def combine(attempts: Sequence[Verdict]) -> Verdict:
    """The verdict of a cell. Raises ValueError without an attempt: such a cell is missing, not judged.

    - Attempts that tested nothing (infra, cancelled) step back behind those that did; a pass after them is a pass.
    - A failure and a pass of one cell, in either order, are flaky, by the culprit of the first failure.
    - An attempt that could not be read stays, and so does the first failure where nothing passed.
    """
    if not attempts:
        msg = "a cell without an attempt has no verdict"
        raise ValueError(msg)
    tested = [(number, one) for number, one in enumerate(attempts, 1) if one.outcome not in NOT_TESTED]
    passes = [(number, one) for number, one in tested if one.green]
    failures = [(number, one) for number, one in tested if not one.green]
    unreadable = [(number, one) for number, one in failures if one.outcome in UNREADABLE]
    if not tested:
        return _with_history(len(attempts), attempts[-1], attempts)
    if not failures:
        number, last = passes[-1]
        return _with_history(number, last, attempts)
    number, first = unreadable[0] if unreadable and passes else failures[0]
    if not passes or first.outcome in UNREADABLE:
        return _with_history(number, first, attempts)
    said, passed = f"attempt {number}: {first.outcome.value}: ", f"; attempt {passes[-1][0]} passed"
    cause = said + one_line(first.cause, CAUSE_CHARS - len(said + passed)) + passed
    flaky = Verdict(outcome=Outcome.FLAKY, culprit=first.culprit, cause=cause, remarks=first.remarks)
    return _with_history(number, flaky, attempts)


def _with_history(shown: int, verdict: Verdict, attempts: Sequence[Verdict]) -> Verdict:
    """The verdict with the rate of passes, where it was tested more than once, and a remark for every other attempt."""
    others = tuple(
        f"attempt {number} of {len(attempts)}: {one.outcome.value}" + (f": {one.cause}" if one.cause else "")
        for number, one in enumerate(attempts, 1)
        if number != shown
    )
    tested = [one for one in attempts if one.outcome not in NOT_TESTED]
    known = (rate(sum(one.green for one in tested), len(tested)),) if len(tested) > 1 else ()
    return replace(verdict, remarks=known + verdict.remarks + others)
