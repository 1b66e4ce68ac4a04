"""JSON for the vocabulary: one way of writing and reading every type of :mod:`runner.model` and :mod:`runner.facts`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    msg = f"cannot write {type(value).__name__} as JSON"
    raise NotImplementedError(msg)


def dumps(value: object, *, indent: int = 2) -> bytes:
    """Write a value as UTF-8 JSON with a final newline; fields keep their declared order, mappings theirs."""
    raw = msgspec.json.encode(value, enc_hook=_plain)
    return (msgspec.json.format(raw, indent=indent) if indent else raw) + b"\n"


def loads(data: bytes, kind: type[T]) -> T:
    """Read a value strictly. Raises :class:`ValueError` that names the field that does not fit."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def sha256(path: Path) -> str:
    """Content hash of a file as records hold it: ``sha256:`` and hex digits."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
