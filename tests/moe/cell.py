"""The cell as cell.json describes it, read once and checked; nothing here needs torch or vllm."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Scalar = str | int | float | bool | None


class CellError(RuntimeError):
    """cell.json is missing or says something this suite does not understand."""


@dataclass(frozen=True)
class Model:
    """A checkpoint folder inside the cell, and what rules may say of it."""

    name: str
    path: Path
    traits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expect:
    """What the engine must prove; None means that the matrix does not say.

    `moe_backend_pattern` matches the engine's words for `moe_backend`, in small letters.
    """

    moe_method: str | None = None
    linear_scheme: str | None = None
    expert_weight_dtype: str | None = None
    moe_backend: str | None = None
    moe_backend_pattern: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Cell:
    """One cell: its axis values, model, engine arguments and expectations."""

    id: str
    axes: dict[str, str]
    out: Path
    model: Model | None
    engine_args: dict[str, Any]
    expect: Expect
    extra_models: dict[str, Path] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def quantization(self) -> str:
        """The axis value, `none` where there is no such axis."""
        return self.axes.get("quantization", "none")

    @property
    def dtype(self) -> str:
        """The axis value, such as `bfloat16`; `auto` where there is no such axis."""
        return self.axes.get("dtype", "auto")

    @property
    def tp(self) -> int:
        """Tensor-parallel ranks."""
        return int(self.axes.get("tp", "1"))

    @property
    def platform(self) -> str:
        """cuda, rocm, cpu, or empty where there is no such axis."""
        return self.axes.get("platform", "")

    def mamba_model(self) -> Path | None:
        """A mamba checkpoint of this cell: its own model's, or the first of `extra_models` whose config says mamba."""
        if self.model is not None and "mamba" in self.model.traits:
            return self.model.path
        for path in self.extra_models.values():
            if is_mamba(path):
                return path
        return None


def is_mamba(path: Path) -> bool:
    """Whether a checkpoint's config.json names a mamba layer."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return any(str(key).startswith("mamba") for key in config)


def load(path: str | None = None) -> Cell | None:
    """The cell named by MATRIX_CELL (or `path`), or None where none is named. Raises CellError for a bad file."""
    name = path or os.environ.get("MATRIX_CELL")
    if not name:
        return None
    try:
        raw = json.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{name}: {error}"
        raise CellError(msg) from error
    return parse(raw, name)


def parse(raw: Any, where: str = "cell.json") -> Cell:
    """A cell from decoded JSON. Raises CellError naming the field."""
    if not isinstance(raw, dict) or raw.get("schema") != 1:
        msg = f"{where}: not a cell of schema 1"
        raise CellError(msg)
    try:
        model = raw.get("model")
        expect = raw.get("expect") or {}
        return Cell(
            id=str(raw["id"]),
            axes={str(k): str(v) for k, v in raw["axes"].items()},
            out=Path(raw["out"]),
            model=None
            if model is None
            else Model(model["name"], Path(model["path"]), tuple(model.get("traits", ()))),
            engine_args=dict(raw.get("engine_args") or {}),
            expect=Expect(**{k: expect.get(k) for k in Expect.__dataclass_fields__}),
            extra_models={str(k): Path(v) for k, v in (raw.get("extra_models") or {}).items()},
            raw=raw,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = f"{where}: {type(error).__name__}: {error}"
        raise CellError(msg) from error
