"""The ways in which output can be nothing, told from the answers alone, without a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from oracle import Answer


def problems(answers: Sequence[Answer], new_tokens: int) -> list[str]:
    """Empty, cut short, constant, not numbers, or the same for most prompts; an empty list for lively output."""
    found: list[str] = []
    for number, answer in enumerate(answers):
        if len(answer.tokens) != new_tokens:
            found.append(f"prompt {number}: {len(answer.tokens)} tokens, {new_tokens} wanted")
        elif len(set(answer.tokens)) < 3:
            found.append(f"prompt {number}: constant output {answer.tokens}")
        chosen = [p.get(t, math.nan) for t, p in zip(answer.tokens, answer.top, strict=False)]
        if not all(map(math.isfinite, chosen)):
            found.append(f"prompt {number}: a log-probability is missing or not a number")
    if answers and len({a.tokens for a in answers}) <= len(answers) // 2:
        found.append("most prompts have the same answer")
    return found
