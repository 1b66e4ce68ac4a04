"""How often a cell passes, from a few tries: the share and the interval that it is known to."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


def wilson(passed: int, tries: int, z: float = Z_95) -> tuple[float, float]:
    """The interval of a share by Wilson's score (JASA 22, 1927): honest for few tries and for shares of 0 and 1.

    Raises ValueError where ``tries`` is not positive or ``passed`` is not within it.
    """
    if tries < 1 or not 0 <= passed <= tries:
        msg = f"{passed} of {tries} is no share"
        raise ValueError(msg)
    share, square = passed / tries, z * z
    middle = (share + square / (2 * tries)) / (1 + square / tries)
    half = z / (1 + square / tries) * math.sqrt(share * (1 - share) / tries + square / (4 * tries * tries))
    # At the ends the exact bound is 0 or 1; rounding would leave a trace on either side of it.
    return (0.0 if passed == 0 else middle - half, 1.0 if passed == tries else middle + half)


def rate(passed: int, tries: int) -> str:
    """The rate for a person, in percent: ``passed 9 of 10 runs: 90 % (95 % interval 59.6 to 98.2 %)``."""
    low, high = wilson(passed, tries)
    return (
        f"passed {passed} of {tries} runs: {100 * passed / tries:.4g} % "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
    )
