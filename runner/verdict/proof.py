"""What the evidence proves of a cell: a table of checks, each of which gives its doubts or nothing.

A doubt is one of three: the cell *fell back* (unquantized experts or another kernel than asked), the evidence
*contradicts* the cell (a wrong class, dtype, world size or number is a failed test even where no test said so), or it
is *missing* something (including: of another engine or platform than the cell's), so nothing is proven.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from runner.backends import is_backend
from runner.facts import CellFacts, Evidence, RankFacts
from runner.model import Culprit
from runner.verdict import sight
from runner.verdict.coherent import incoherences
from runner.verdict.events import NOT_TOLD, plain_dtype
from runner.version import same_version


class Kind(StrEnum):
    """What a doubt is."""

    FELL_BACK = "fell_back"
    CONTRADICTS = "contradicts"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason why the evidence does not prove the cell."""

    kind: Kind
    text: str
    culprit: Culprit


PLATFORM_CLASSES: Mapping[str, tuple[str, str]] = {
    "cuda": ("cuda", "cuda"),
    "rocm": ("rocm", "cuda"),
    "cpu": ("cpu", "cpu"),
}
"""Platform axis -> a word in the engine's platform class, and torch's device type.

Source: vllm/platforms 0.32 (``NvmlCudaPlatform``, ``NonNvmlCudaPlatform``, ``RocmPlatform``, ``CpuPlatform``,
``ZenCpuPlatform``); torch calls ROCm devices ``cuda``.
"""

Check = Callable[[CellFacts, Evidence], Iterator[Doubt]]


def _missing(text: str, culprit: Culprit = Culprit.TEST) -> Doubt:
    return Doubt(Kind.MISSING, text, culprit)


def _against(text: str) -> Doubt:
    return Doubt(Kind.CONTRADICTS, text, Culprit.PRODUCT)


def is_unquantized(method: str) -> bool:
    """Whether a MoE method class leaves the experts unquantized, in any platform's variant of its name."""
    return "Unquantized" in method and method.endswith("Method")


def _is_method(reported: str, expected: str) -> bool:
    return reported == expected or (is_unquantized(expected) and is_unquantized(reported))


