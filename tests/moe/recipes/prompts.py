"""Candidate prompts: short English-looking lines from a fixed word list, in three lengths, always the same."""

from __future__ import annotations

import random

WORDS = (  # noqa: SIM905 - a text of words reads better than sixty lines
    "amber anchor autumn basket beacon bridge bronze candle canyon castle cobalt copper coral cotton desert dragon "
    "ember engine falcon forest garden glacier granite harbor hollow island jasmine kettle lantern ledger linen "
    "marble meadow mirror nectar needle ocean orchard parrot pebble pepper planet quartz ribbon river saddle "
    "salmon shadow silver spiral spring summer temple thread timber tunnel velvet violet walnut willow winter"
).split()
LENGTHS = (12, 20, 28)
PER_LENGTH = 320


def candidates() -> list[str]:
    """Different lines of exactly 12, 20 or 28 bytes, mixed; the recipe keeps the first that are sharp enough."""
    chooser = random.Random(51177)
    found: dict[int, dict[str, None]] = {n: {} for n in LENGTHS}
    while any(len(lines) < PER_LENGTH for lines in found.values()):
        line = ""
        while len(line) < LENGTHS[-1]:
            line = (line + " " + chooser.choice(WORDS)).strip()
            if len(line) in found and len(found[len(line)]) < PER_LENGTH:
                found[len(line)][line] = None
    return [line for group in zip(*(tuple(lines) for lines in found.values()), strict=True) for line in group]


def encode(text: str) -> list[int]:
    """Token ids of an ASCII text under the recipes' byte-level tokenizer: its bytes."""
    return list(text.encode("ascii"))
