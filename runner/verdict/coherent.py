"""Whether evidence can be read and agrees with itself: where not, nothing that it says of a cell is proven."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.facts import Evidence, RankFacts

FORMATS = ("Quark", "CompressedTensors", "ModelOpt")
"""MoE method classes that one quantization alone makes, by the beginning of their name, which its name holds too.

Source: vllm/model_executor/layers/quantization/{quark,compressed_tensors,modelopt} 0.26 to 0.32. Others (``Fp8MoEMethod``,
``Int8OnlineMoEMethod``) are made by several, so they say nothing of it.
"""


def incoherences(evidence: Evidence) -> Iterator[str]:
    """Each reason why this evidence cannot all be true of one cell."""
    yield from evidence.conflicts
    if evidence.bad_lines:
        lines = "line" if evidence.bad_lines == 1 else "lines"
        yield f"{evidence.bad_lines} {lines} of the evidence could not be read"
    for rank in evidence.ranks:
        yield from _of_rank(rank, evidence)


def _of_rank(rank: RankFacts, evidence: Evidence) -> Iterator[str]:
    kinds = {device.partition(":")[0].lower() for device in rank.device.split(" and ")} - {""}
    if evidence.device_type and kinds - {evidence.device_type.lower()}:
        yield f"rank {rank.rank} ran on {rank.device}, but the engine says device type {evidence.device_type}"
    said = re.sub(r"[^a-z0-9]", "", evidence.quantization.lower())
    for method in rank.moe_methods:
        if said and any(method.startswith(form) and form.lower() not in said for form in FORMATS):
            yield f"rank {rank.rank} reports {method}, but the engine says quantization {evidence.quantization}"
