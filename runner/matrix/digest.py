"""The matrix hash: over cells and settings in canonical form, so that what does not change them does not change it.

Left out: the order of axes, values and rules, the texts and lines of reasons, the file's path, and every host fact.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from runner.model import CellSettings, MatrixCell, ModelRef, Scalar

FORMAT = 1
"""Part of the hash; to be raised when the canonical form changes."""
_CHUNK = 10_000


def matrix_hash(cells: Sequence[MatrixCell], infra_retries: int) -> str:
    """SHA-256, in hex, of all distinct settings and of the cells sorted by id, each with its state and settings."""
    shared = {id(each.settings): each.settings for each in cells}
    digests = {
        key: hashlib.sha256(_json(canonical_settings(each))).hexdigest() for key, each in shared.items()
    }
    distinct = sorted(set(digests.values()))
    place = {digest: number for number, digest in enumerate(distinct)}
    number = {key: place[digest] for key, digest in digests.items()}
    pairs = _Pairs()
    lines = [
        f"{','.join(map(pairs.__getitem__, each.cell.axes))}\t{_state(each)}\t{number[id(each.settings)]}\n"
        for each in cells
    ]
    lines.sort()
    total = hashlib.sha256(_json({"format": FORMAT, "infra_retries": infra_retries, "settings": distinct}))
    for start in range(0, len(lines), _CHUNK):
        total.update("".join(lines[start : start + _CHUNK]).encode())
    return total.hexdigest()


def _state(cell: MatrixCell) -> str:
    return "excluded" if cell.excluded else "refused" if cell.refused else "planned"


class _Pairs(dict[tuple[str, str], str]):
    """``name=value`` of axis values, made once: cells are many, values few."""

    def __missing__(self, pair: tuple[str, str]) -> str:
        self[pair] = "=".join(pair)
        return self[pair]


def canonical_settings(settings: CellSettings) -> dict[str, object]:
    """Settings as plain values whose order does not depend on the file's."""
    limits, expect, suite = settings.limits, settings.expect, settings.suite
    return {
        "image": settings.image,
        "suite": [suite.path, suite.proof.value, suite.tests, suite.command],
        "limits": {name: getattr(limits, name) for name in limits.__dataclass_fields__},
        "devices": settings.devices,
        "model": _model(settings.model),
        "extra_models": sorted((_model(model) for model in settings.extra_models), key=str),
        "engine_args": dict(settings.engine_args),
        "env": dict(settings.env),
        "secrets": sorted(settings.secrets),
        "expect": {name: getattr(expect, name) for name in expect.__dataclass_fields__},
        "requires": sorted(need.expression or "never" for need in settings.requires),
        "mounted": [
            [[each.source, each.target] for each in settings.mounts],
            settings.python,
            settings.engine_folders,
        ],
    }


def _model(model: ModelRef | None) -> list[Scalar | list[str]] | None:
    if model is None:
        return None
    return [model.name, model.recipe, model.hub, model.revision, model.fault, sorted(model.traits)]


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
