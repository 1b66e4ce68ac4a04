"""The facts of one cell, prepared once for the rules: what the report says, and which error explains a failure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from runner.facts import CellFacts, Finding, JUnitReport, Tally, TestCase, TestResult
from runner.model import Culprit, Outcome, Proof, Verdict
from runner.records import CAUSE_CHARS
from runner.verdict.causes import CRASHED, ENGINE_DEATH, ERROR, MEANINGS, is_host_fault
from runner.verdict.exits import NO_TESTS_COLLECTED, exit_words
from runner.verdict.finding import find_cause
from runner.verdict.lines import is_assertion, is_exception
from runner.verdict.proof import Doubt, doubts
from runner.verdict.sight import differences

_BAD = (TestResult.FAILED, TestResult.ERROR)


def one_line(text: str, limit: int = CAUSE_CHARS) -> str:
    """A text as one line of printable characters, cut with a mark."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())
    return words if len(words) <= limit else words[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def say(finding: Finding) -> str:
    """A finding for a person: the rank first, where it is known."""
    return f"rank {finding.rank}: {finding.line}" if finding.rank is not None else finding.line


@dataclass(frozen=True)
class Case:
    """What the rules look at. Every property is computed from the facts alone, at most once."""

    facts: CellFacts

    @property
    def code(self) -> int | None:
        """The exit code."""
        return self.facts.exit.exit_code

    @cached_property
    def report(self) -> JUnitReport | None:
        """The report, if there is one and it could be read whole."""
        unread = self.facts.report_missing or self.facts.report_problem
        return None if unread else self.facts.report

    @cached_property
    def tally(self) -> Tally:
        """Counts of the whole report; zeros without one."""
        return self.report.tally if self.report else Tally()

    @property
    def bad(self) -> int:
        """How many tests failed or broke."""
        return self.tally.failed + self.tally.errors

    @cached_property
    def failing(self) -> tuple[TestCase, ...]:
        """The tests that failed or broke, as far as the report names them."""
        return tuple(case for case in self.report.cases if case.result in _BAD) if self.report else ()

    @cached_property
    def nothing_ran(self) -> bool:
        """Whether no test got as far as a result of its own, skips apart."""
        return not (self.tally.passed or self.tally.flaky or self.bad)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why the evidence does not prove the cell; nothing for a suite that promises tests alone."""
        return doubts(self.facts) if self.facts.proof is Proof.ENGINE else ()

    @cached_property
    def explanation(self) -> Finding | None:
        """The error that explains why this cell is not good, or None.

        A log may hold errors that a passing test caused on purpose, so an error counts only where there is no whole
        report, or where a failing test tells of it; otherwise the failing tests' own words are looked through. An
        engine that reported itself was not refused: then a refusal is of a configuration that a test made up. In a
        network namespace of its own a cell can only have taken a port itself: that is no fault of the host.
        """
        found, evidence, given = self._explanation(), self.facts.evidence, self.facts.given
        if found is not None and found.kind == "port_clash" and given is not None and given.contained:
            found = replace(found, kind=CRASHED)
        accepted = evidence is not None and bool(evidence.engine) and self.facts.proof is Proof.ENGINE
        return None if found is not None and found.kind == "refused" and accepted else found

    def _explanation(self) -> Finding | None:
        found = self.facts.finding
        if found is not None and found.kind not in MEANINGS:
            found = None
        if self.report is None or (self.nothing_ran and self.code not in {0, NO_TESTS_COLLECTED, None}):
            return found
        if not self.bad:
            return None
        words = "\n".join(message for case in self.failing for message in case.messages)
        # The starting process prints the tests' own words: a fault of the host in them is no second witness.
        witness = found is not None and (bool(found.process) or not is_host_fault(found.kind))
        if found is not None and witness and (not words or _tells_of(words, found)):
            return found
        return self._told()

    def _told(self) -> Finding | None:
        """The error that a failing test died of, by its own words. An assertion only quotes errors.

        A fault of the host counts only as the exception itself, and where no test of the report failed an assertion:
        the cell is then tried again, and a failed test must not be lost by that.
        """
        died = [case for case in self.failing if not any(map(is_assertion, case.messages))]
        words = "\n".join(message for case in died for message in case.messages)
        known = find_cause(words.splitlines())
        if known is None or not (known.process or known.kind in _TOLD_BY_TESTS) or known.kind == ERROR:
            return None
        if is_host_fault(known.kind) and not (len(died) == len(self.failing) and is_exception(known.line)):
            return None
        return known

    def counted(self) -> str:
        """The tests done so far, in words: from the report, else from the streamed test log."""
        progress = self.facts.progress
        if self.report is not None:
            parts = [(self.tally.passed, "passed"), (self.bad, "failed"), (self.tally.skipped, "skipped")]
            text = ", ".join(f"{count} {word}" for count, word in parts if count) or "no test ran"
        elif progress is None:
            return ""
        elif progress.passed:
            text = f"{progress.passed} passed" + (f", {progress.failed} failed" if progress.failed else "")
        else:
            text = f"{progress.finished} tests finished"
            text += f", {progress.failed} failed" if progress.failed else ""
        # A suite that is stopped still writes its report, and leaves out the test that it was stopped in.
        stopped = self.report is None or self.facts.exit.stopped is not None
        running = progress.running if progress is not None and stopped else ""
        return text + (f", running {running}" if running else "")

    def first_failure(self) -> str:
        """The first failing test and its message."""
        if not self.failing:
            return f"{self.bad} of {self.tally.total} tests failed"
        first = self.failing[0]
        message = next((text for text in first.messages if text.strip()), "")
        more = f" (and {self.bad - 1} more)" if self.bad > 1 else ""
        lines = [line for line in message.splitlines() if line.strip()]
        return (
            f"{first.name}: {lines[0].strip()}{more}" if lines else f"{first.name} {first.result.value}{more}"
        )

    def skip_reason(self) -> str:
        """The reason that most skipped tests give."""
        given = [
            case.messages[0]
            for case in (self.report.cases if self.report else ())
            if case.result in {TestResult.SKIPPED, TestResult.XFAILED} and case.messages
        ]
        return Counter(given).most_common(1)[0][0] if given else ""

    def verdict(self, outcome: Outcome, culprit: Culprit, cause: str) -> Verdict:
        """A verdict with a cause of one line."""
        return Verdict(outcome=outcome, culprit=culprit, cause=one_line(cause))

    def by_finding(self, finding: Finding) -> Verdict:
        """The verdict that an error's kind stands for; what else is known of the end goes into a remark."""
        meaning = MEANINGS[finding.kind]
        return Verdict(
            outcome=meaning.outcome,
            culprit=meaning.culprit,
            cause=one_line(say(finding)),
            fault=meaning.fault,
        )

    def remarks(self) -> tuple[str, ...]:
        """What does not change the verdict but must not be hidden."""
        facts, said = self.facts, list(self.facts.exit.remarks)
        if facts.exit.oom_killed:
            said.append("the kernel's out-of-memory killer ended a process of this cell")
        if facts.report_problem:
            said.append(f"report: {facts.report_problem}")
        if self.report is not None:
            said.extend(self.report.remarks)
            if self.report.lost > 0 and not self.report.remarks:
                said.append(
                    f"{self.report.lost} tests that the report's header promises are not in it (lost, or subtests)"
                )
            if self.bad and self.code == 0:
                said.append("the exit code says success, the report does not")
        if facts.exit.log_cut_bytes > 0:
            said.append(f"the log is cut: {facts.exit.log_cut_bytes} bytes are left out")
        if facts.evidence is not None and facts.proof is Proof.ENGINE:
            if facts.given is not None:
                said.extend(differences(facts.given, facts.evidence))
            if facts.evidence.bad_lines:
                said.append(f"{facts.evidence.bad_lines} lines of the evidence could not be read")
            if facts.evidence.children_left:
                said.append(f"{facts.evidence.children_left} processes of the engine outlived its shutdown")
        return tuple(dict.fromkeys(one_line(text) for text in said))

    def ending(self) -> str:
        """How the process ended and how far the tests came."""
        return "; ".join(filter(None, (exit_words(self.code), self.counted())))


_TOLD_BY_TESTS = frozenset(MEANINGS) - {"crashed", "exception", "image", "engine_file", "model_files"}
"""Kinds that a failing test's own message proves. An ImportError or an unknown exception may be the test's own fault."""


def _tells_of(words: str, finding: Finding) -> bool:
    """Whether a failing test's message is about this error: the engine's death, the same words, or the same kind."""
    if finding.process and ENGINE_DEATH.search(words):
        return True
    core = finding.line.split(": ", 1)[-1].rstrip("\N{HORIZONTAL ELLIPSIS}")[:80]
    return bool(core) and core in words
