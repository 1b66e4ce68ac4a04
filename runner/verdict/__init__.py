"""Outcome, culprit and cause of a cell, from exit code, report, evidence and log: pure tables, no file, no clock.

Start at :data:`runner.verdict.rules.RULES` (the order of judging) and :data:`runner.verdict.causes.CAUSE_ROWS` (what
an engine's words mean); ``docs/verdicts.md`` tells a user how to read the result.
"""

from runner.verdict.attempts import combine
from runner.verdict.events import read_evidence
from runner.verdict.explain import explain
from runner.verdict.faults import classify_message
from runner.verdict.finding import find_cause
from runner.verdict.host_fault import HostFault, Retry
from runner.verdict.progress import read_progress
from runner.verdict.rules import RULES, Rule, judge
from runner.verdict.totals import exit_code, tally

__all__ = [
    "RULES",
    "HostFault",
    "Retry",
    "Rule",
    "classify_message",
    "combine",
    "exit_code",
    "explain",
    "find_cause",
    "judge",
    "read_evidence",
    "read_progress",
    "tally",
]
