"""From what a pass over a file learned to the values that the other rooms use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from runner.facts import JUnitReport, Tally, TestCase, TestResult
from runner.junit import words
from runner.junit.fold import attempts, folded, repeats
from runner.junit.limits import Caps
from runner.junit.scanned import Kept, Scan

_TOLD = 20  # repeats of one test whose messages are kept
_RESULT = (
    TestResult.PASSED,
    TestResult.SKIPPED,
    TestResult.XFAILED,
    TestResult.FLAKY,
    TestResult.ERROR,
    TestResult.FAILED,
    TestResult.ERROR,
    TestResult.ERROR,
)


@dataclass(frozen=True, slots=True)
class _Folds:
    """Repeated tests: their index groups, and the folded code of each."""

    groups: list[list[int]]
    codes: list[int]


def _fold(scan: Scan) -> _Folds:
    groups = repeats(scan.keys)
    # Fewer promised than there are elements: only attempts of one test can be the rest.
    rerun = 0 < scan.root.promised < scan.root.cases
    return _Folds(groups, [folded([scan.keys[i] & 7 for i in group], rerun=rerun) for group in groups])


def _counts(scan: Scan, folds: _Folds) -> list[int]:
    counts = list(scan.counts)
    for group, code in zip(folds.groups, folds.codes, strict=True):
        for index in group:
            counts[scan.keys[index] & 7] -= 1
        counts[code] += 1
    return counts


def _tally(counts: list[int]) -> Tally:
    return Tally(
        total=sum(counts),
        passed=counts[words.PASSED],
        failed=counts[words.FAILED],
        errors=counts[words.ERROR] + counts[words.TEARDOWN] + counts[words.CRASHED],
        skipped=counts[words.SKIPPED],
        xfailed=counts[words.XFAILED],
        flaky=counts[words.FLAKY],
    )


def tally(scan: Scan) -> Tally:
    """Counts of tests alone."""
    return _tally(_counts(scan, _fold(scan)))


def report(scan: Scan, caps: Caps) -> JUnitReport:
    """The whole report."""
    folds = _fold(scan)
    counts = _counts(scan, folds)
    total = sum(counts)
    cases, most = _cases(scan, folds)
    lost, lost_remark = _lost(scan, total)
    remarks = [*scan.remarks, lost_remark, *_remarks(scan, counts, cases, caps)]
    if folds.groups:
        many = f" ({most.name} ran {most.attempts} times)" if most and most.attempts > 1 else ""
        remarks.append(
            f"{_n(len(folds.groups), 'test')} stood more than once in the file{many}: counted once"
        )
    return JUnitReport(
        tally=_tally(counts),
        cases=tuple(cases),
        seconds=round(scan.seconds, 6),
        lost=lost,
        crashed=counts[words.CRASHED] > 0,
        remarks=tuple(filter(None, remarks)),
    )


def _cases(scan: Scan, folds: _Folds) -> tuple[list[TestCase], TestCase | None]:
    """Kept tests in file order, repeats folded into their first kept element; and the most repeated one."""
    group_of = {index: n for n, group in enumerate(folds.groups) for index in group}
    done: set[int] = set()
    cases: list[TestCase] = []
    most: TestCase | None = None
    for index, kept in scan.kept.items():
        n = group_of.get(index)
        if n is None:
            cases.append(_case([kept], kept.code, kept.attempts))
        elif n not in done:
            done.add(n)
            cases.append(_folded_case(scan, folds.groups[n], folds.codes[n]))
            if most is None or cases[-1].attempts > most.attempts:
                most = cases[-1]
    return cases, most


def _folded_case(scan: Scan, group: list[int], code: int) -> TestCase:
    codes = [scan.keys[index] & 7 for index in group]
    parts = [scan.kept[index] for index in group if index in scan.kept]
    each = [scan.kept[index].attempts if index in scan.kept else 1 for index in group]
    case = _case(parts, code, attempts(codes, each))
    if code == words.FLAKY and not case.messages:
        note = f"passed after {case.attempts - 1} earlier attempts that left no message"
        case = replace(case, messages=(note,))
    return case


def _case(parts: list[Kept], code: int, tries: int) -> TestCase:
    first = parts[0]
    messages = [message for part in parts[:_TOLD] for message in part.messages]
    if len(parts) > _TOLD:
        messages.append(f"[... messages of {len(parts) - _TOLD} more ...]")
    times = [part.time_s for part in parts if part.time_s is not None]
    return TestCase(
        name=first.name,
        classname=first.classname,
        file=first.file,
        suite=first.suite,
        result=_RESULT[code],
        time_s=sum(times) if times else None,
        attempts=tries,
        crashed=code == words.CRASHED,
        messages=tuple(messages),
    )


def _lost(scan: Scan, total: int) -> tuple[int, str]:
    """How many promised tests are not there.

    The header of pytest counts subtests that its file does not list, so a larger header has two readings. Here it is
    a fact: promised less what stands in the file, where each failure beyond the first in one testcase counts as one
    more (a subtest or a try). 0 where the file itself shows subtests by their closing message. Whether the rest is
    lost or only not listed is for the verdict: with exit code 0 and a test log that saw the session finish, they are
    subtests; otherwise tests are lost. Where repeats hide a loss (fewer promised than elements, yet fewer tests than
    promised), the missing ones are lost.
    """
    root = scan.root
    lost = root.lost
    if 0 < root.promised < root.cases and total < root.promised:
        lost = max(lost, root.promised - total)
    if not lost:
        return 0, ""
    if scan.subtests:
        return 0, f"the header counts {lost} more than the file lists: subtests are counted but not listed"
    held = f"the header promises {root.promised:,} tests, the file holds {total:,}"
    return (
        lost,
        f"{held}: {lost:,} not reported (or subtests, which a header counts and a file does not list)",
    )


def _remarks(scan: Scan, counts: list[int], cases: list[TestCase], caps: Caps) -> list[str]:
    total, remarks = sum(counts), []
    if counts[words.CRASHED]:
        names = [case.name for case in cases if case.crashed]
        remarks.append(f"worker crash in {names[0] if names else _n(counts[words.CRASHED], 'test')}")
    if scan.untimed:
        odd = f" (such as {scan.odd_time!r})" if scan.odd_time else ""
        remarks.append(f"time unknown for {scan.untimed} of {len(scan.keys)} tests{odd}")
    skipped = counts[words.SKIPPED] + counts[words.XFAILED]
    if total and skipped == total:
        reasons = Counter(message.partition("\n")[0] for case in cases for message in case.messages[:1])
        common = reasons.most_common(1)
        remarks.append(f"all {total} tests were skipped" + (f": {common[0][0][:200]}" if common else ""))
    if len(scan.keys) > caps.kept_all:
        remarks.append(
            f"{len(cases):,} of {total:,} tests are listed: the first ones and those that did not pass"
        )
    bad = sum(scan.counts[words.FLAKY :])
    if bad > scan.kept_bad:
        remarks.append(f"only {scan.kept_bad:,} of {bad:,} tests that did not pass are listed")
    return remarks


def _n(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
