"""Counts and exit code of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import ExitCode
from runner.machine import CpuFacts, Inventory
from runner.model import (
    Cell,
    CellSettings,
    Culprit,
    Fault,
    Limits,
    Outcome,
    Plan,
    PlanEntry,
    Status,
    Suite,
    Verdict,
)
from runner.records import CellRecord, Run
from runner.verdict import exit_code, tally

SETTINGS = CellSettings(image="images/cpu", suite=Suite(), limits=Limits(), devices=0)
GREEN = Verdict(outcome=Outcome.PASSED)


def red(outcome: Outcome, culprit: Culprit, fault: Fault | None = None) -> Verdict:
    return Verdict(outcome=outcome, culprit=culprit, fault=fault)


PULL = red(Outcome.INFRA, Culprit.HOST, Fault.PULL)
NETWORK = red(Outcome.INFRA, Culprit.HOST, Fault.NETWORK)
DISK = red(Outcome.INFRA, Culprit.HOST, Fault.DISK)
FAILED = red(Outcome.FAILED, Culprit.PRODUCT)


def a_run(*verdicts: Verdict | None, left_out: int = 0) -> Run:
    cells = [Cell.of({"platform": "cpu", "tp": str(number)}) for number in range(len(verdicts) + left_out)]
    entries = tuple(
        PlanEntry(
            cell=cell,
            status=Status.PLANNED if number < len(verdicts) else Status.EXCLUDED,
            settings=SETTINGS,
        )
        for number, cell in enumerate(cells)
    )
    return Run(
        run_id="r",
        plan=Plan(matrix="matrix.yaml", matrix_hash="h", axes={}, entries=entries),
        runtime="fake",
        runtime_detail="",
        inventory=Inventory(hostname="h", boot_id="b", cpu=CpuFacts()),
        records=tuple(
            CellRecord(cell=cell, verdict=verdict)
            for cell, verdict in zip(cells, verdicts, strict=False)
            if verdict is not None
        ),
        finished=True,
    )


ROWS = [
    ("all passed", (GREEN, GREEN), 0, ExitCode.OK),
    ("a red cell whose culprit is not the host", (GREEN, FAILED), 0, ExitCode.RED),
    ("flaky counts as red", (red(Outcome.FLAKY, Culprit.PRODUCT),), 0, ExitCode.RED),
    ("refused counts as red", (red(Outcome.REFUSED, Culprit.CONFIG),), 0, ExitCode.RED),
    ("an unknown culprit counts as 10", (red(Outcome.KILLED, Culprit.UNKNOWN),), 0, ExitCode.RED),
    ("a missing cell counts as 10", (GREEN, None), 0, ExitCode.RED),
    ("red before host faults", (PULL, DISK, FAILED), 0, ExitCode.RED),
    ("only host faults of pull or network", (GREEN, PULL, NETWORK), 0, ExitCode.HOST_NETWORK),
    ("only host faults of this host", (GREEN, DISK), 0, ExitCode.HOST),
    ("a host that cannot do it: another may", (red(Outcome.UNSUPPORTED, Culprit.HOST),), 0, ExitCode.HOST),
    ("host faults of both kinds: another host may help with one", (PULL, DISK), 0, ExitCode.HOST),
    ("nothing ran", (), 0, ExitCode.NOTHING_RAN),
    ("SIGINT before everything", (FAILED, None), 2, ExitCode.SIGINT),
    ("SIGTERM before everything", (), 15, ExitCode.SIGTERM),
    ("another signal is a SIGTERM", (GREEN,), 1, ExitCode.SIGTERM),
]


@pytest.mark.parametrize(
    ("verdicts", "signal", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_exit_code(verdicts: tuple[Verdict | None, ...], signal: int, code: ExitCode) -> None:
    assert exit_code(a_run(*verdicts), interrupted=signal) is code


def test_an_unfinished_run_is_red_whatever_is_known_so_far() -> None:
    assert exit_code(replace(a_run(GREEN), finished=False), interrupted=0) is ExitCode.RED


def test_cells_left_out_change_nothing() -> None:
    assert exit_code(a_run(GREEN, left_out=3), interrupted=0) is ExitCode.OK
    assert exit_code(a_run(left_out=3), interrupted=0) is ExitCode.NOTHING_RAN


def test_counts_by_outcome_and_missing() -> None:
    counts = tally(a_run(GREEN, GREEN, FAILED, None, left_out=2))
    assert {name: count for name, count in counts.items() if count} == {
        "passed": 2,
        "failed": 1,
        "missing": 1,
    }


@given(
    st.lists(st.none() | st.builds(Verdict, outcome=st.sampled_from(Outcome)), max_size=6), st.integers(0, 3)
)
def test_counts_add_up_to_the_planned_cells(verdicts: list[Verdict | None], left_out: int) -> None:
    run = a_run(*verdicts, left_out=left_out)
    assert sum(tally(run).values()) == len(run.plan.planned())
    assert list(tally(run)) == [*(outcome.value for outcome in Outcome), "missing"]
    if exit_code(run, interrupted=0) is ExitCode.OK:
        assert all(verdict is not None and verdict.green for verdict in verdicts)
