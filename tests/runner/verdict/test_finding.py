"""Which error of a multi-process log is the first, whose it is, and how it is shown."""

from __future__ import annotations

import pytest

from runner.facts import Finding
from runner.verdict import find_cause
from tests.runner.verdict.logs import FRAME, TRACE, error_log, log


def test_the_rank_is_taken_from_the_worker_name() -> None:
    found = find_cause(
        error_log("Worker_TP1", 17, "WorkerProc failed to start.", TRACE, FRAME, "KeyError: 'w13'")
    )
    assert found == Finding(
        line="KeyError: 'w13'", kind="crashed", rank=1, process="Worker_TP1", line_number=4
    )


def test_the_rank_is_taken_from_torchs_prefix() -> None:
    found = find_cause(log(TRACE, FRAME, "ValueError: bad", prefix="[rank3]: "))
    assert found is not None
    assert (found.rank, found.line, found.kind) == (3, "ValueError: bad", "crashed")


def test_the_rank_is_learned_from_an_earlier_line_of_the_same_process() -> None:
    lines = [
        "(Worker pid=9) INFO 11-30 13:04:41 [parallel_state.py:1906] world_size=2 rank=1 local_rank=1 backend=gloo",
        *error_log("Worker", 9, TRACE, FRAME, "IndexError: out"),
    ]
    found = find_cause(lines)
    assert found is not None
    assert found.rank == 1


SUITE_LOG = [
    "@ 1796050979.304 VllmWorker-1 117: WorkerProc failed to start.",
    TRACE,
    FRAME,
    "KeyError: 'a'",
    "",
    "The above exception was the direct cause of the following exception:",
    "",
    TRACE,
    FRAME,
    "RuntimeError: no weights",
    "@ 1796050980.100 EngineCore 110: EngineCore failed to start.",
    TRACE,
    FRAME,
    "Exception: WorkerProc initialization failed due to an exception in a background process.",
]


def test_the_suites_own_error_log_is_read() -> None:
    found = find_cause(SUITE_LOG)
    assert found == Finding(
        line="KeyError: 'a'", kind="crashed", rank=1, process="VllmWorker-1", line_number=4
    )


@pytest.mark.parametrize(
    ("line", "shown", "kind", "rank"),
    [
        (
            "VllmWorker-1: RuntimeError: no such op; then RuntimeError: Engine core initialization failed. See x",
            "RuntimeError: no such op",
            "crashed",
            1,
        ),
        (
            "VllmWorker-0: RuntimeError: Cannot find any model weights with `/m`; then RuntimeError: Engine core x",
            "RuntimeError: Cannot find any model weights with `/m`",
            "model_files",
            0,
        ),
        (
            "ValidationError: 1 validation error for VllmConfig\n  Assertion failed, Chunked prefill is required. [type=a, b]",
            "Chunked prefill is required.",
            "refused",
            None,
        ),
    ],
    ids=["unknown", "known", "refused"],
)
def test_the_suites_summary_of_a_failed_start_is_read(
    line: str, shown: str, kind: str, rank: int | None
) -> None:
    for form in ("engine.EngineStartFailed: {}", 'failed on setup with "engine.EngineStartFailed: {}"'):
        found = find_cause(form.format(line).splitlines())
        assert found is not None
        assert (found.line.rstrip('"'), found.kind, found.rank) == (shown, kind, rank)


def test_a_message_that_pytest_cut_is_read_from_the_text_below_it() -> None:
    cut = [
        'failed on setup with "engine.EngineStartFailed: ValidationError: 1 validation error for ModelConfig',
        "[+2 more lines; full report in element text]",
        "cell = Cell(id='x')",
    ]
    whole = [
        "E       pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "E         Value error, User-specified max_model_len is greater than the derived one. [type=value_error, x]",
    ]
    found = find_cause(cut + whole)
    assert found is not None
    assert (found.line, found.kind) == (
        "User-specified max_model_len is greater than the derived one.",
        "refused",
    )
    alone = find_cause(cut)
    assert alone is not None
    assert (alone.line, alone.kind) == ("ValidationError: 1 validation error for ModelConfig", "refused")


def test_a_traceback_without_prefix_belongs_to_the_error_line_before_it() -> None:
    lines = [
        "(VllmWorker-0 pid=9) ERROR 11-30 15:01:02 [multiproc_executor.py:953] WorkerProc failed to start.",
        TRACE,
        FRAME,
        "IndexError: out",
        TRACE,
        FRAME,
        "ValueError: of the starting process",
    ]
    found = find_cause(lines)
    assert found is not None
    assert (found.line, found.rank, found.process) == ("IndexError: out", 0, "VllmWorker-0")
    alone = find_cause(lines[3:])
    assert alone is not None
    assert (alone.line, alone.process, alone.kind) == ("ValueError: of the starting process", "", "exception")


def test_interleaved_tracebacks_of_two_ranks_are_kept_apart() -> None:
    one = error_log("Worker_TP1", 2, TRACE, FRAME, "IndexError: first")
    two = error_log(
        "Worker_TP0", 1, TRACE, FRAME, "RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:5"
    )
    mixed = [line for pair in zip(two, one, strict=True) for line in pair]
    found = find_cause(mixed)
    assert found is not None
    assert (found.rank, found.line) == (1, "IndexError: first")


