"""The rules of docs/examples/starts.yaml against the real engine's validator, for every cell: a disagreement names the rule.

Needs vllm and, beside the suite, the runner that reads matrix files; left out where the suite stands alone in a cell.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = (Path(__file__).resolve().parent / ".." / ".." / "..").resolve()
FILE = ROOT / "docs" / "examples" / "starts.yaml"

pytest.importorskip("vllm", reason="the engine's validator is what the rules are compared with")
if not FILE.is_file():
    pytest.skip("the suite stands alone: no matrix file beside it", allow_module_level=True)


def matrix() -> Any:
    """The matrix, expanded, with the rules' word on every cell."""
    sys.path.insert(0, str(ROOT))
    try:
        from runner.matrix import load
    finally:
        sys.path.remove(str(ROOT))
    return load(FILE)


CELLS = [
    entry for entry in matrix().cells if dict(entry.cell.axes)["platform"] == "cpu" and not entry.excluded
]


def refusal(model: Path, tp: int, arguments: Mapping[str, Any]) -> str | None:
    """What the engine's validator says against these arguments, or None where it accepts them; no weights are read."""
    from vllm.engine.arg_utils import EngineArgs

    try:
        EngineArgs(
            model=str(model), dtype="bfloat16", tensor_parallel_size=tp, **arguments
        ).create_engine_config()
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return f"{type(error).__name__}: {error}"
    return None


def test_there_is_something_to_compare() -> None:
    """32 cells, of which the rules refuse four: mamba with caching and without chunked prefill."""
    assert len(CELLS) == 32
    assert sum(entry.refused is not None for entry in CELLS) == 4


@pytest.mark.parametrize("entry", CELLS, ids=lambda e: e.cell.id)
def test_rule_and_validator_agree(entry: Any, checkpoints: Mapping[str, Path]) -> None:
    """Refused by both, or accepted by both."""
    model = checkpoints[entry.settings.model.recipe]
    said = refusal(model, int(dict(entry.cell.axes)["tp"]), dict(entry.settings.engine_args))
    if entry.refused is None:
        assert said is None, f"no rule of {FILE.name} refuses this cell, the engine does: {said}"
    else:
        rule = f"{entry.refused.source} ({entry.refused.text})"
        assert said is not None, f"{rule} refuses this cell, the engine accepts it"
        assert "hunked prefill is required" in said, (
            f"{rule} refuses it, the engine for another reason: {said}"
        )


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The models of the file, without references, which a validator does not read."""
    from recipes.make import checkpoint, save

    made = {}
    for name in ("qwen3moe", "jamba"):
        made[name] = tmp_path_factory.mktemp(name)
        save(checkpoint(name), made[name])
    return made
