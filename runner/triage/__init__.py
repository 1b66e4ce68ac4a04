"""From results to answers: causes with their counts and rules, changes against a baseline, flaky or not. Pure.

``causes`` groups what is red and says which axis values explain it; ``settle`` names the few cells that would make it
sure; ``compare`` sets a run against an earlier one; ``judge`` classifies the results of one cell over many runs.
"""

from runner.triage.baseline import Change, Compared, Comparison, compare, definition, model, passing_times
from runner.triage.causes import Cause, causes, settle
from runner.triage.explain import Explanation, explain
from runner.triage.flaky import Class, Judgement, judge, since
from runner.triage.signature import signature

__all__ = [
    "Cause",
    "Change",
    "Class",
    "Compared",
    "Comparison",
    "Explanation",
    "Judgement",
    "causes",
    "compare",
    "definition",
    "explain",
    "judge",
    "model",
    "passing_times",
    "settle",
    "signature",
    "since",
]