def test_a_line_of_another_process_inside_a_traceback_is_not_its_end() -> None:
    lines = [
        TRACE,
        FRAME,
        "Loading safetensors checkpoint shards:   0% Completed",
        "[W1130 x] Warning: y",
        "KeyError: 1",
    ]
    found = find_cause(lines)
    assert found is not None
    assert (found.line, found.kind) == ("KeyError: 1", "exception")


def test_a_worker_error_outranks_an_earlier_error_of_the_starting_process() -> None:
    lines = [
        TRACE,
        FRAME,
        "ValueError: retried",
        *error_log("EngineCore", 5, TRACE, FRAME, "TypeError: real"),
    ]
    found = find_cause(lines)
    assert found is not None
    assert (found.line, found.process) == ("TypeError: real", "EngineCore")


def test_a_wrapper_is_shown_only_where_nothing_better_is() -> None:
    words = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    alone = find_cause([TRACE, FRAME, words])
    assert alone is not None
    assert (alone.line, alone.kind) == (words, "crashed")
    better = find_cause([TRACE, FRAME, words, *error_log("Worker_TP0", 1, TRACE, FRAME, "OSError: late")])
    assert better is not None
    assert better.line == "OSError: late"


def test_a_wrapper_that_quotes_a_known_error_keeps_its_kind() -> None:
    words = "RuntimeError: Worker failed with error 'CUDA out of memory. Tried to allocate 2.00 GiB', please check the stack"
    found = find_cause(error_log("EngineCore", 3, TRACE, FRAME, words))
    assert found is not None
    assert found.kind == "out_of_memory"


def test_the_known_error_of_a_chain_says_more_than_the_unknown_one_before_it() -> None:
    lines = error_log(
        "Worker_TP0",
        1,
        TRACE,
        FRAME,
        "AttributeError: 'NoneType' object has no attribute 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        TRACE,
        FRAME,
        "NotImplementedError: No FP8 MoE backend supports the deployment configuration.",
    )
    found = find_cause(lines)
    assert found is not None
    assert found.kind == "unsupported_host"


def test_a_known_error_of_another_process_does_not_replace_the_first() -> None:
    lines = error_log("Worker_TP1", 2, TRACE, FRAME, "IndexError: first") + error_log(
        "Worker_TP0",
        1,
        TRACE,
        FRAME,
        "KeyError: 1",
        "",
        "During handling of the above exception, x",
        TRACE,
        FRAME,
        "MemoryError",
    )
    found = find_cause(lines)
    assert found is not None
    assert found.line == "IndexError: first"


def test_an_error_without_words_is_given_its_place() -> None:
    found = find_cause(error_log("Worker_TP0", 1, TRACE, FRAME, "AssertionError"))
    assert found is not None
    assert found.line == "AssertionError (gpu_worker.py:7 in load_model)"


def test_a_message_on_the_next_line_is_read() -> None:
    lines = error_log("EngineCore", 1, TRACE, FRAME, "RuntimeError: ", "shape mismatch", "more")
    found = find_cause(lines)
    assert found is not None
    assert found.line == "RuntimeError: shape mismatch"


@pytest.mark.parametrize(
    "prefix", ["", "E   ", "E       "], ids=["plain", "quoted by pytest", "quoted deeper"]
)
def test_pydantics_form_is_read(prefix: str) -> None:
    lines = log(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        "  Assertion failed, Chunked prefill is required for mamba cache mode 'align'. [type=assertion_error, x=1]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/assertion_error",
        prefix=prefix,
    )
    found = find_cause(lines if prefix else [TRACE, FRAME, *lines])
    assert found is not None
    assert (found.kind, found.line) == (
        "refused",
        "Chunked prefill is required for mamba cache mode 'align'.",
    )


def test_pydantics_field_is_named() -> None:
    lines = [
        TRACE,
        FRAME,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "max_model_len",
        "  Input should be a valid integer [type=int_type, input_value='x', input_type=str]",
    ]
    found = find_cause(lines)
    assert found is not None
    assert (found.kind, found.line) == ("refused", "max_model_len: Input should be a valid integer")


def test_an_allow_list_inside_a_validation_error_is_unsupported_and_not_refused() -> None:
    lines = [
        TRACE,
        FRAME,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        "  Value error, experts_int8 quantization is currently not supported in rocm. [type=value_error, input_value=x]",
    ]
    found = find_cause(lines)
    assert found is not None
    assert (found.kind, found.line) == (
        "unsupported_product",
        "experts_int8 quantization is currently not supported in rocm.",
    )


def test_a_log_that_ends_within_an_error_counts_as_it_stands() -> None:
    found = find_cause([TRACE, FRAME, "x.ValidationError: 1 validation error for VllmConfig"])
    assert found is not None
    assert found.kind == "refused"


def test_colours_and_progress_bars_do_not_hide_an_error() -> None:
    bar = "Processed prompts:   0%|  | 0/2 [00:00<?]\rProcessed prompts:  50%|  |"
    coloured = (
        "\x1b[0;36m(Worker_TP1 pid=7)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m11-30 12:40:38\x1b[0m [x.py:1] "
    )
    found = find_cause([bar + coloured + TRACE, coloured + FRAME, coloured + "ZeroDivisionError: 0\r\n"])
    assert found is not None
    assert (found.line, found.rank) == ("ZeroDivisionError: 0", 1)
