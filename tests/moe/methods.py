"""The table of quantization methods, methods.yaml, as frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@cache
def table() -> Mapping[str, Method]:
    """Every method by its name, in the order of the file."""
    import yaml

    content = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {name: _method(name, record) for name, record in content["methods"].items()}


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
    )
