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


def differences(first: Sequence[Answer], second: Sequence[Answer], lead: float | None = None) -> list[str]:
    """Where two greedy runs over the same prompts part, a line a prompt; an empty list where they say the same.

    `lead` allows them to part where the first run's token led the second's by no more (nats); what follows has another prefix.
    """
    found = [f"{len(first)} answers, then {len(second)}"] if len(first) != len(second) else []
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one.tokens != other.tokens:
            pairs = enumerate(zip(one.tokens, other.tokens, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(one.tokens), len(other.tokens)))
            if lead is not None and len(one.tokens) == len(other.tokens) and _lead(one, other, at) <= lead:
                continue
            found.append(
                f"prompt {number}: token {at} is {other.tokens[at : at + 1]}, was {one.tokens[at : at + 1]}"
            )
    return found


def _lead(one: Answer, other: Answer, at: int) -> float:
    """By how much the first run's token leads the second's, by the first run's numbers; infinite where it does not say."""
    top = one.top[at]
    mine, theirs = top.get(one.tokens[at], math.nan), top.get(other.tokens[at], math.nan)
    return mine - theirs if math.isfinite(mine - theirs) else math.inf
