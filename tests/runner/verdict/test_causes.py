"""What an engine's words mean, and which words are no error."""

from __future__ import annotations

import pytest

from runner.model import Outcome
from runner.verdict import find_cause
from runner.verdict.causes import CAUSE_ROWS, MEANINGS
from tests.runner.verdict.logs import FRAME, TRACE, error_log, judged

QUIET = {
    "a warning that quotes an exception": "(EngineCore pid=1) WARNING 11-30 13:32:27 [import_utils.py:408] AssertionError",
    "shutdown words": "(EngineCore pid=1) ERROR 11-30 13:04:55 [core.py:1454] [shutdown] EngineCore: trigger received",
    "a leaked object": "resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects",
    "a summary line of pytest": "FAILED tests/moe/test_quark.py::test_a - AssertionError: assert 1 == 2",
    "a failed assertion of a test": "E       AssertionError: assert [1] == [2]",
    "a name that only looks like an error": "(MainProcess pid=1) INFO 11-30 12:31:33 [x.py:1] ErrorHandler: ready",
}


@pytest.mark.parametrize("line", QUIET.values(), ids=QUIET)
def test_no_error_is_seen_in(line: str) -> None:
    assert find_cause([line]) is None


def test_an_exception_in_a_destructor_is_ignored() -> None:
    assert (
        find_cause(["Exception ignored in: <function X.__del__ at 0x1>", TRACE, FRAME, "AttributeError: x"])
        is None
    )


def test_a_line_logged_as_error_is_shown_and_decides_nothing() -> None:
    found = find_cause(error_log("EngineCore", 1, "something odd happened"))
    assert found is not None
    assert (found.kind, found.line) == ("error", "something odd happened")
    assert judged(found).outcome is Outcome.NO_REPORT
    assert "something odd happened" in judged(found).cause


