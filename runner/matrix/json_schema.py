"""The JSON Schema of a matrix file, made from the dataclasses that the reader uses.

``python -m runner.matrix.json_schema`` writes the shipped copy beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.matrix.shape import (
    ExpectSpec,
    IncludeSpec,
    LimitsSpec,
    MatrixFile,
    ModelSpec,
    OverrideSpec,
    PlatformSpec,
    QuantizationSpec,
    RetrySpec,
    RuleSpec,
    SuiteSpec,
)
from runner.matrix.special import NeedSpec
from runner.strictyaml.kinds import keys_of

SHIPPED = Path(__file__).with_name("matrix.schema.json")

_RECORDS = (
    ExpectSpec,
    IncludeSpec,
    LimitsSpec,
    ModelSpec,
    NeedSpec,
    OverrideSpec,
    PlatformSpec,
    QuantizationSpec,
    RetrySpec,
    RuleSpec,
    SuiteSpec,
)


def make_schema() -> dict[str, Any]:
    """The schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "matrix.yaml of the vLLM matrix runner",
        **_object(MatrixFile),
        "patternProperties": {"^x-": {}},
        "$defs": {cls.__name__: _object(cls) for cls in _RECORDS},
    }


def schema_text() -> str:
    """The schema as the shipped file has it."""
    return json.dumps(make_schema(), indent=2) + "\n"


def _object(cls: type[Any]) -> dict[str, Any]:
    kinds = keys_of(cls)
    found: dict[str, Any] = {
        "type": "object",
        "description": (cls.__doc__ or "").splitlines()[0],
        "properties": {
            name: {"description": made.metadata["doc"], **made.metadata["kind"].schema()}
            for name, made in kinds.items()
        },
        "additionalProperties": False,
    }
    required = [name for name, made in kinds.items() if made.metadata["required"]]
    return {**found, "required": required} if required else found


if __name__ == "__main__":
    SHIPPED.write_text(schema_text(), encoding="utf-8")
