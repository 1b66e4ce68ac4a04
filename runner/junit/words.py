"""Words of the dialects, as data: what an element or a status attribute means.

Sources: pytest's junitxml plugin (9.x), Maven Surefire's rerun elements (``surefire-test-report.xsd`` 3.0), the forms
of CTest's ``--output-junit`` and GoogleTest's XML output, Bazel's ``test.xml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Codes of one testcase element, ordered: from ERROR on it is bad. Three bits, packed beside the key's hash.
PASSED, SKIPPED, XFAILED, FLAKY, ERROR, FAILED, TEARDOWN, CRASHED = range(8)

STATUS = dict.fromkeys(
    ("", "run", "passed", "pass", "ok", "success", "successful", "completed", "executed", "done"), PASSED
)
STATUS |= dict.fromkeys(
    ("notrun", "not run", "not_run", "disabled", "skipped", "skip", "ignored", "suppressed", "pending"),
    SKIPPED,
)
STATUS |= dict.fromkeys(("fail", "failed", "failure"), FAILED)
STATUS |= dict.fromkeys(("error", "errored", "broken", "crashed", "timeout", "timedout", "aborted"), ERROR)
"""Values of ``status`` and ``result``, in lower case. Any other value is an error: it may mean a failure."""

SPOKEN = ("status", "result")
"""Attributes of a testcase that say its result in a word that must be known."""
_ALSO = ("outcome", "state", "verdict")
_YES, _NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})
_FLAGS = {
    "success": (_NO, FAILED), "passed": (_NO, FAILED), "ok": (_NO, FAILED), "failed": (_YES, FAILED),
    "error": (_YES, ERROR), "crashed": (_YES, ERROR), "timedout": (_YES, ERROR), "aborted": (_YES, ERROR),
    "executed": (_NO, SKIPPED), "enabled": (_NO, SKIPPED), "skipped": (_YES, SKIPPED),
    "disabled": (_YES, SKIPPED), "ignored": (_YES, SKIPPED),
}  # fmt: skip
"""Attributes that say a result with yes or no (NUnit and its kin): which answer means what."""
SAYS = frozenset({*SPOKEN, *_ALSO, *_FLAGS})
ENDS = ("aborted", "crashed", "timeouts", "timedout", "inconclusive", "broken")
"""Counts of a suite's header that are beside failures and errors, and are no passes either (MSTest, NUnit, TestNG)."""

FINAL = {"failure": FAILED, "error": ERROR, "skipped": SKIPPED}
TRIES = {
    "flakyFailure": FLAKY,
    "flakyError": FLAKY,
    "rerun": FLAKY,
    "rerunFailure": FAILED,
    "rerunError": ERROR,
}
"""Earlier attempts. Surefire writes flaky ones where the last attempt passed, rerun ones beside a final failure."""

STRUCTURE = frozenset({"testsuites", "testsuite", "testcase", *FINAL, *TRIES})
SILENT = frozenset({"system-out", "system-err", "properties", "property"})
HARMLESS = SILENT | {
    "attachments", "attachment", "assertions", "categories", "description", "metadata", "metrics", "tags", "traits",
    "benchmark", "environment", "groups", "labels", "links", "parameters", "steps", "summary", "testinfo",
}  # fmt: skip
"""Elements that hold no result. Any other one in a place where a result could stand is never overlooked."""

XFAIL = "pytest.xfail"
CRASH = re.compile(r"\bworker ['\"]?[\w.-]+['\"]? crashed while running\b")
SUBTESTS = re.compile(r"contains \d+ failed subtests?\b")
AT_TEARDOWN = re.compile(r"\b(?:on|at|in|during) teardown\b")
NO_NAME = "(no name)"
SUITE_ITSELF = "(suite itself)"


def aside(attrs: Mapping[str, str]) -> tuple[int, str]:
    """The worst result that attributes outside the schema say, where they say it plainly; a pass otherwise."""
    worst, note = PASSED, ""
    for key, raw in attrs.items():  # in the file's order: of equals the first is named, in every run the same
        value, code = raw.strip(), PASSED
        if key in _ALSO:
            code = STATUS.get(value.lower(), PASSED)
        elif key in _FLAGS:
            answers, meant = _FLAGS[key]
            code = meant if value.lower() in answers else PASSED
        if code > worst:
            worst, note = code, f'{key}="{value[:40]}"'
    return worst, note


def suite_failed(attrs: Mapping[str, str]) -> bool:
    """Whether a suite's own attributes say that it failed as a whole."""
    said = (STATUS.get(attrs.get(key, "").strip().lower(), PASSED) for key in (*SPOKEN, *_ALSO))
    return max(said) >= ERROR or attrs.get("success", "").strip().lower() in _NO


def result(seen: int, attrs: Mapping[str, str]) -> tuple[int, str]:
    """The result of one testcase element and a message where only a status word says it.

    The worst child decides (``seen`` has a bit for each code), then the worse of both status words. A word that is
    not known is an error, except beside a child that says what happened.
    """
    for code in (CRASHED, FAILED, TEARDOWN, ERROR):
        if seen >> code & 1:
            return code, ""
    worst, note = aside(attrs)
    for key in SPOKEN:
        value = attrs.get(key, "").strip()
        word = STATUS.get(value.lower())
        if word is None and not seen:
            return ERROR, f'{key}="{value[:40]}" is not known, so the test does not count as passed'
        if word is not None and word > worst:
            worst, note = word, f"{key} is {value}"
    if worst >= ERROR:
        return worst, note
    for code in (FLAKY, XFAILED, SKIPPED):
        if seen >> code & 1:
            return code, ""
    return worst, note
