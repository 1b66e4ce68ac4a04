"""The two forms in which upstream has had its Quark int8 test; each yields one result per run.

*engine* (before PR 53291 and again since PR 54991): start the engine, ask for 4 tokens after "Hello", look at layer 0.
*bare* (PR 53291, called flaky): load the weights in this process without an engine, let attention return its query, push
four fixed token ids through, and want every logit finite.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parents[1]

TOKEN_IDS = (1, 2, 3, 4)
KV_BYTES = 64 << 20
"""Key-value cache of one engine: small and fixed, so that many fit on a device and none measures another's memory."""
METHOD, SCHEME = "QuarkW8A8Int8MoEMethod", "QuarkW8A8Int8"

Result = dict[str, Any]


def engine(model: Path, times: int) -> Iterator[Result]:
    """Start, ask and stop an engine `times` times; its worker is a fresh process each time, the caller's is not."""
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SUITE), os.environ.get("PYTHONPATH"))))
    import vllm

    for _ in range(times):
        began = time.monotonic()
        try:
            llm = vllm.LLM(model=str(model), enforce_eager=True, max_model_len=1024,
                           gpu_memory_utilization=0.1, kv_cache_memory_bytes=KV_BYTES)  # fmt: skip
            try:
                yield _result(began, *_ask(llm))
            finally:
                llm.llm_engine.engine_core.shutdown()
                del llm
                gc.collect()
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is a result here
            yield _result(began, [f"{type(error).__name__}: {error}"], "")


def _ask(llm: Any) -> tuple[list[str], str]:
    import checks
    from vllm import SamplingParams

    rank = llm.apply_model(checks.rank_facts)[0]
    problems = _identity([layer["moe_method"] for layer in rank["layers"]], list(rank["linear_schemes"]))
    output = llm.generate(["Hello"], SamplingParams(temperature=0.0, max_tokens=4), use_tqdm=False)[
        0
    ].outputs[0]
    if not output.text:
        problems.append("no output")
    return problems, " ".join(map(str, output.token_ids))


def bare(model: Path, times: int, *, poison: bool = False) -> Iterator[Result]:
    """Load the bare model in this process `times` times. `poison`: uninitialized memory is filled with NaN."""
    import torch

    if poison:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True
    config = _config(model)
    with _one_rank(config):
        for _ in range(times):
            began = time.monotonic()
            try:
                yield _result(began, *_forward(config))
            except Exception as error:  # noqa: BLE001 - whatever a loader raises is a result here
                yield _result(began, [f"{type(error).__name__}: {error}"], "")
            gc.collect()


def _config(model: Path) -> Any:
    from vllm.engine.arg_utils import EngineArgs

    made = EngineArgs(model=str(model), enforce_eager=True, max_model_len=1024)
    return made.create_engine_config()


@contextlib.contextmanager
def _one_rank(config: Any) -> Iterator[None]:
    from vllm.config import set_current_vllm_config
    from vllm.distributed import (
        cleanup_dist_env_and_memory,
        init_distributed_environment,
        initialize_model_parallel,
    )
    from vllm.platforms import current_platform

    backend = "nccl" if current_platform.device_type == "cuda" else "gloo"
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, f"tcp://127.0.0.1:{_free_port()}", 0, backend)
        initialize_model_parallel(1, 1)
        yield
    cleanup_dist_env_and_memory()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _forward(config: Any) -> tuple[list[str], str]:
    """Problems of one load and forward, and a digest of its logits."""
    import checks
    import torch
    from vllm.forward_context import set_forward_context
    from vllm.model_executor.layers.attention import Attention
    from vllm.model_executor.model_loader import get_model
    from vllm.platforms import current_platform

    # Layers register themselves by name in the configuration and refuse to do so twice.
    config.compilation_config.static_forward_context.clear()
    model = get_model(vllm_config=config)
    for module in model.modules():
        if isinstance(module, Attention):
            module.forward = lambda query, *_args, **_kwargs: query
    device = current_platform.device_type
    ids = torch.tensor(TOKEN_IDS, device=device)
    places = torch.arange(len(TOKEN_IDS), device=device)
    with torch.inference_mode(), set_forward_context(None, config, num_tokens=len(TOKEN_IDS)):
        logits = model.compute_logits(model(ids, places)).float().cpu()
    facts = checks.rank_facts(model)
    problems = _identity([layer["moe_method"] for layer in facts["layers"]], list(facts["linear_schemes"]))
    bad = int((~torch.isfinite(logits)).sum())
    if bad:
        problems.append(f"{bad} of {logits.numel()} logits are not finite")
    return problems, hashlib.sha256(logits.numpy().tobytes()).hexdigest()[:16]


def _identity(methods: list[str], schemes: list[str]) -> list[str]:
    problems = [] if methods and set(methods) == {METHOD} else [f"methods {methods}, {METHOD} wanted"]
    return problems if SCHEME in schemes else [*problems, f"schemes {schemes}, {SCHEME} wanted"]


def _result(began: float, problems: list[str], answer: str) -> Result:
    return {
        "ok": not problems, "problems": problems, "answer": answer, "seconds": round(time.monotonic() - began, 3),
    }  # fmt: skip
