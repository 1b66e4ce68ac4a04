"""Where a cell writes: the `out` folder that cell.json names, cell.json itself being named by MATRIX_CELL."""

from __future__ import annotations

import json
import os
from pathlib import Path


def out_folder() -> tuple[Path | None, str]:
    """(folder, "") or (None, why there is none). Never raises."""
    name = os.environ.get("MATRIX_CELL")
    if not name:
        return None, "MATRIX_CELL is not set"
    try:
        out = json.loads(Path(name).read_text(encoding="utf-8"))["out"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"{name}: {type(error).__name__}: {error}"
    if not isinstance(out, str):
        return None, f"{name}: `out` is not a text"
    return Path(out), ""
