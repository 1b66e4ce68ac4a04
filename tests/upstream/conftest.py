"""Beside vLLM's own tests in a prepared suite: the three traps by which they fail before they start, and local models.

1. `import lm_eval` (and other packages only other tests use) at the top of a file: a missing one becomes an empty module.
2. A call to the Hub while the file is imported (`list_repo_refs` of a private repository, test_quark.py, 0.28 to 0.33) that
   expects RepositoryNotFoundError alone: offline it gets that.
3. Hub models by name: those of MODELS are the cell's local checkpoints.

The tests themselves are not changed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

OPTIONAL = (
    "lm_eval",
    "tblib",
    "tblib.pickling_support",
    "pytest_asyncio",
    "openai",
    "anthropic",
    "schemathesis",
)
"""Packages that vLLM's tests import and these two files do not use."""
MODELS = {"amd/tiny-qwen3-moe-w8a8-int8": "quark_int8", "ai21labs/Jamba-tiny-random": "jamba"}
"""Hub name -> a word in the name of the cell's model that stands in for it."""


class _Anything(ModuleType):
    """A module that has every attribute, each a module like it; called, it gives its argument back, or itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(f"{self.__name__}.{name}")

    def __call__(self, *given: Any, **_named: Any) -> Any:
        return given[0] if given else self


def _stub_missing() -> None:
    for name in OPTIONAL:
        top = name.partition(".")[0]
        if top in sys.modules and isinstance(sys.modules[top], _Anything):
            found = False
        else:
            found = importlib.util.find_spec(top) is not None
        if not found:
            sys.modules[name] = _Anything(name)


def _answer_offline() -> None:
    if os.environ.get("HF_HUB_OFFLINE") != "1":
        return
    import httpx
    import huggingface_hub
    from huggingface_hub.errors import RepositoryNotFoundError

    def refuse(*_given: object, **_named: object) -> None:
        request = httpx.Request("GET", "https://offline.invalid")
        msg = "offline"
        raise RepositoryNotFoundError(msg, response=httpx.Response(404, request=request))

    huggingface_hub.HfApi.list_repo_refs = refuse


def local_models() -> dict[str, str]:
    """Hub name -> folder, from the cell's own model and its extra ones."""
    path = os.environ.get("MATRIX_CELL")
    if not path:
        return {}
    cell = json.loads(Path(path).read_text(encoding="utf-8"))
    folders: dict[str, str] = dict(cell.get("extra_models") or {})
    if cell.get("model"):
        folders[cell["model"]["name"]] = cell["model"]["path"]
    return {
        hub: next(path for name, path in folders.items() if word in name.replace("-", "_"))
        for hub, word in MODELS.items()
        if any(word in name.replace("-", "_") for name in folders)
    }


def _use_local_models() -> None:
    from tests import conftest as upstream

    known, original = local_models(), upstream.VllmRunner.__init__

    def start(self: Any, model_name: str, *given: Any, **named: Any) -> None:
        original(self, known.get(model_name, model_name), *given, **named)

    upstream.VllmRunner.__init__ = start


_stub_missing()
_answer_offline()


def pytest_collection_finish(session: Any) -> None:
    """After vLLM's own conftest was imported: its runner starts local checkpoints."""
    del session
    _use_local_models()
