"""How sharp is the agreement check? Power and false alarms of tests/moe/agreement.py, simulated with transformers in bfloat16.

Needs torch and transformers, no engine: run it with the Python of a vLLM image or environment from the repository's root:

    python benchmarks/agreement.py [CLASS ...] [--draws 400] [--seeds 4] [--parts w13] [--factors 32]

Power: the scale of one output channel of one expert (layer, expert and channel drawn anew each time) is multiplied by a
factor, in w2 or in w13, and the share of draws that the check sees is printed for each factor, with the least rate that so
many draws show at 95% confidence (Clopper and Pearson, one-sided).

False alarms: the model is made from other seeds, each with float32 answers of its own. A sound model is refused where one of
its 400 differences exceeds the largest bound, or their mean the mean bound. The chance of both is taken from exponential tails,
which are heavier than the normal law that sums of roundings follow: of single differences above their 99% quantile (excesses
over a threshold; the chance of 400 is at most 400 times that of one), of means above their 80% quantile. `room` is by how much an
engine's noise may exceed the simulation's before false alarms reach 1 in 10,000.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import statistics
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "moe"))

FACTORS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
CHANCE = 1e-4
"""False alarms that are allowed."""
HOPELESS = 8
"""Misses after which a factor is given up, where so many draws with so many misses show no 99%."""
PROMPTS = 240
"""Prompts for each seed of `false_alarms`, in groups of as many as a reference has. Not sharp ones alone, which would take
long to find: the noise of the others is a little larger (fp8, two seeds: 0.186 on average against 0.176)."""
WANTED = 0.99
"""Power that is asked for; no larger factor is tried."""
PARTS = {"w2": "down_proj", "w13": "gate_up_proj"}


@dataclass(frozen=True)
class Case:
    """A model in a format, the method it is run as, and the experts class, which says how inputs are rounded."""

    recipe: str
    method: str
    experts: str | None = None


CASES = {
    "bfloat16": Case("qwen3moe", "none"),
    "qwen2moe-bfloat16": Case("qwen2moe", "none"),
    "jamba-bfloat16": Case("jamba", "none"),
    "int8": Case("qwen3moe_quark_int8", "quark_int8"),
    "qwen2moe-int8": Case("qwen2moe_quark_int8", "quark_int8"),
    "jamba-int8": Case("jamba_quark_int8", "quark_int8"),
    "int8-online": Case("qwen3moe", "experts_int8", "ZenCPUExpertsInt8"),
    "fp8-token": Case("qwen3moe_ct_w8a8_fp8", "ct_w8a8_fp8"),
    "fp8-static": Case("qwen3moe_quark_fp8", "quark_fp8"),
    "int4": Case("qwen3moe_ct_w4a16", "ct_w4a16"),
    "int4-awq": Case("qwen3moe_awq", "awq"),
    "mxfp4": Case("qwen3moe_mxfp4", "mxfp4"),
    "nvfp4": Case("qwen3moe_modelopt_nvfp4", "modelopt_nvfp4"),
}


def main() -> int:
    """Prints a few lines for each class."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("classes", nargs="*", default=list(CASES), metavar="CLASS", help=", ".join(CASES))
    parser.add_argument("--draws", type=int, default=400, help="0: false alarms alone")
    parser.add_argument("--seeds", type=int, default=4, help="0: power alone")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--factors", nargs="+", type=float, default=FACTORS)
    given = parser.parse_args()
    for name in given.classes:
        if given.draws:
            power(name, given.draws, given.parts, given.factors)
        if given.seeds:
            false_alarms(name, given.seeds)
    return 0


def power(name: str, draws: int, parts: Sequence[str], factors: Sequence[float]) -> None:
    """The share of draws seen, for each part and factor."""
    import agreement
    from selftest import simulated

    case = CASES[name]
    sound, wanted = _sound(case)
    model = _model(case, sound)
    experts = {n: m for n, m in model.named_modules() if n in sound.expert_prefixes}
    for part in parts:
        attribute = PARTS[part]
        for factor in factors:
            seen = made = 0
            for draw in range(draws):
                chooser = random.Random(f"{draw}")
                weight = getattr(experts[chooser.choice(sound.expert_prefixes)], attribute)
                expert = chooser.randrange(weight.shape[0])
                row = weight.data[expert, chooser.randrange(8 if part == "w2" else 0, weight.shape[1])]
                before = row.clone()
                row.mul_(factor)
                with _quiet():
                    found = agreement.compare(wanted, simulated.along(model, wanted))
                row.copy_(before)
                seen, made = seen + (not found.agrees), made + 1
                missed = made - seen
                if missed >= HOPELESS and _at_least(draws - missed, draws) < WANTED:
                    break
            rate = _at_least(seen, made)
            print(
                f"{name}: one {part} channel times {factor:g}: seen in {seen} of {made}, a rate of at least {rate:.1%}",
                flush=True,
            )
            if rate >= WANTED:
                break


