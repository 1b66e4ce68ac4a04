"""The verb ``gate``, and waivers after a run: from a folder and two files to a decision. Nothing here prints."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from runner import codec, release, runs, verdict
from runner.errors import BadRunFolder, ExitCode, UsageError
from runner.model import Culprit, Outcome, Verdict
from runner.pipeline.noticing import notices
from runner.records import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """A decision and what it was made of. ``run`` is None where the folder could not be read as a run."""

    decision: release.Decision
    policy: release.Policy
    run: Run | None

    @property
    def green(self) -> bool:
        """Whether the run qualifies."""
        return self.decision.green

    @property
    def exit_code(self) -> ExitCode:
        """0 or 11."""
        return ExitCode.OK if self.green else ExitCode.GATE

    def text(self, width: int) -> str:
        """The decision for a terminal."""
        return release.text(self.decision, width)

    def page(self) -> str:
        """The decision as one page of Markdown."""
        return release.page(self.decision, self.run)

    def as_json(self) -> dict[str, Any]:
        """The decision as JSON values."""
        whole: dict[str, Any] = json.loads(codec.dumps(self.decision))
        return {"green": self.green, "exit_code": int(self.exit_code), **whole}

    def statement(self) -> dict[str, Any] | None:
        """An unsigned in-toto statement; None where there is no run to speak of."""
        if self.run is None:
            return None
        return release.statement(self.run, self.decision, policy_digest=self.policy.digest)


def gate(path: Path, policy: Path, waivers: Path | None, today: date) -> GateResult:
    """Decide whether a run folder qualifies a release.

    Raises:
        PolicyError: mistakes in the policy or the waivers.
        BadRunFolder: no run folder at all. A damaged one is a decision, and red.

    """
    rules = release.load_policy(policy)
    expected = read_waivers(waivers)
    try:
        run = runs.load(path)
    except BadRunFolder as error:
        if not (path / "run.json").exists() and not (path / "plan.json").exists():
            raise
        return GateResult(decision=_damaged(path, rules, today, error), policy=rules, run=None)
    problems = release.check_folder(path, run)
    # What stands in the folder is not taken for it, but for red words about another run, which is not here.
    found = notices(run)
    run = replace(run, notices=(*found, *(each for each in run.notices if each.red and each not in found)))
    decision = release.decide(run, rules, expected, today, folder_problems=problems)
    return GateResult(decision=decision, policy=rules, run=run)


def _damaged(path: Path, policy: release.Policy, today: date, error: BadRunFolder) -> release.Decision:
    problem = str(error).removeprefix(f"{path}/")
    reason = release.Refusal(
        kind=release.Because.FOLDER,
        text="the folder cannot be read as the run that was recorded",
        details=(problem,),
        fix="take the folder as the runner left it, or run again",
    )
    return release.Decision(policy=policy.source, run_id=path.name, decided_on=today, reasons=(reason,))


def read_waivers(path: Path | None) -> tuple[release.Waiver, ...]:
    """The waivers of a file; none without one. Raises :class:`runner.errors.PolicyError` with all mistakes."""
    return () if path is None else release.load_waivers(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaivedRun:
    """A run with waivers held against it: the code to exit with."""

    waiving: release.Waiving
    exit_code: ExitCode

    def text(self, width: int) -> str:
        """Lines to show after the grid; empty where there is nothing to say."""
        return release.waiver_text(self.waiving, width)


def waive(run: Run, waivers: tuple[release.Waiver, ...], today: date, *, interrupted: int = 0) -> WaivedRun:
    """The exit code of a run in which waived cells do not count as red. They stay what they are in every report."""
    waiving = release.apply(run, waivers, today)
    waived = {each.cell for each in waiving.waived}
    passed = Verdict(outcome=Outcome.PASSED, culprit=Culprit.NONE)
    records = tuple(replace(each, verdict=passed) if each.cell in waived else each for each in run.records)
    code = verdict.exit_code(replace(run, records=records), interrupted=interrupted)
    return WaivedRun(waiving=waiving, exit_code=code)


def write_page(path: Path, result: GateResult) -> None:
    """Write the decision as one page. Raises :class:`runner.errors.UsageError` where the file cannot be written."""
    _write(path, result.page().encode("utf-8", "replace"))


def write_statement(path: Path, result: GateResult) -> None:
    """Write the statement as JSON, and beside it the ledger that it names by digest (``NAME.ledger.jsonl``).

    Where there is none, older ones are removed: they would speak of another decision.

    Raises :class:`runner.errors.UsageError` where the file cannot be written.
    """
    made = result.statement()
    book = path.with_name(f"{path.stem}.ledger.jsonl")
    if made is None or result.run is None:
        path.unlink(missing_ok=True)
        book.unlink(missing_ok=True)
    else:
        _write(book, release.ledger(result.run, result.decision))
        _write(path, (json.dumps(made, indent=2, ensure_ascii=False) + "\n").encode())


def _write(path: Path, data: bytes) -> None:
    try:
        runs.write_atomic(path, data)
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise UsageError(msg) from error
