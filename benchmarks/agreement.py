"""How sharp is the agreement check? Power and false alarms of tests/moe/agreement.py, simulated with transformers in bfloat16.

Needs torch and transformers, no engine: run it with the Python of a vLLM image or environment from the repository's root:

    python benchmarks/agreement.py qwen3moe [qwen3moe_quark_int8 ...] [--draws 100] [--seeds 8]

Power: the scale of one output channel of one expert's w2 (drawn anew each time: layer, expert, channel) is multiplied by a
factor, and the share of draws that the check sees is printed for each factor. False alarms: the model is made from other
seeds, each with a reference of its own, and both numbers of the sound model are printed; how many standard deviations the
bounds lie above their mean gives the chance of a false alarm under a normal law.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import random
import statistics
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "moe"))

FACTORS = (2.0, 4.0, 8.0)


def main() -> int:
    """Prints one table for each recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=8)
    given = parser.parse_args()
    for name in given.recipes:
        power(name, given.draws)
        false_alarms(name, given.seeds)
    return 0


def power(name: str, draws: int) -> None:
    """The share of draws seen, for each factor."""
    from recipes import reference
    from recipes.make import checkpoint

    sound = checkpoint(name)
    answers = reference.make(name, sound)
    for factor in FACTORS:
        seen = 0
        for draw in range(draws):
            chooser = random.Random(f"{draw}")
            prefix = chooser.choice(sound.expert_prefixes)
            weight = f"{prefix}.{chooser.randrange(4)}.down_proj.weight"
            broken = _scaled(sound, weight, chooser.randrange(8, 256), factor)
            seen += not _judge(broken, answers).agrees
        print(f"{name}: one channel times {factor:g}: seen in {seen} of {draws}", flush=True)


def false_alarms(name: str, seeds: int) -> None:
    """Both numbers of sound models from other seeds."""
    from recipes import formats, models, reference

    model, _, form = name.partition("_")
    largest, mean = [], []
    for seed in range(seeds):
        sound = getattr(models, model)(seed=seed + 1)
        sound = formats.quantize(sound, form) if form else sound
        found = _judge(sound, reference.make(name, sound))
        largest.append(found.max_abs_diff)
        mean.append(found.mean_abs_diff)
    for what, values, bound in (("largest", largest, found.bound.largest), ("mean", mean, found.bound.mean)):
        middle, spread = statistics.mean(values), statistics.stdev(values)
        z = (bound - middle) / spread
        chance = 0.5 * math.erfc(z / math.sqrt(2))
        print(
            f"{name}: sound {what} over {seeds} seeds {middle:.4f} +- {spread:.4f}, at most {max(values):.4f}; "
            f"bound {bound} is {z:.1f} deviations away, chance {chance:.1e}",
            flush=True,
        )


def _scaled(sound: Any, weight: str, channel: int, factor: float) -> Any:
    meant = {**sound.values()}
    changed = meant[weight].clone()
    changed[channel] *= factor
    if sound.format:
        return dataclasses.replace(sound, meant={**sound.meant, weight: changed})
    stored = sound.tensors[weight].clone()
    stored[channel] *= factor
    return dataclasses.replace(sound, tensors={**sound.tensors, weight: stored})


def _judge(stored: Any, content: dict[str, Any]) -> Any:
    import agreement
    import oracle
    import torch
    from selftest import simulated

    method = stored.format or "none"
    wanted = oracle.choose(content, method, None)
    prompts = [list(ids) for ids in wanted.prompt_ids]
    made = simulated.answers(stored, method, prompts, wanted.new_tokens, torch.bfloat16)
    return agreement.compare(wanted, made)


if __name__ == "__main__":
    sys.exit(main())
