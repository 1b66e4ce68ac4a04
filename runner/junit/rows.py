"""What the merged file says, before it is XML: a section for each cell of the product, with rows. Pure.

The rule that the rows keep: a section holds a failure or an error exactly when its cell is planned and not passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from runner.facts import JUnitReport, Tally, TestCase, TestResult
from runner.model import Outcome, PlanEntry, Status, Verdict
from runner.records import Attempt, CellRecord, Run

_FAILURES = frozenset({Outcome.FAILED, Outcome.FELL_BACK, Outcome.UNPROVEN, Outcome.FLAKY})
_BAD = frozenset({TestResult.FAILED, TestResult.ERROR})
_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One child of a testcase: ``tag`` is its element, ``text`` everything there is to say."""

    tag: str
    type: str
    message: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One testcase. The first mark decides; ``rerun`` and ``flaky`` marks after it are earlier attempts.

    ``place`` is the test's file or suite, which the form has no attribute for.
    """

    name: str
    classname: str
    time_s: float | None = None
    marks: tuple[Mark, ...] = ()
    place: str = ""

    @property
    def kind(self) -> str:
        """``failure``, ``error``, ``skipped`` or nothing."""
        return next((mark.tag for mark in self.marks if mark.tag in {"failure", "error", "skipped"}), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One suite: a cell. ``facts`` become properties."""

    name: str
    facts: Mapping[str, str]
    rows: tuple[Row, ...]
    seconds: float = 0.0
    timestamp: str = ""
    status: Status = Status.PLANNED


@dataclass(slots=True)
class _Told:
    """Tests of a cell gathered over its attempts."""

    rows: list[Row] = field(default_factory=list)
    explained: bool = False


def sections(run: Run, reports: Mapping[str, JUnitReport]) -> Iterator[Section]:
    """Every cell of the product in plan order. ``reports``: by cell id, the report of the last attempt."""
    records = {record.cell: record for record in run.records}
    for entry in run.plan.entries:
        record = records.get(entry.cell)
        if entry.status is not Status.PLANNED:
            yield _left_out(entry)
        elif record is None:
            yield _missing(run, entry)
        else:
            yield _ran(run, record, reports.get(entry.cell.id))


def _facts(entry_axes: tuple[tuple[str, str], ...], more: Mapping[str, str]) -> dict[str, str]:
    """Axes under their own names; what is said of the cell gives way where an axis has the same name."""
    facts = dict(entry_axes)
    for name, value in more.items():
        if value:
            facts[f"cell.{name}" if name in facts else name] = value
    return facts


def _left_out(entry: PlanEntry) -> Section:
    why = "; ".join(
        f"{reason.text} ({reason.source})" if reason.source else reason.text for reason in entry.reasons
    )
    mark = Mark(tag="skipped", type=entry.status.value, message=why or entry.status.value.replace("_", " "))
    return Section(
        name=entry.cell.id,
        facts=_facts(entry.cell.axes, {"status": entry.status.value, "reason": why}),
        rows=(Row(name=entry.status.value, classname=entry.cell.id, marks=(mark,)),),
        status=entry.status,
    )


def _missing(run: Run, entry: PlanEntry) -> Section:
    ended = f"interrupted by {run.interrupted}" if run.interrupted else "not finished"
    why = "planned, but the run has no record of it" + ("" if run.finished else f": the run was {ended}")
    mark = Mark(tag="error", type="missing", message=why)
    return Section(
        name=entry.cell.id,
        facts=_facts(entry.cell.axes, {"outcome": "missing", "cause": why, "runtime": run.runtime}),
        rows=(Row(name="missing", classname=entry.cell.id, marks=(mark,)),),
    )


def _ran(run: Run, record: CellRecord, report: JUnitReport | None) -> Section:
    verdict = record.verdict
    last = record.attempts[-1] if record.attempts else None
    told = _tests(record.attempts, report)
    lone = [attempt for attempt in record.attempts[:-1] if not attempt.failing]
    green = verdict.outcome is Outcome.PASSED
    explained = told.explained and verdict.outcome is Outcome.FAILED
    if lone or not told.rows or not (green or explained):
        told.rows.insert(0, _outcome_row(record, lone, bare=not told.rows))
    engine = last.evidence.engine_version if last and last.evidence else ""
    facts = {
        "outcome": verdict.outcome.value,
        "culprit": verdict.culprit.value,
        "cause": verdict.cause,
        "runtime": run.runtime,
        "attempts": str(len(record.attempts)),
        "engine_version": engine,
        "devices": ",".join(last.device_ids) if last else "",
        "tests": _sum_up(last.tally) if last and last.tally else "",
    }
    return Section(
        name=record.cell.id,
        facts=_facts(record.cell.axes, facts),
        rows=_distinct(told.rows),
        seconds=record.duration_s,
        timestamp=record.attempts[0].started_at if record.attempts else "",
    )


def _sum_up(tally: Tally) -> str:
    names = ("passed", "failed", "errors", "skipped", "xfailed", "flaky")
    return f"{tally.total}: " + ", ".join(
        f"{getattr(tally, name)} {name}" for name in names if getattr(tally, name)
    )


