"""What an engine's error words mean: one ordered table from words to a kind, one from a kind to a verdict.

No row speaks of a model, a path, a process number or a rank: renaming them changes no verdict. The first row that
matches wins, so the narrow rows stand first. ``bare`` rows count on any line; the others only in an exception.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runner.model import Culprit, Fault, Outcome
from runner.verdict.faults import FAULT_ROWS

CRASHED = "crashed"
"""Kind of an exception in an engine process that no row knows."""
EXCEPTION = "exception"
"""Kind of an exception outside the engine's processes that no row knows."""
ERROR = "error"
"""Kind of a line that is only logged at level ERROR: shown as a cause, decides nothing."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a kind says of the cell."""

    outcome: Outcome
    culprit: Culprit
    fault: Fault | None = None


_HOST, _PRODUCT, _CONFIG, _IMAGE = Culprit.HOST, Culprit.PRODUCT, Culprit.CONFIG, Culprit.IMAGE

MEANINGS: Mapping[str, Meaning] = {
    "refused": Meaning(Outcome.REFUSED, _CONFIG),
    "unsupported_host": Meaning(Outcome.UNSUPPORTED, _HOST),
    "unsupported_product": Meaning(Outcome.UNSUPPORTED, _PRODUCT),
    "out_of_memory": Meaning(Outcome.OUT_OF_MEMORY, _PRODUCT),
    "memory_taken": Meaning(Outcome.OUT_OF_MEMORY, _HOST),
    "memory_settings": Meaning(Outcome.OUT_OF_MEMORY, _CONFIG),
    "port_clash": Meaning(Outcome.INFRA, _HOST, Fault.NETWORK),
    "hub": Meaning(Outcome.INFRA, _HOST, Fault.NETWORK),
    "network": Meaning(Outcome.INFRA, _HOST, Fault.NETWORK),
    "disk": Meaning(Outcome.INFRA, _HOST, Fault.DISK),
    "device": Meaning(Outcome.INFRA, _HOST, Fault.DEVICE),
    "model_files": Meaning(Outcome.CRASHED, _CONFIG),
    "process_limit": Meaning(Outcome.CRASHED, _CONFIG),
    "image": Meaning(Outcome.CRASHED, _IMAGE),
    "engine_file": Meaning(Outcome.CRASHED, _IMAGE),
    "rank_killed": Meaning(Outcome.KILLED, Culprit.UNKNOWN),
    "rank_died": Meaning(Outcome.CRASHED, _PRODUCT),
    "rank_hung": Meaning(Outcome.HUNG, _PRODUCT),
    CRASHED: Meaning(Outcome.CRASHED, _PRODUCT),
    EXCEPTION: Meaning(Outcome.CRASHED, Culprit.UNKNOWN),
}
"""Every kind a finding may have and decide by. ``error`` is not here: it decides nothing."""


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One row: the words of an error, the kind, and where the words come from (file and version)."""

    kind: str
    pattern: re.Pattern[str]
    source: str
    bare: bool = False


def _row(kind: str, pattern: str, source: str, *, bare: bool = False) -> CauseRow:
    return CauseRow(kind, re.compile(pattern), source, bare)


_BEFORE_FAULTS: tuple[CauseRow, ...] = (
    # ---- gates with a name, in the order in which the engine meets them
    _row(
        "unsupported_product",
        r"quantization is currently not supported in",
        "vllm/platforms/interface.py verify_quantization 0.32: the platform's allow-list",
    ),
    _row(
        "unsupported_host",
        r"not supported for the current GPU|[Mm]inimum capability|only supported on GPUs with compute capability"
        r"|no kernel image is available|HIP error: invalid device function",
        "vllm/config/vllm.py 0.32, .../compressed_tensors.py, .../quark/quark.py, platforms/cuda.py: device capability; CUDA"
        " error 209 and HIP error 98: the build has no code for this device",
    ),
    _row("refused", r"is not supported for quantization method", "vllm/config/vllm.py 0.32: dtype list"),
    _row(
        "unsupported_host",
        r"No [\w ]{1,40}MoE backend supports the deployment configuration|Unsupported FP8 MoE backend: NONE",
        "vllm/model_executor/layers/fused_moe/oracle/*.py 0.32",
    ),
    _row(
        "refused",
        r"MoE backend '?[\w ]{1,40}'? does not support the deployment configuration"
        r"|moe_backend='\w{1,40}' is not supported for [\w ]{1,40}MoE",
        "vllm/model_executor/layers/fused_moe/oracle/*.py 0.32: a backend that was asked for by name",
    ),
    _row(
        "unsupported_host",
        r"Failed to find a kernel that can implement the",
        "vllm/model_executor/kernels/linear/__init__.py 0.32",
    ),
    _row(
        "unsupported_product",
        r"Unsupported CPU attention configuration",
        "vllm csrc/cpu/cpu_attn.cpp 0.32",
    ),
    _row(
        "unsupported_product",
        r"No valid attention backend found|[Mm]odel architectures .{1,200} are not supported for now",
        "vllm/platforms/cuda.py, rocm.py; vllm/model_executor/models/registry.py 0.32",
    ),
    _row(
        "unsupported_host",
        r"World size \(\d+\) is larger than the number of available GPUs",
        "vllm/config/parallel.py 0.32",
    ),
    # ---- memory: the engine's own words
    _row(
        "memory_taken",
        r"is less than desired GPU memory utilization",
        "vllm/v1/worker/utils.py 0.32: held by another before the engine started",
    ),
    _row(
        "memory_settings",
        r"No available memory for the cache blocks|larger than the available KV cache memory"
        r"|is less than requested memory for kv",
        "vllm/v1/core/kv_cache_utils.py, vllm/v1/worker/cpu_worker.py 0.32",
    ),
    _row(
        "memory_settings",
        r"No space left on device: '/(?:psm_|dev/shm)|insufficient shared memory|shared memory object </torch_"
        r"|Insufficient space in /dev/shm|creating shared memory segment /dev/shm",
        "python multiprocessing.shared_memory; torch/utils/data; vllm/distributed/device_communicators/"
        "shm_broadcast.py 0.32; NCCL src/misc/shmutils.cc 2.27: the shm limit is the matrix file's",
        bare=True,
    ),
    _row(
        "out_of_memory",
        r"\bOutOfMemoryError\b|(?:CUDA|HIP) out of memory|(?:CUDA|HIP) error: out of memory"
        r"|hipErrorOutOfMemory|DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc"
        r"|Cannot allocate memory|(?:^|\.)MemoryError\b",
        "torch c10/core/CPUAllocator.cpp, c10/cuda/CUDACachingAllocator.cpp 2.13; errno ENOMEM",
    ),
    # ---- the configuration
    _row(
        "refused",
        r"validation errors? for \w*(?:Config|Args)\b",
        "pydantic's error for a config class of vllm/config 0.26 to 0.32",
    ),
    _row(
        "refused",
        r"TypeError: (?:Async)?EngineArgs\.__init__\(\) got an unexpected keyword argument",
        "vllm/engine/arg_utils.py 0.32: an engine argument of the matrix file that this version does not have",
    ),
    _row(
        "refused",
        r"Chunked prefill is required for (?:mamba cache mode 'align'|Mamba prefix caching)",
        "vllm/model_executor/models/config.py: 0.25 to 0.32, and 0.33",
    ),
    _row(
        "refused",
        r"ValueError: .{0,300}(?:is not|must be) divisible by",
        "vllm/model_executor/layers/quantization, linear.py 0.32: shapes against tensor parallelism",
    ),
    _row(
        "process_limit",
        r"can't start new thread|(?:RuntimeError|BlockingIOError|OSError): .{0,40}Resource temporarily unavailable",
        "CPython _thread; libstdc++ std::thread; errno EAGAIN of clone(2): the pids limit is the matrix file's",
    ),
    # ---- the host, beside the rows of faults.py
    _row(
        "port_clash",
        r"EADDRINUSE|Address already in use",
        "torch c10d socket.cpp 2.13; errno EADDRINUSE",
        bare=True,
    ),
    _row(
        "hub",
        r"429 Client Error|5\d\d Server Error|couldn't connect to 'https://|We couldn't connect to|LocalEntryNotFoundError"
        r"|HfHubHTTPError|OfflineModeIsEnabled|offline mode is enabled",
        "huggingface_hub and transformers: pytorch/pytorch#170150, vllm 24 in the field cases",
    ),
)

_AFTER_FAULTS: tuple[CauseRow, ...] = (
    # ---- files
    _row(
        "model_files",
        r"SafetensorError|Cannot find any model weights|Invalid repository ID or local directory"
        r"|RepositoryNotFoundError|GatedRepoError|access a gated repo|is not a local folder and is not a valid model identifier"
        r"|JSONDecodeError: .{0,100}while the tokenizer was read|untagged enum ModelWrapper"
        r"|(?:FileNotFoundError|OSError): .{0,400}\.(?:safetensors|bin|pt|gguf|json|model)\b",
        "safetensors; vllm/model_executor/model_loader/default_loader.py, transformers_utils/config.py 0.32; tokenizers",
    ),
    _row(
        "image",
        r"Read-only file system|ModuleNotFoundError: |ImportError: |cannot open shared object file|undefined symbol: |operator \w+::\w+ does not exist"
        r"|Failed to find C compiler|has no attribute '_C'|Torch not compiled with CUDA enabled",
        "CPython; glibc ld.so; triton runtime/build.py: something is missing in the image",
    ),
    _row(
        "engine_file",
        r"FileNotFoundError: |PermissionError: ",
        "CPython: a file of the image that an engine process needs",
    ),
    # ---- an engine that gave up waiting for a rank
    _row(
        "rank_hung",
        r"TimeoutError: RPC call to \w+ timed out",
        "vllm/v1/executor/multiproc_executor.py 0.32: VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS is over",
    ),
    # ---- deaths without a traceback
    _row(
        "rank_killed",
        r"Worker ?[Pp]roc \S{1,60} died unexpectedly \(exit code: -9\)|RayWorkerProc .{0,60}exit code: -9",
        "vllm/v1/executor/multiproc_executor.py 0.32",
        bare=True,
    ),
    _row(
        "rank_died",
        r"Worker ?[Pp]roc \S{1,60} died unexpectedly",
        "vllm/v1/executor/multiproc_executor.py 0.25 to 0.32",
        bare=True,
    ),
    _row(
        CRASHED,
        r"^Fatal Python error: |!!!!!!! Segfault encountered|^Segmentation fault\b|^Bus error\b"
        r"|^terminate called after throwing|Memory access fault by GPU node",
        "CPython faulthandler; vllm docker segfault handler; libstdc++; ROCR-Runtime",
        bare=True,
    ),
)

CAUSE_ROWS: tuple[CauseRow, ...] = (
    *_BEFORE_FAULTS,
    *(
        # A cell has no network on purpose, so a line about the network is a cause only where it is an exception.
        CauseRow(
            row.meaning.fault.value, row.pattern, row.source, bare=row.meaning.fault is not Fault.NETWORK
        )
        for row in FAULT_ROWS
        if row.in_log and row.meaning.fault is not None
    ),
    *_AFTER_FAULTS,
)

ENGINE_ONLY = frozenset({"engine_file"})
"""Kinds that mean something only in an engine process: elsewhere a script may have lost a file of its own."""

_CONSEQUENCE = re.compile(
    r"EngineDeadError|Engine core initialization failed|EngineCore encountered an issue"
    r"|WorkerProc initialization failed|Worker failed with error '|Executor failed\.|RuntimeError: cancelled"
    r"|EngineCore died unexpectedly|[Cc]onnection closed by peer|[Cc]onnection reset by peer|Broken pipe"
    r"|^(?:\w+\.)*(?:EOFError|KeyboardInterrupt|SystemExit|BrokenPipeError|CancelledError)\b"
    r"|ncclRemoteError|ncclSystemError: .{0,60}socket|NCCL error in: .{0,200}unhandled system error"
)
"""Errors that another process's error or a stop causes: shown only where nothing better is there.

Sources: vllm/v1/engine/{exceptions,utils,core}.py, v1/executor/multiproc_executor.py 0.26 to 0.32; gloo and NCCL.
"""

ENGINE_DEATH = re.compile(
    r"EngineDeadError|Engine core initialization failed|EngineCore encountered|WorkerProc initialization failed"
    r"|Worker failed with error '"
)
"""How the death of the engine looks from the process that started it, a failing test included."""


def kind_of(text: str, *, bare: bool = False) -> str | None:
    """The kind of an error text by the first row that knows it. ``bare``: only rows that count on any line."""
    return next((row.kind for row in CAUSE_ROWS if (row.bare or not bare) and row.pattern.search(text)), None)


def is_host_fault(kind: str) -> bool:
    """Whether a kind says that the host failed and the cell was not tested, so that it is tried again."""
    return kind in MEANINGS and MEANINGS[kind].outcome is Outcome.INFRA


def is_consequence(text: str) -> bool:
    """Whether an error text only tells that something else failed before it."""
    return _CONSEQUENCE.search(text) is not None