KNOWN = [
    ("out_of_memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("out_of_memory", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."),
    (
        "out_of_memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory",
    ),
    (
        "memory_taken",
        "ValueError: Free memory on device cuda:0 (1.2/79 GiB) on startup is less than desired GPU memory utilization",
    ),
    ("memory_settings", "ValueError: No available memory for the cache blocks. Try increasing x"),
    (
        "memory_settings",
        "ValueError: Available memory on node 0 (16.7/19.96 GiB) on kv cache allocation is less than requested memory for kv",
    ),
    ("memory_settings", "OSError: [Errno 28] No space left on device: '/psm_1a2b'"),
    (
        "unsupported_host",
        "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    ),
    ("unsupported_host", "RuntimeError: HIP error: invalid device function"),
    (
        "unsupported_host",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
    ),
    ("device", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
    (
        "device",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    ),
    (
        "device",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver",
    ),
    ("device", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("device", "PermissionError: [Errno 13] Permission denied: '/dev/kfd'"),
    ("image", "ImportError: libamdhip64.so.6: cannot open shared object file: No such file or directory"),
    ("image", "AssertionError: Torch not compiled with CUDA enabled"),
    (
        "hub",
        "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://huggingface.co/x",
    ),
    ("model_files", "OSError: You are trying to access a gated repo."),
    ("disk", "OSError: [Errno 28] No space left on device"),
    (
        "port_clash",
        "torch.distributed.DistNetworkError: port: 29500, code: -98, name: EADDRINUSE, message: in use",
    ),
    ("port_clash", "OSError: [Errno 98] Address already in use"),
    ("hub", "OSError: We couldn't connect to 'https://huggingface.co' to load the files"),
    ("hub", "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url"),
    ("network", "socket.gaierror: [Errno -3] Temporary failure in name resolution"),
    ("device", "RuntimeError: No HIP GPUs are available"),
    ("device", "RuntimeError: Failed to infer device type, please set the environment variable"),
    ("device", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"),
    (
        "refused",
        "ValueError: The output_size of gate's weight = 96 is not divisible by weight quantization block_n = 128.",
    ),
    (
        "refused",
        "ValueError: torch.float32 is not supported for quantization method quark. Supported dtypes: []",
    ),
    (
        "unsupported_host",
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89",
    ),
    (
        "unsupported_host",
        "ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: ",
    ),
    (
        "unsupported_host",
        "ValueError: World size (4) is larger than the number of available GPUs (1) in this node.",
    ),
    (
        "unsupported_product",
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(x)",
    ),
    ("model_files", "safetensors_rust.SafetensorError: Error while deserializing header: invalid length"),
    (
        "model_files",
        'FileNotFoundError: No such file or directory: "/models/a/model-00001-of-00002.safetensors"',
    ),
    ("model_files", "RuntimeError: Cannot find any model weights with `/models/a`"),
    ("engine_file", "FileNotFoundError: [Errno 2] No such file or directory: 'gcc'"),
    ("image", "ModuleNotFoundError: No module named 'deprecated'"),
    ("image", "RuntimeError: operator torchvision::nms does not exist"),
    ("image", "OSError: libnuma.so.1: cannot open shared object file: No such file or directory"),
    ("crashed", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
]


@pytest.mark.parametrize(("kind", "line"), KNOWN)
def test_a_workers_error_is_classified(kind: str, line: str) -> None:
    found = find_cause(error_log("Worker_TP0", 4, TRACE, FRAME, line))
    assert found is not None
    assert found.kind == kind


def test_a_file_that_the_starting_process_misses_may_be_its_own() -> None:
    found = find_cause([TRACE, FRAME, "FileNotFoundError: [Errno 2] No such file or directory: '/proc/1/x'"])
    assert found is not None
    assert found.kind == "exception"


BARE = [
    ("port_clash", "DistNetworkError: port: 29500, code: -98, name: EADDRINUSE", None),
    ("device", "Failed to initialize NVML: Unknown Error", None),
    ("device", "Unable to open /dev/kfd read-write: Permission denied", None),
    ("device", "RuntimeError: No HIP GPUs are available", None),
    ("crashed", "Fatal Python error: Segmentation fault", None),
    (
        "crashed",
        "Memory access fault by GPU node-4 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.",
        None,
    ),
    (
        "rank_killed",
        "(EngineCore pid=3) ERROR 11-30 12:40:38 [x.py:316] Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.",
        1,
    ),
    (
        "rank_died",
        "(EngineCore pid=3) ERROR 11-30 12:40:38 [x.py:316] Worker proc VllmWorker-0 died unexpectedly, shutting down executor.",
        0,
    ),
]


@pytest.mark.parametrize(("kind", "line", "rank"), BARE)
def test_words_without_a_traceback_are_classified(kind: str, line: str, rank: int | None) -> None:
    found = find_cause(["before", line, "after"])
    assert found is not None
    assert (found.kind, found.rank, found.line_number) == (kind, rank, 2)


def test_every_kind_of_the_table_has_a_meaning_and_every_row_a_source() -> None:
    assert {row.kind for row in CAUSE_ROWS} | {"exception"} == set(MEANINGS)
    assert all(row.source for row in CAUSE_ROWS)


def test_what_nccl_could_not_do_is_explained_by_what_it_says_next() -> None:
    """NCCL's exception says "system error", its last line which: the shm limit of the matrix file."""
    told = "Error while creating shared memory segment /dev/shm/nccl-a1 (size 33), error: No space left on device (28)"
    error = "torch.distributed.DistBackendError: NCCL error in: /a/NCCLUtils.cpp:94, unhandled system error (run with x)"
    found = find_cause(error_log("Worker_TP1", 7, TRACE, FRAME, error, "Last error:", told))
    assert found is not None
    assert (found.kind, found.rank, found.line) == ("memory_settings", 1, told)
    alone = find_cause(error_log("Worker_TP1", 7, TRACE, FRAME, error))
    assert alone is not None
    assert (judged(alone).outcome, alone.rank) == (Outcome.CRASHED, 1)
