"""Starting the cell's engine as a user would, asking it, and stopping it. Imports vllm only when called."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import checks
import engine_log
from cell import Cell
from oracle import Answer

LOGPROBS = 20
"""Log-probabilities asked for at each position: vLLM's default limit (`max_logprobs`)."""


class EngineStartFailed(RuntimeError):
    """The engine did not start; the message begins with the first error a worker logged."""


def engine_arguments(cell: Cell) -> dict[str, Any]:
    """Keyword arguments of `vllm.LLM` for a cell. Raises EngineStartFailed where the cell has no model."""
    if cell.model is None:
        msg = "the cell has no model"
        raise EngineStartFailed(msg)
    fixed = {"model": str(cell.model.path), "dtype": cell.dtype, "tensor_parallel_size": cell.tp}
    return {**{name: _decoded(value) for name, value in cell.engine_args.items()}, **fixed}


def _decoded(value: Any) -> Any:
    """A text that is a JSON object as that object, as vLLM's command line takes `hf_overrides` and others of its kind."""
    if not (isinstance(value, str) and value.startswith("{")):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        msg = f"engine argument {value!r} begins as JSON and is none: {error}"
        raise EngineStartFailed(msg) from error


def prepare_environment(out: Path, suite: Path) -> Path:
    """Sets what vLLM's processes need, where the cell did not set it; returns the file that collects logged errors.

    PYTHONPATH makes `checks` importable in workers, VLLM_ALLOW_INSECURE_SERIALIZATION lets `apply_model` ship it, and
    VLLM_LOGGING_CONFIG_PATH keeps vLLM's own console log and adds a file with every process's errors.
    """
    paths = [
        _own_copies(suite),
        str(suite),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    errors = out / "engine-errors.log"
    if "VLLM_LOGGING_CONFIG_PATH" not in os.environ:
        config = out / "vllm-logging.json"
        try:
            config.write_text(
                json.dumps(engine_log.logging_config(errors), indent=1) + "\n", encoding="utf-8"
            )
        except OSError:
            return errors
        os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(config)
    return errors


def _own_copies(suite: Path) -> str:
    """A folder of this process with what workers import of the suite, which may be changed or replaced while a cell runs.

    vLLM's engine core does not survive a module that is gone: its input thread ends with ModuleNotFoundError, and whoever asked
    waits for ever (0.32.0, seen once).
    """
    folder = tempfile.mkdtemp(prefix="suite-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("checks.py", "engine_log.py"):
        shutil.copyfile(suite / name, Path(folder) / name)
    return folder


def start(cell: Cell, errors: Path) -> Any:
    """The running `vllm.LLM`. Raises EngineStartFailed with the first worker error."""
    from vllm import LLM

    try:
        return LLM(**engine_arguments(cell))
    except Exception as error:
        cause = engine_log.first_error(errors)
        said = f"{type(error).__name__}: {error}"
        raise EngineStartFailed(f"{cause}; then {said}" if cause else said) from error


def engine_facts(llm: Any) -> dict[str, Any]:
    """The `engine` event: versions, and what the engine resolved the cell's axes to."""
    import torch
    import transformers
    import vllm
    from vllm.platforms import current_platform

    config = llm.llm_engine.vllm_config
    return {
        "name": "vllm",
        "version": vllm.__version__,
        "commit": commit(),
        "platform": type(current_platform).__name__,
        "device_type": current_platform.device_type,
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "tp": config.parallel_config.tensor_parallel_size,
        "quantization": config.model_config.quantization,
        "starts": {
            "enforce_eager": config.model_config.enforce_eager,
            "enable_chunked_prefill": config.scheduler_config.enable_chunked_prefill,
            "enable_prefix_caching": config.cache_config.enable_prefix_caching,
            "enable_expert_parallel": config.parallel_config.enable_expert_parallel,
        },
        "compilation": getattr(config.compilation_config.mode, "name", None),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "zentorch": version_of("zentorch"),
    }


def commit() -> str | None:
    """The commit vLLM was built from, where its version module says."""
    try:
        from vllm import _version
    except ImportError:
        return None
    found = getattr(_version, "commit_id", None) or getattr(_version, "__commit_id__", None)
    return str(found) if found else None


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def rank_facts(llm: Any) -> list[dict[str, Any]]:
    """What every rank says of itself, in rank order."""
    found: list[dict[str, Any]] = llm.apply_model(checks.rank_facts)
    return sorted(found, key=lambda facts: int(facts["rank"]))


def ask(llm: Any, prompts: Sequence[str | list[int]], new_tokens: int) -> list[Answer]:
    """Greedy answers of exactly `new_tokens` tokens to texts or token ids."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=new_tokens, logprobs=LOGPROBS, ignore_eos=True)
    asked = [{"prompt_token_ids": p} if isinstance(p, list) else p for p in prompts]
    outputs = llm.generate(asked, params, use_tqdm=False)
    return [
        Answer(
            tuple(int(t) for t in o.outputs[0].token_ids),
            tuple(
                {int(t): float(p.logprob) for t, p in position.items()} for position in o.outputs[0].logprobs
            ),
        )
        for o in outputs
    ]


STOP_S = 60.0
"""Grace that the engine gets to stop, seconds: what upstream's own test runner gives it on ROCm (vLLM 0.32.0). Its default of
5 s is just above what two CPU ranks take on an idle host (4.2 s): on a busy one it kills them, and they leave memory."""


def stop(llm: Any) -> float:
    """Shuts the engine down as its own finalizer would but with a longer grace, and returns the seconds it took."""
    core = llm.llm_engine.engine_core
    started = time.monotonic()
    if "timeout" in inspect.signature(core.shutdown).parameters:
        core.shutdown(timeout=STOP_S)
    else:
        core.shutdown()
    return time.monotonic() - started
