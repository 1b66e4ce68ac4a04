"""Cause patterns of waivers: regular expressions cut down to what matches in bounded time.

Python's ``re`` backtracks. Without groups and with two repetitions at most, a search in a cause of 400 characters
(the longest there is) takes a quarter of a second at worst, of one alternative 0.03 (measured, Python 3.11); a third
repetition takes a hundred times as long.
"""

from __future__ import annotations

import re
import string
import warnings

from runner.records import CAUSE_CHARS

MAX_PATTERN = 200
MAX_REPEATS = 2
MAX_ALTERNATIVES = 10

SAMPLES = (
    "rank 0: RuntimeError: _C::static_scaled_fp8_quant() expected at most 0 argument(s) but received 4 argument(s).",
    "weight_prepack_size failed in src/cpu/cpp/WeightReorder.cpp:88",
    "every rank reports UnquantizedFusedMoEMethod, expected Int8OnlineMoEMethod: the experts are not quantized",
    "test_generates: KeyError: 'model.layers.0.w2_scale'",
    "the kernel's out-of-memory killer ended it above its limit of 8192 MiB; exit code 137 (SIGKILL)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
    "no progress for 300 s, in phase load",
    "test_tokens: assert [4, 7] == [4, 9]",
    "SIGSEGV after 2 tests passed; exit code 139 (SIGSEGV)",
    "Chunked prefill is required for mamba cache mode 'align'",
    "quark quantization is currently not supported in rocm.",
    "log-probabilities differ from the reference by 0.6, the bound is 0.25",
    "Worker proc VllmWorker-1 died unexpectedly (exit code: -9)",
    "attempt 1: failed: test_b: 502 Bad Gateway; attempt 2 passed",
    "rank 1 reports MoE backend CPU, expected triton",
    "still running after the total limit of 1800 s, in phase generate",
)
"""Causes with nothing in common but the language, in the words of this tool and of vLLM 0.32: one bug has few of them."""

FRAMES = (
    ("test_0: 0", "every failed test"),
    ("test_0 failed first and passed when it was run again", "every flaky test"),
    ("attempt 1: failed: 0; attempt 2 passed", "every cell that passed when it was tried again"),
    (
        "exit code 0, but no test of the report failed (0 passed)",
        "every exit code that the report does not explain",
    ),
    ("rank 0: 0", "every error of that rank"),
)
"""The words that this tool puts around what is particular of a cause, with nothing particular in them, and what they say."""

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
    says = _too_much(compiled)
    return (f"{pattern!r} fits {says}", "write words of the cause that only this bug has") if says else None


def _too_much(compiled: re.Pattern[str]) -> str:
    """What a pattern fits that no pattern of one bug does; empty where it fits nothing of the kind."""
    if compiled.search(""):
        return "every cause"
    one = next((sign for sign in string.printable if compiled.search(sign)), None)
    if one is not None:
        return f"a single character such as {one!r}, and so nearly every cause"
    fitted = sum(compiled.search(sample) is not None for sample in SAMPLES)
    if fitted * 2 > len(SAMPLES):
        return f"{fitted} of {len(SAMPLES)} causes that have nothing in common"
    frame = next((what for words, what in FRAMES if compiled.search(words)), None)
    return f"the cause of {frame}" if frame is not None else ""


def fits(pattern: str, cause: str) -> bool:
    """Whether a cause contains what the pattern says. The pattern has passed :func:`wrong`."""
    return re.search(pattern, cause[:CAUSE_CHARS]) is not None
