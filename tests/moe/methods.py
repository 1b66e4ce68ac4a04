"""The table of quantization methods, methods.yaml, as frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().with_name("methods.yaml")


@dataclass(frozen=True)
class Method:
    """One record; the head of methods.yaml says what each field means."""

    name: str
    engine: str | None
    checkpoint: str | None
    resolves_to: tuple[str | None, ...]
    recipe: str | None
    moe_method: str
    linear: str | None
    weight_dtype: str
    weight_bits: int
    multiple: int
    dtypes: tuple[str, ...]
    requires: Mapping[str, Any]
    activations: str
    largest: float
    mean: float
    source: str
    seen: str = ""
    leaves_experts_unquantized: bool = False
    model: str = "qwen3moe"
    one_scale_a_step: bool = False
    earlier: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@cache
def table() -> Mapping[str, Method]:
    """Every method by its name, in the order of the file."""
    import yaml

    content = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {name: _method(name, record) for name, record in content["methods"].items()}


def support() -> dict[str, Any]:
    """The table as the runner compares it with a probe: by which names the engine lists a method, and where it never runs.

    A method that is asked for as an argument is listed by that name alone. `known` are all names that are no news: those of
    the table, and those that it leaves untested on purpose.
    """
    import yaml

    content = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    known = set(content.get("untested", ()))
    for method in table().values():
        known |= {method.engine, method.checkpoint, *method.resolves_to} - {None}
    return {"methods": {name: _support_of(m) for name, m in table().items()}, "known": sorted(known)}


def _support_of(method: Method) -> dict[str, Any]:
    words = [method.engine] if method.engine else [word for word in method.resolves_to if word]
    demands = method.requires.items()
    never = {where: str(demand["never"]) for where, demand in demands if isinstance(demand, Mapping)}
    return {"argument": method.engine or "", "words": words, "never": never}


def get(name: str) -> Method | None:
    """The method of an axis value, or None where the table does not know it."""
    return table().get(name)


def _method(name: str, record: Mapping[str, Any]) -> Method:
    return Method(
        name=name,
        engine=record["ask"].get("engine"),
        checkpoint=record["ask"].get("checkpoint"),
        resolves_to=tuple(record["resolves_to"]),
        recipe=record["recipe"],
        moe_method=record["moe_method"],
        linear=record["linear"],
        weight_dtype=record["weight"]["dtype"],
        weight_bits=int(record["weight"]["bits"]),
        multiple=int(record["weight"]["multiple"]),
        dtypes=tuple(record["dtypes"]),
        requires=record["requires"],
        activations=record["activations"],
        largest=float(record["bound"]["largest"]),
        mean=float(record["bound"]["mean"]),
        source=record["source"],
        seen=record.get("seen", ""),
        leaves_experts_unquantized=bool(record.get("leaves_experts_unquantized", False)),
        model=record.get("model", "qwen3moe"),
        one_scale_a_step=bool(record.get("one_scale_a_step", False)),
        earlier=record.get("earlier", {}),
    )