def _sight(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The cell saw exactly what it leased: the host's fault where not, and nothing that it tested is of that lease."""
    if facts.given is None:
        return
    for text in sight.differences(facts.given, evidence):
        yield _missing(text, Culprit.HOST)
    silent = sight.unknown(facts.given, evidence.sight)
    if silent:
        yield _missing(silent)


def _engine(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """An engine reported itself, of the version (or commit) that is qualified."""
    wanted, version = facts.expect_engine, evidence.engine_version
    if not evidence.engine:
        yield _missing("the evidence names no engine")
    elif "vllm" not in evidence.engine.lower():
        yield _missing(f"the engine is {evidence.engine}, not vLLM", Culprit.CONFIG)
    if wanted and not version:
        yield _missing(f"the evidence does not say which engine version ran; expected {wanted}")
    elif wanted and not same_version(version, wanted):
        yield _missing(f"engine {version} ran, but {wanted} is the candidate", Culprit.CONFIG)


def _coherent(_facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The evidence can be read and agrees with itself; several engines of one cell are equal."""
    for text in incoherences(evidence):
        yield _missing(text)


def _platform(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The engine's platform class and device type are the cell's platform."""
    platform = facts.axes.get("platform")
    known = PLATFORM_CLASSES.get(platform or "")
    if known is None:
        return
    word, device_type = known
    if not evidence.platform or not evidence.device_type:
        yield _missing("the evidence does not say on which platform the engine ran")
    elif word not in evidence.platform.lower() or evidence.device_type.lower() != device_type:
        ran = f"{evidence.platform} on {evidence.device_type}"
        yield _missing(f"the engine ran as {ran}, which is not platform {platform}", Culprit.CONFIG)


def _dtype(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The engine's dtype is the cell's."""
    wanted = plain_dtype(facts.axes.get("dtype") or "")
    if wanted in {"", "auto"}:
        return
    if not evidence.dtype:
        yield _missing("the evidence does not say which dtype the engine used")
    elif plain_dtype(evidence.dtype) != wanted:
        yield _against(f"the engine ran in {evidence.dtype}, the cell is {wanted}")


def _ranks(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """As many ranks as the cell's tensor parallelism, each with a record of its own."""
    text = facts.axes.get("tp") or ""
    wanted = int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None
    if not evidence.ranks:
        yield _missing("no rank reported itself")
        return
    size = wanted if wanted is not None else evidence.tp
    wrong = next((rank for rank in evidence.ranks if size is not None and rank.world_size != size), None)
    if wanted is not None and evidence.tp is not None and evidence.tp != wanted:
        yield _against(f"the engine ran with tensor parallelism {evidence.tp}, the cell is {wanted}")
    elif wrong is not None:
        yield _against(f"rank {wrong.rank} is of a world of {wrong.world_size}, not {size}")
    reported = [rank.rank for rank in evidence.ranks]
    if size is not None and sorted(reported) != list(range(size)):
        yield _missing(
            f"{size} ranks should report themselves, but these did: {', '.join(map(str, reported))}"
        )


def _moe_method(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The MoE method class on every rank; unquantized on every rank where another was expected is a fall-back."""
    wanted, ranks = facts.expect.moe_method, evidence.ranks
    if wanted is None or not ranks:
        return
    every = [method for rank in ranks for method in rank.moe_methods]
    if (
        not is_unquantized(wanted)
        and all(rank.moe_methods for rank in ranks)
        and all(map(is_unquantized, every))
    ):
        text = f"every rank reports {every[0]}, expected {wanted}: the experts are not quantized"
        yield Doubt(Kind.FELL_BACK, text, Culprit.PRODUCT)
        return
    yield from _on_every_rank(
        ranks, "MoE method", wanted, lambda rank: rank.moe_methods, lambda word: _is_method(word, wanted)
    )


def _expert_dtype(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The dtype in which every rank holds its expert weights."""
    wanted = facts.expect.expert_weight_dtype
    if wanted is None:
        return
    yield from _on_every_rank(
        evidence.ranks,
        "expert weight dtype",
        wanted,
        lambda rank: rank.expert_weight_dtypes,
        lambda word: plain_dtype(word) == plain_dtype(wanted),
    )


def _linear_scheme(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The linear scheme is among those of every rank (a model has unquantized linear layers beside them)."""
    wanted = facts.expect.linear_scheme
    for rank in evidence.ranks if wanted is not None else ():
        if not rank.linear_schemes:
            yield _missing(f"rank {rank.rank} does not report its linear schemes; expected {wanted}")
        elif wanted not in rank.linear_schemes:
            yield _against(
                f"rank {rank.rank} has linear schemes {', '.join(rank.linear_schemes)}, expected {wanted}"
            )


def _backend(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The kernel backend that was asked for, on every rank."""
    wanted = facts.expect.moe_backend
    if wanted is None:
        return
    doubts = _on_every_rank(
        evidence.ranks,
        "MoE backend",
        wanted,
        lambda rank: rank.backends,
        lambda word: is_backend(word, wanted),
    )
    for doubt in doubts:
        fell_back = doubt.kind is Kind.CONTRADICTS
        yield Doubt(Kind.FELL_BACK, doubt.text, doubt.culprit) if fell_back else doubt


def _agreement(facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The numbers agree with the reference within the bound that the suite states.

    A model that was made with a reference must be compared with it. Other tokens without a number say nothing: a near
    tie turns one, and so does a broken kernel.
    """
    difference, bound = evidence.max_abs_logprob_diff, evidence.logprob_bound
    if difference is not None and bound is not None:
        if not difference <= bound:
            yield _against(
                f"log-probabilities differ from the reference by {difference:g}, the bound is {bound:g}"
            )
    elif evidence.tokens_equal is False:
        yield _missing("the tokens are not the reference's, and the evidence does not say by how much")
    elif facts.compared and difference is None and evidence.tokens_equal is None:
        yield _missing("no test compared the engine's answers with the model's reference")
    elif facts.compared:
        yield _missing("the evidence compares answers without a difference and its bound")


def _whole(_facts: CellFacts, evidence: Evidence) -> Iterator[Doubt]:
    """The evidence was written to its end, which its writer does wherever it wrote a start."""
    if not evidence.started:
        yield _missing("the evidence has no 'start': it is not whole")
    elif not evidence.ended:
        yield _missing("the evidence is cut off: it has no last event")


def _on_every_rank(
    ranks: tuple[RankFacts, ...],
    what: str,
    wanted: str,
    reported: Callable[[RankFacts], tuple[str, ...]],
    fits: Callable[[str], bool],
) -> Iterator[Doubt]:
    for rank in ranks:
        words = reported(rank)
        other = [word for word in words if word != NOT_TOLD and not fits(word)]
        if not words:
            yield _missing(f"rank {rank.rank} does not report its {what}; expected {wanted}")
        elif other:
            yield _against(f"rank {rank.rank} reports {what} {other[0]}, expected {wanted}")
        elif NOT_TOLD in words:
            yield _missing(f"rank {rank.rank} does not report the {what} of every layer; expected {wanted}")


CHECKS: tuple[Check, ...] = (
    _sight,
    _engine,
    _coherent,
    _platform,
    _dtype,
    _ranks,
    _moe_method,
    _expert_dtype,
    _linear_scheme,
    _backend,
    _agreement,
    _whole,
)


def doubts(facts: CellFacts) -> tuple[Doubt, ...]:
    """Every reason why the evidence does not prove the cell, in the order of the checks; empty: it is proven."""
    if facts.evidence is None:
        return (_missing("the cell left no evidence of the engine that ran"),)
    return tuple(doubt for check in CHECKS for doubt in check(facts, facts.evidence))
