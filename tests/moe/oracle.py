"""What a sound model answers: reference.json of a checkpoint, and the variant of it that a cell is compared with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import methods


class NoReference(RuntimeError):
    """reference.json is missing, of another schema, or has no variant for this cell."""


@dataclass(frozen=True)
class Answer:
    """One greedy continuation: token ids, and for each position the log-probabilities reported (natural logarithm)."""

    tokens: tuple[int, ...]
    top: tuple[dict[int, float], ...]


@dataclass(frozen=True)
class Reference:
    """Prompts and a sound model's answers under one variant."""

    variant: str
    note: str
    prompts: tuple[str, ...]
    prompt_ids: tuple[tuple[int, ...], ...]
    answers: tuple[Answer, ...]
    new_tokens: int
    top_k: int


def load(folder: Path) -> dict[str, Any]:
    """reference.json of a checkpoint folder. Raises NoReference."""
    path = folder / "reference.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path}: {error}"
        raise NoReference(msg) from error
    if not isinstance(content, dict) or content.get("schema") != 1:
        msg = f"{path}: not a reference of schema 1"
        raise NoReference(msg)
    return content


INT8_ACTIVATIONS = frozenset({"ZenCPUExpertsInt8", "CPUExpertsInt8", "ZentorchExpertsInt4", "CPUExpertsInt4"})
"""Experts classes that round activations to int8 even where the engine's configuration says W8A16 (vLLM 0.32.0,
`fused_moe/experts/cpu_moe.py`; the Zen kernel was measured against both forms)."""


def choose(content: dict[str, Any], quantization: str, experts_class: str | None) -> Reference:
    """The reference a cell is compared with: its method's variant, or the closest one, with a note saying so.

    Raises NoReference where nothing fits.
    """
    available: dict[str, Any] = content["variants"]
    wanted = list(
        wanted_variants(quantization, experts_class, {name.partition(".")[0] for name in available})
    )
    for name in wanted:
        if name in available:
            close = name == "none" != quantization
            note = f"no variant {wanted[-2]}, using the closest" if close else ""
            return _reference(content, name, note)
    msg = f"no variant for {quantization} among {sorted(available)}"
    raise NoReference(msg)


def wanted_variants(quantization: str, experts_class: str | None, there: set[str]) -> Iterator[str]:
    method = methods.get(quantization)
    base = (method and method.recipe) or SAME_WEIGHTS.get(quantization, quantization)
    if len(there) == 1 and (method is None or method.recipe not in {None, *there}):
        base = next(
            iter(there)
        )  # a checkpoint of one format: a value of the file's own, or a method that reads several
    if experts_class in INT8_ACTIVATIONS:
        yield f"{base}.a8"
    if "Marlin" not in (experts_class or ""):
        yield f"{base}.a"
    yield base
    yield "none"


SAME_WEIGHTS = {"int8_per_channel_weight_only": "experts_int8"}
"""Methods that round weights as another does. Marlin's experts round no activations, whatever the method says."""


def _reference(content: dict[str, Any], name: str, note: str) -> Reference:
    answers = tuple(
        Answer(
            tuple(int(t) for t in a["tokens"]),
            tuple({int(t): float(p) for t, p in position} for position in a["top"]),
        )
        for a in content["variants"][name]["answers"]
    )
    return Reference(
        variant=name,
        note=note,
        prompts=tuple(p["text"] for p in content["prompts"]),
        prompt_ids=tuple(tuple(p["token_ids"]) for p in content["prompts"]),
        answers=answers,
        new_tokens=int(content["new_tokens"]),
        top_k=int(content["top_k"]),
    )