def false_alarms(name: str, seeds: int) -> None:
    """Differences of sound models from other seeds, and what their tails say."""
    singles: list[float] = []
    means: list[float] = []
    for seed in range(seeds):
        for group in _groups(CASES[name], seed + 1):
            singles += group
            means.append(statistics.mean(group))
    bound = _bound(CASES[name])
    count = len(singles) / len(means)
    largest, mean = _tail(singles, 0.99), _tail(means, 0.8)
    room = _room(lambda s: count * largest(bound.largest / s) + mean(bound.mean / s))
    print(
        f"{name}: {len(means)} sound groups of prompts, {seeds} seeds: largest {max(singles):.3f} of "
        f"{bound.largest}; mean {statistics.mean(means):.4f} +- {statistics.stdev(means):.4f}, at most "
        f"{max(means):.4f} of {bound.mean}; chance of a false alarm {count * largest(bound.largest):.1e} by one "
        f"difference, {mean(bound.mean):.1e} by the mean; room {room:.2f}",
        flush=True,
    )


def _groups(case: Case, seed: int) -> list[list[float]]:
    """The differences of a sound model for each group of as many prompts as a reference has, along float32 answers."""
    import agreement
    import oracle
    import torch
    from recipes import formats, forward, generate, models, prompts, reference
    from selftest import simulated

    model, _, form = case.recipe.partition("_")
    sound = getattr(models, model)(seed=seed)
    sound = formats.quantize(sound, form) if form else sound
    variants = reference.variants(sound)
    how = variants[_variant(case, variants)]
    asked = [prompts.encode(text) for text in prompts.candidates()[:PROMPTS]]
    with _quiet():
        new_tokens = sound.ask.new_tokens
        exact = forward.build(**{"checkpoint": sound, **how})
        made = generate.generate(exact, sound, asked, new_tokens, reference.TOP_K)
        answers = tuple(oracle.Answer(tuple(a.tokens), tuple(map(dict, a.top))) for a in made)
        ids = tuple(map(tuple, asked))
        wanted = oracle.Reference("", "", ("",) * len(ids), ids, answers, new_tokens, reference.TOP_K)
        got = simulated.along(simulated.model_of(sound, case.method, torch.bfloat16), wanted)
    each = [
        [d for top, found in zip(one.top, other.top, strict=True) for d in agreement.differences(top, found)]
        for one, other in zip(answers, got, strict=True)
    ]
    size = sound.ask.prompts
    return [list(itertools.chain(*each[n : n + size])) for n in range(0, len(each), size)]


def _bound(case: Case) -> Any:
    """The bound of the variant that this case's checkpoint is compared with."""
    import agreement
    from recipes import reference
    from recipes.make import checkpoint

    return agreement.bound_for(_variant(case, reference.variants(checkpoint(case.recipe))))


def _variant(case: Case, names: Container[str]) -> str:
    """The variant that an engine of this case is compared with, of those that its checkpoint has."""
    import oracle

    wanted = oracle.wanted_variants(case.method, case.experts, {case.method})
    return next(name for name in wanted if name in names)


def _tail(values: Sequence[float], quantile: float) -> Callable[[float], float]:
    """The chance to exceed a value, by an exponential law above a quantile; its rate at its 95% upper end."""
    ordered = sorted(values)
    threshold = ordered[int(quantile * len(ordered))]
    excesses = [v - threshold for v in ordered if v > threshold]
    # The sum of n exponential excesses, over their mean, is a gamma variable: near 1 - 1.645 / sqrt(n) at its 5% end.
    slope = statistics.mean(excesses) / max(0.1, 1 - 1.645 / math.sqrt(len(excesses)))
    share = len(excesses) / len(ordered)
    return lambda value: 1.0 if value <= threshold else share * math.exp(-(value - threshold) / slope)


def _room(chance: Callable[[float], float]) -> float:
    """The largest factor on all noise at which the chance stays allowed; 0 where it is not at 0.1."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) <= CHANCE else (low, middle)
    return low


def _at_least(seen: int, draws: int) -> float:
    """The least rate under which so many or more would be seen in 5% of experiments."""
    if seen == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        upper = sum(math.comb(draws, k) * rate**k * (1 - rate) ** (draws - k) for k in range(seen, draws + 1))
        low, high = (rate, high) if upper <= 0.05 else (low, rate)
    return low


def _sound(case: Case) -> tuple[Any, Any]:
    """A checkpoint and the reference its engine is compared with."""
    import oracle
    from recipes import reference
    from recipes.make import checkpoint

    sound = checkpoint(case.recipe)
    return sound, oracle.choose(reference.make(case.recipe, sound), case.method, case.experts)


def _model(case: Case, sound: Any) -> Any:
    import torch
    from selftest import simulated

    with _quiet():
        return simulated.model_of(sound, case.method, torch.bfloat16)


def _quiet() -> Any:
    from recipes import forward

    return forward.one_thread()


if __name__ == "__main__":
    sys.exit(main())
