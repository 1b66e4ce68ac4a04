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


def held_port() -> None:
    """Every port that the engine takes for its ranks is held already."""
    import vllm.v1.executor.multiproc_executor as executor  # type: ignore[import-not-found,unused-ignore]

    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()
    executor.get_open_port = lambda: held.getsockname()[1]


MODELS: dict[str, Callable[[], Path | str]] = {
    "bad-config-json": bad_config,
    "unknown-architecture": lambda: config(architectures=["NoSuchForCausalLM"], model_type="qwen3_moe"),
    "wrong-shapes": lambda: config(moe_intermediate_size=96),
    "no-tokenizer": no_tokenizer,
    "not-a-model": lambda: "nobody/nothing",
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
    "port-clash": TWO,
    "shm-full": TWO,
}
BEFORE: dict[str, Callable[[], None]] = {
    "port-clash": held_port,
    "address-space": lambda: resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30)),
}
DURING: dict[str, Callable[[], None]] = {
    "rank-hangs": lambda: later("Worker", signal.SIGSTOP, 1),
    "rank-hangs-and-engine-waits": lambda: later("Worker", signal.SIGSTOP, 1),
    "rank0-sigkill": lambda: later("Worker", signal.SIGKILL, 0),
    "core-sigkill": lambda: later("EngineCore", signal.SIGKILL),
    "core-sigsegv": lambda: later("EngineCore", signal.SIGSEGV),
}


def main() -> None:
    model = MODELS.get(FAULT, lambda: SOURCE)()
    BEFORE.get(FAULT, lambda: None)()
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found,unused-ignore]

    args = {"dtype": "bfloat16", "enforce_eager": True, **ARGS.get(FAULT, {})}
    engine = LLM(model=str(model), max_model_len=256, seed=0, **args)
    DURING.get(FAULT, lambda: None)()
    sampling = SamplingParams(max_tokens=200, temperature=0.0, ignore_eos=True)
    for _ in range(200):
        engine.generate([{"prompt_token_ids": [1, 2, 3]}] * 8, sampling, use_tqdm=False)


if __name__ == "__main__":
    main()
