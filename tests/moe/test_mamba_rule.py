"""The chunked-prefill rule for mamba models, put to the engine's own validator; no weights are loaded.

Rule (vLLM 0.25 to 0.33, vllm/model_executor/models/config.py, MambaModelConfig.verify_and_update_config): with prefix
caching on, mamba caches are aligned and need chunked prefill; with caching off there is no rule.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cell import Cell

pytestmark = pytest.mark.mamba

WORDINGS: tuple[tuple[str, str, bool], ...] = (
    ("0.25.1 to 0.32.0", "Chunked prefill is required for mamba cache mode 'align'.", True),
    ("0.33.0", "Chunked prefill is required for Mamba prefix caching.", False),
)
"""(engine versions, message, seen in a run here): the second is taken from the source of 0.33.0 and has not been run."""


def validate(model: Path, *, chunked: bool, caching: bool) -> Any:
    """The engine's validated configuration for a mamba model. Raises what the validator raises."""
    from vllm.engine.arg_utils import EngineArgs

    return EngineArgs(
        model=str(model),
        dtype="bfloat16",
        max_model_len=256,
        enforce_eager=True,
        enable_chunked_prefill=chunked,
        enable_prefix_caching=caching,
    ).create_engine_config()


@pytest.fixture
def model(cell: Cell) -> Path:
    """A mamba checkpoint of this cell."""
    found = cell.mamba_model()
    assert found is not None, "collected without a mamba model"
    return found


def test_chunked_off_with_caching_is_refused_where_caches_are_aligned(model: Path) -> None:
    """Refused, with the message of one of the known versions.

    Up to 0.31 a model that supports prefix caching by itself gets cache mode 'all' instead, to which the rule does not
    apply: Jamba in 0.26 (vllm/model_executor/models/jamba.py, SupportsMambaPrefixCaching).
    """
    if _mode(validate(model, chunked=True, caching=True)) == "all":
        config = validate(model, chunked=False, caching=True)
        assert config.scheduler_config.enable_chunked_prefill is False
        assert _mode(config) == "all"
        return
    with pytest.raises(Exception, match="|".join(re.escape(text) for _, text, _ in WORDINGS)):
        validate(model, chunked=False, caching=True)


def _mode(config: Any) -> str:
    """The mamba cache mode: all (up to 0.31), align or none."""
    return str(getattr(config.cache_config, "mamba_cache_mode", "align"))


def test_chunked_off_without_caching_is_accepted(model: Path) -> None:
    """Accepted, and both stay off."""
    config = validate(model, chunked=False, caching=False)
    assert config.scheduler_config.enable_chunked_prefill is False
    assert not config.cache_config.enable_prefix_caching


@pytest.mark.parametrize("caching", [True, False])
def test_chunked_on_is_accepted(model: Path, caching: bool) -> None:
    """Accepted with caching on and off."""
    config = validate(model, chunked=True, caching=caching)
    assert config.scheduler_config.enable_chunked_prefill is True
    assert bool(config.cache_config.enable_prefix_caching) is caching
