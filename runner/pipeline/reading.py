"""Verbs that read what is on disk: render a run folder, judge files from anywhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner import junit, release, report, runs, triage, verdict
from runner.errors import BadReport, ExitCode, RunnerError, UsageError
from runner.facts import JUnitReport
from runner.pipeline.history import against, since
from runner.pipeline.noticing import notices
from runner.records import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What earlier runs add to a report: a comparison with a baseline, and by red cell the first bad run."""

    comparison: triage.Comparison | None = None
    since: Mapping[str, str] = field(default_factory=dict)


def write_reports(path: Path, run: Run, baseline: Path | None = None) -> Past:
    """Render everything a person or another tool reads, from the run value, the folder, and those beside it."""
    past = _past(path, run, baseline)
    folder = runs.Folder(path)
    folder.write_report("junit.xml", junit.write(run, _last_reports(path, run)))
    folder.write_report("summary.md", report.markdown(run, comparison=past.comparison, since=past.since))
    page = report.html(
        run, read_text=lambda name: _text(path / name), comparison=past.comparison, since=past.since
    )
    folder.write_report("index.html", page)
    return past


def _past(path: Path, run: Run, baseline: Path | None) -> Past:
    """An index that cannot be had costs the remarks it would add, never the report."""
    comparison = against(run, baseline, path.resolve().parent) if baseline else None
    try:
        return Past(comparison=comparison, since=since(run, path.resolve().parent))
    except (OSError, RunnerError, sqlite3.Error):
        return Past(comparison=comparison)


def _last_reports(path: Path, run: Run) -> dict[str, JUnitReport]:
    """The report of each cell's last attempt, where it can be read: it names the tests that passed."""
    found = {}
    for record in run.records:
        for attempt in record.attempts[-1:]:
            try:
                file = path / "cells" / record.cell.slug / f"attempt-{attempt.number}" / "junit.xml"
                found[record.cell.id] = junit.read(file)
            except (FileNotFoundError, BadReport):
                continue
    return found


def load_report(path: Path, baseline: Path | None = None) -> tuple[Run, Past]:
    """Read a run folder, render it anew, and give the run."""
    run = runs.load(path)
    if baseline is not None:
        run = replace(run, notices=notices(run, runs.load(baseline)))
    return run, write_reports(path, run, baseline)


def folder_notes(path: Path, run: Run) -> Iterator[str]:
    """How a run folder is not as it was recorded, a line for what is gone and one for the rest."""
    found = release.check_folder(path, run)
    gone = sum(release.is_missing(each) for each in found)
    changed = [each for each in found if not release.is_missing(each)]
    ending = "the verdicts stand as recorded, and the gate refuses such a folder"
    if gone:
        files = "1 file of attempts is" if gone == 1 else f"{gone} files of attempts are"
        yield f"{files} no longer in {path}: {ending}"
    if changed:
        count = f"{len(changed)} difference{'' if len(changed) == 1 else 's'}"
        yield f"{count} between {path} and what was recorded, such as {changed[0]}: {ending}"


def exit_code(run: Run) -> ExitCode:
    """The code of a finished or unfinished run that was read from disk."""
    return verdict.exit_code(run, interrupted=0)


def explain(
    report_file: Path | None, log: Path | None, exit_code: int | None, evidence: Path | None
) -> dict[str, Any]:
    """Judge files from anywhere by the tables that judge cells.

    Raises:
        UsageError: a log or evidence file that is not there. A missing report is a fact, not a mistake.

    """
    found, problem, missing, partial = None, "", "", None
    if report_file is not None:
        try:
            found = junit.read(report_file)
        except FileNotFoundError:
            missing = f"there is no file {report_file}"
        except BadReport as error:
            problem, partial = str(error), error.partial
    said = verdict.explain(
        found,
        problem,
        _lines(log),
        exit_code,
        _lines(evidence),
        partial=partial,
        report_asked=report_file is not None,
    )
    return {**said, "cause": "; ".join(filter(None, (said["cause"], missing)))}


def _lines(path: Path | None) -> Iterator[str] | None:
    if path is None:
        return None
    if path.exists() and not path.is_file():  # a FIFO or a device would be read for ever
        msg = f"{path}: not a plain file"
        raise UsageError(msg)
    try:
        return iter(path.open(encoding="utf-8", errors="replace", newline="\n"))
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise UsageError(msg) from error


def _text(path: Path) -> str | None:
    """A log with its line ends as they are: a progress bar's carriage return begins no line that the verdict counted."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
