"""Whether a run qualifies a release: policy, waivers, the decision with every reason, and an evidence statement.

How to qualify a release, with every refusal shown: ``docs/release.md``.
"""

from runner.release.decide import decide
from runner.release.files import load_policy, load_waivers
from runner.release.folder import check_folder, is_missing
from runner.release.page import page
from runner.release.statement import ledger, statement
from runner.release.text import text, waiver_text
from runner.release.values import (
    Because,
    Decision,
    Minimum,
    Policy,
    Refusal,
    Severity,
    Waived,
    Waiver,
    WaiverReport,
    WaiverState,
)
from runner.release.waiving import Waiving, apply

__all__ = [
    "Because",
    "Decision",
    "Minimum",
    "Policy",
    "Refusal",
    "Severity",
    "Waived",
    "Waiver",
    "WaiverReport",
    "WaiverState",
    "Waiving",
    "apply",
    "check_folder",
    "decide",
    "is_missing",
    "ledger",
    "load_policy",
    "load_waivers",
    "page",
    "statement",
    "text",
    "waiver_text",
]
