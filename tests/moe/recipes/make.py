"""Writes a checkpoint folder: config.json, model.safetensors, the tokenizer, reference.json; readable by every user."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recipes import FAULTS, FORMATS, MODELS, RECIPES, faults, formats, models, reference, tokenizer
from recipes.models import Checkpoint

_BUILDERS: dict[str, Callable[[], Checkpoint]] = {name: getattr(models, name) for name in MODELS}


def checkpoint(name: str, fault: str | None = None) -> Checkpoint:
    """The checkpoint of a recipe, with `fault` planted where one is named.

    Raises ValueError for an unknown name or fault, or a fault that the format cannot carry.
    """
    if name not in RECIPES:
        msg = f"unknown recipe {name!r}; known: {', '.join(RECIPES)}"
        raise ValueError(msg)
    model = next(m for m in MODELS if name == m or name.startswith(m + "_"))
    form = name[len(model) + 1 :]
    plain = _BUILDERS[model]()
    if fault is None:
        return formats.quantize(plain, form) if form else plain
    if form in ("", "quark_int8"):
        return faults.apply(formats.quantize(plain, form) if form else plain, fault)
    return formats.quantize(faults.apply(plain, fault), form)


assert set(formats.FORMATS) == set(FORMATS), "every format has a description, and the other way round"


def write(name: str, folder: Path, fault: str | None = None) -> None:
    """Makes recipe `name` in `folder` (mode 0755, files 0644), with `fault` planted where one is named.

    Raises ValueError for an unknown name or fault, FileExistsError where the folder holds anything already,
    `reference.RecipeError` where the reference would not be sharp.
    """
    if fault is not None and fault not in FAULTS:
        msg = f"unknown fault {fault!r}; known: {', '.join(FAULTS)}"
        raise ValueError(msg)
    sound = checkpoint(name)
    stored = sound if fault is None else checkpoint(name, fault)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        msg = f"{folder} is not empty"
        raise FileExistsError(msg)
    expected = reference.make(name, sound, fault)
    save(stored, folder)
    _json(folder / "reference.json", expected)
    widen(folder)


def save(stored: Checkpoint, folder: Path) -> None:
    """config.json, model.safetensors and the tokenizer of `stored`, without a reference."""
    from safetensors.torch import save_file

    _json(folder / "config.json", stored.config)
    tensors = {k: stored.tensors[k].contiguous() for k in sorted(stored.tensors)}
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    tokenizer.write(folder)


def widen(folder: Path) -> None:
    """Mode 0755 for the folder and 0644 for its files: safetensors writes 0600, which a cell's user could not read."""
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def _json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