def _outcome_row(record: CellRecord, lone: list[Attempt], *, bare: bool) -> Row:
    """The cell's own row: its outcome where no test says it, and attempts that no test tells of."""
    verdict = record.verdict
    marks = []
    if verdict.outcome is not Outcome.PASSED:
        tag = "failure" if verdict.outcome in _FAILURES else "error"
        marks.append(_verdict_mark(tag, verdict))
    again = "flakyError" if verdict.outcome is Outcome.PASSED else "rerunError"
    marks += [_verdict_mark(again, attempt.verdict, f"attempt {attempt.number}: ") for attempt in lone]
    time_s = record.duration_s if bare else None
    return Row(name=verdict.outcome.value, classname=record.cell.id, time_s=time_s, marks=tuple(marks))


def _verdict_mark(tag: str, verdict: Verdict, before: str = "") -> Mark:
    message = f"{before}{verdict.outcome.value}" + (f": {verdict.cause}" if verdict.cause else "")
    text = "\n".join([message, f"culprit: {verdict.culprit.value}", *verdict.remarks])
    return Mark(tag=tag, type=verdict.outcome.value, message=message, text=text)


def _key(case: TestCase) -> _Key:
    return case.suite, case.file, case.classname, case.name


def _tests(attempts: tuple[Attempt, ...], report: JUnitReport | None) -> _Told:
    told = _Told()
    if not attempts:
        return told
    last = attempts[-1]
    cases = list(report.cases) if report else []
    known = {_key(case) for case in cases}
    cases += [case for case in last.failing if _key(case) not in known]
    earlier: dict[_Key, list[tuple[Attempt, TestCase]]] = {}
    for attempt in attempts[:-1]:
        for case in attempt.failing:
            earlier.setdefault(_key(case), []).append((attempt, case))
    listed = report is not None and len(report.cases) >= report.tally.total
    for case in cases:
        told.rows.append(_row(case, earlier.pop(_key(case), [])))
        told.explained |= case.result in _BAD
    for tries in earlier.values():
        ran_since = last.tally is not None and not listed
        told.rows.append(_gone(tries, passed=ran_since))
        told.explained |= not ran_since
    return told


def _place(case: TestCase) -> str:
    return case.file or case.suite


def _distinct(rows: list[Row]) -> tuple[Row, ...]:
    """Different tests of one classname and name stay apart: with their place, then with a number."""
    seen: dict[tuple[str, str], int] = {}
    names = Counter((row.classname, row.name) for row in rows)
    result = []
    for row in rows:
        name = row.name
        if names[row.classname, name] > 1:
            name = f"{name} ({row.place})" if row.place else name
            number = seen[row.classname, name] = seen.get((row.classname, name), 0) + 1
            name += f" #{number}" if number > 1 else ""
        result.append(row if name == row.name else replace(row, name=name))
    return tuple(result)


def _text(case: TestCase) -> tuple[str, str]:
    text = "\n\n".join(case.messages) or case.result.value
    return text.partition("\n")[0], text


def _row(case: TestCase, tries: list[tuple[Attempt, TestCase]]) -> Row:
    """A test of the last attempt, with what earlier attempts said of it."""
    marks: list[Mark] = []
    first, text = _text(case)
    if case.result in _BAD:
        tag = "failure" if case.result is TestResult.FAILED else "error"
        kind = "worker crash" if case.crashed else case.result.value
        if (
            case.attempts > 1 and len(case.messages) > 1
        ):  # repeats inside one report: each told its own failure
            marks.append(_mark(tag, kind, case.messages[-1]))
            marks += [_mark("rerunFailure", kind, message) for message in case.messages[:-1]]
        else:
            marks.append(Mark(tag=tag, type=kind, message=first, text=text))
    elif case.result is TestResult.FLAKY:
        marks += [_mark("flakyFailure", "flaky", message) for message in case.messages or (first,)]
    elif case.result in {TestResult.SKIPPED, TestResult.XFAILED}:
        kind = "pytest.xfail" if case.result is TestResult.XFAILED else "pytest.skip"
        marks.append(Mark(tag="skipped", type=kind, message=first, text=text))
    marks += _tries(tries, "rerun" if case.result in _BAD else "flaky")
    return Row(
        name=case.name, classname=case.classname, time_s=case.time_s, marks=tuple(marks), place=_place(case)
    )


def _mark(tag: str, kind: str, message: str) -> Mark:
    return Mark(tag=tag, type=kind, message=message.partition("\n")[0], text=message)


def _tries(tries: list[tuple[Attempt, TestCase]], how: str) -> Iterator[Mark]:
    for attempt, case in tries:
        first, text = _text(case)
        tag = how + ("Error" if case.result is TestResult.ERROR else "Failure")
        yield Mark(tag=tag, type=case.result.value, message=f"attempt {attempt.number}: {first}", text=text)


def _gone(tries: list[tuple[Attempt, TestCase]], *, passed: bool) -> Row:
    """A test that failed in an earlier attempt and is not among the last one's: it passed, or never ran again."""
    case = tries[-1][1]
    if passed:
        marks = tuple(_tries(tries, "flaky"))
    else:
        attempt = tries[-1][0]
        first, text = _text(case)
        why = f"failed in attempt {attempt.number}, not run again: {first}"
        marks = (
            Mark(tag="failure", type=case.result.value, message=why, text=text),
            *_tries(tries[:-1], "rerun"),
        )
    return Row(name=case.name, classname=case.classname, time_s=case.time_s, marks=marks, place=_place(case))
