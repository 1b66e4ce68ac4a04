"""Cause patterns of waivers: regular expressions cut down to what matches in bounded time.

Python's ``re`` backtracks. Without groups and with two repetitions at most, a search in a cause of 300 characters
takes a hundredth of a second at worst (measured, Python 3.11); a third repetition makes it 8 seconds.
"""

from __future__ import annotations

import re
import warnings

MAX_PATTERN = 200
MAX_CAUSE = 300
"""Characters of a cause that are searched; the verdict's causes are no longer."""
MAX_REPEATS = 2
MAX_ALTERNATIVES = 10

_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)|(?P<other>.)"
)


def wrong(pattern: str) -> tuple[str, str] | None:
    """What is wrong with a cause pattern, and the fix; None where it can be used."""
    if len(pattern) > MAX_PATTERN:
        return f"has {len(pattern)} characters, the limit is {MAX_PATTERN}", "keep what is particular"
    repeats, alternatives = 0, 1
    for token in _TOKEN.finditer(pattern):
        if token["other"] and token["other"] in "()":
            return f"{pattern!r} has a group, which may take forever to match", r"write \( or \) for the sign"
        alternatives += token["other"] == "|"
        repeats = 0 if token["other"] == "|" else repeats + (token["repeat"] is not None)
        if repeats > MAX_REPEATS:
            return f"{pattern!r} repeats more than {MAX_REPEATS} things", "a pattern need not match the whole"
    if alternatives > MAX_ALTERNATIVES:
        return f"{pattern!r} has more than {MAX_ALTERNATIVES} alternatives", "write several waivers"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a pattern that another Python will read in another way
            compiled = re.compile(pattern)
    except (re.error, OverflowError, FutureWarning, DeprecationWarning) as error:
        return f"{pattern!r} is no regular expression: {error}", r"write \ before a sign that means itself"
    if compiled.search(""):
        return f"{pattern!r} fits every cause", "write words of the cause that only this bug has"
    return None


def fits(pattern: str, cause: str) -> bool:
    """Whether a cause contains what the pattern says. The pattern has passed :func:`wrong`."""
    return re.search(pattern, cause[:MAX_CAUSE]) is not None
