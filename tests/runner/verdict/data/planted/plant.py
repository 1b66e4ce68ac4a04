"""Starts a real engine with one fault planted; runs inside the CPU image. ``plant.py FAULT MODEL_FOLDER``."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAULT, SOURCE = sys.argv[1], Path(sys.argv[2])
COPY = Path("/tmp/model")


def copy() -> Path:
    shutil.copytree(SOURCE, COPY)
    for path in [COPY, *COPY.iterdir()]:
        path.chmod(0o755)
    return COPY


def config(**changes: Any) -> Path:
    path = copy() / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return COPY


def children(name: str) -> list[int]:
    """Processes by a part of their command line."""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    return sorted(pid for pid in pids if name in Path(f"/proc/{pid}/cmdline").read_bytes().decode())


def later(name: str, number: signal.Signals, index: int = 0) -> None:
    """Signal a process of the engine in the middle of a generation."""

    def act() -> None:
        time.sleep(1.5)
        pids = children(name)
        sys.stderr.write(f"plant: {number.name} to {name} {pids}\n")
        os.kill(pids[index], number)

    threading.Thread(target=act, daemon=True).start()


def bad_config() -> Path:
    (copy() / "config.json").write_text('{"architectures": [')
    return COPY


def no_tokenizer() -> Path:
    for path in copy().glob("tokenizer*"):
        path.unlink()
    return COPY


def bad_tokenizer() -> Path:
    (copy() / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": ')
    return COPY


def changed_weights(change: Callable[[Path], None]) -> Path:
    change(copy() / "model.safetensors")
    return COPY


def cut(weights: Path) -> None:
    os.truncate(weights, weights.stat().st_size // 2)


def without_one_shard(weights: Path) -> None:
    from safetensors.torch import load_file  # type: ignore[import-not-found,unused-ignore]

    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    names = sorted(load_file(weights))
    placed = {name: first if index % 2 else second for index, name in enumerate(names)}
    (weights.parent / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": placed})
    )
    weights.rename(weights.with_name(first))


def held_port() -> None:
    """The engine's own server is asked to listen where somebody else does."""
    held = socket.socket()
    held.bind(("0.0.0.0", 8000))
    held.listen()
    held.set_inheritable(True)
    args = ["--model", str(SOURCE), "--port", "8000", "--max-model-len", "256", "--enforce-eager"]
    os.execv(sys.executable, [sys.executable, "-c", KEEP.format(held=held.fileno()), *args])


KEEP = """
import os, runpy, sys
os.set_inheritable({held}, False)
sys.argv[0] = "vllm"
runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
"""


def raises(worker: Any) -> None:
    """Runs in every rank: the second one fails at its next forward pass."""

    def execute(*_: Any, **__: Any) -> None:
        message = "planted in the forward pass"
        raise RuntimeError(message)

    if worker.rank == 1:
        worker.model_runner.model.forward = execute
        worker.model_runner.execute_model = execute


def eats(worker: Any) -> None:
    """Runs in every rank: the second one takes more memory than the container has."""
    if worker.rank == 1:
        held = []
        while True:
            held.append(bytearray(os.urandom(1 << 20)) * 64)


def writes() -> None:
    (Path("/out") / "tokens.jsonl").write_text("x" * 100_000)


MODELS: dict[str, Callable[[], Path | str]] = {
    "bad-config-json": bad_config,
    "unknown-architecture": lambda: config(architectures=["NoSuchForCausalLM"], model_type="qwen3_moe"),
    "wrong-shapes": lambda: config(moe_intermediate_size=96),
    "no-tokenizer": no_tokenizer,
    "not-a-model": lambda: "nobody/nothing",
    "missing-weights": lambda: changed_weights(Path.unlink),
    "missing-shard": lambda: changed_weights(without_one_shard),
    "cut-safetensors": lambda: changed_weights(cut),
    "weights-not-readable": lambda: changed_weights(lambda weights: weights.chmod(0)),
    "bad-tokenizer": bad_tokenizer,
    "remote-code": lambda: config(
        model_type="planted",
        auto_map={"AutoConfig": "planted.Config", "AutoModelForCausalLM": "planted.Model"},
    ),
}
TWO = {"tensor_parallel_size": 2}
ARGS: dict[str, dict[str, Any]] = {
    "heads-by-three": {"tensor_parallel_size": 3},
    "other-quantization": {"quantization": "awq"},
    "unknown-argument": {"no_such_argument": 1},
    "tmp-full": {"enforce_eager": False},
    "int8-float16": {"dtype": "float16", "quantization": "experts_int8"},
    "rank-hangs": TWO,
    "rank-hangs-and-engine-waits": TWO,
    "rank0-sigkill": TWO,
    "shm-full": TWO,
    "rank1-sigkill": TWO,
    "rank1-raises": TWO,
    "rank1-out-of-memory": TWO,
    "wrong-dtype": {"dtype": "float11"},
    "unknown-quantization": {"quantization": "no_such_method"},
    "context-too-long": {"max_model_len": 10_000_000},
    "batch-too-small": {"max_num_batched_tokens": 8, "max_num_seqs": 16},
}
BEFORE: dict[str, Callable[[], None]] = {
    "port-clash": held_port,
    "address-space": lambda: resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30)),
}
IN_RANKS: dict[str, Callable[[Any], None]] = {"rank1-raises": raises, "rank1-out-of-memory": eats}
DURING: dict[str, Callable[[], None]] = {
    "rank-hangs": lambda: later("Worker", signal.SIGSTOP, 1),
    "rank-hangs-and-engine-waits": lambda: later("Worker", signal.SIGSTOP, 1),
    "rank0-sigkill": lambda: later("Worker", signal.SIGKILL, 0),
    "rank1-sigkill": lambda: later("Worker", signal.SIGKILL, 1),
    "core-sigkill": lambda: later("EngineCore", signal.SIGKILL),
    "core-sigsegv": lambda: later("EngineCore", signal.SIGSEGV),
}


def main() -> None:
    model = MODELS.get(FAULT, lambda: SOURCE)()
    BEFORE.get(FAULT, lambda: None)()
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found,unused-ignore]

    args = {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 256, **ARGS.get(FAULT, {})}
    engine = LLM(model=str(model), seed=0, **args)
    DURING.get(FAULT, lambda: None)()
    if FAULT in IN_RANKS:
        engine.collective_rpc(IN_RANKS[FAULT])
    sampling = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True)
    for _ in range(200):
        engine.generate([{"prompt_token_ids": [1, 2, 3]}] * 8, sampling, use_tqdm=False)
        if FAULT == "out-full":
            writes()


if __name__ == "__main__":
    main()
