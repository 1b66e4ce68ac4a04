"""The words of engines for their kernel backends: which of them are what was asked for."""

import pytest

from runner.backends import BACKENDS, asked, can_run, is_backend

REPORTED = {
    "triton": ("TRITON", "BATCHED_TRITON", "TRITON_MXFP8"),
    "aiter": ("ROCm AITER", "AITER", "AITER_MXFP4_BF16", "AITER_MXFP8"),
    "marlin": ("MARLIN", "BATCHED_MARLIN"),
    "cutlass": ("VLLM_CUTLASS", "BATCHED_VLLM_CUTLASS", "CUTLASS", "CUTLASS_MXFP4_MXFP4"),
    "flashinfer": (
        "FlashInfer CUTLASS",
        "FlashInfer TRTLLM",
        "FLASHINFER_TRTLLM",
        "FLASHINFER_CUTLASS_MXFP4_MXFP8",
        "FLASHINFER_CUTEDSL",
    ),
    "cpu": ("CPU", "ZEN_CPU", "CPU_W8A8", "CPU_INT4"),
}
"""Values of the enums in vLLM 0.32, fused_moe/oracle/*.py, by the value of the axis that they answer."""

OWN_WORDS = [
    ("humming", "HUMMING"),
    ("deep_gemm", "DEEPGEMM"),
    ("deep_gemm", "BATCHED_DEEPGEMM"),
    ("deep_gemm", "DEEPGEMM_MXFP4"),
    ("flashinfer_trtllm", "FlashInfer TRTLLM"),
    ("flashinfer_trtllm", "FLASHINFER_TRTLLM_MXFP4_BF16"),
    ("triton_unfused", "TRITON_UNFUSED"),
    ("CPU", "CPU"),
]


@pytest.mark.parametrize("value", REPORTED)
def test_a_value_is_answered_by_its_own_words_and_by_no_others(value: str) -> None:
    for other, words in REPORTED.items():
        assert [is_backend(word, value) for word in words] == [other == value] * len(words)


@pytest.mark.parametrize(("value", "word"), OWN_WORDS)
def test_a_word_of_the_engine_is_answered_by_the_same_letters(value: str, word: str) -> None:
    assert is_backend(word, value)
    assert not is_backend("TRITON", value)
    assert not is_backend("", value)


def test_a_word_that_begins_alike_is_another() -> None:
    assert not is_backend("TRITON_UNFUSED", "triton")
    assert not is_backend("FLASHINFER_CUTLASS", "cutlass")
    assert not is_backend("ZEN_CPU", "CPU")
    assert not is_backend("FLASHINFER_CUTLASS", "flashinfer_trtllm")


def test_which_platform_can_ever_run_what() -> None:
    can = {value: [name for name in ("cuda", "rocm", "cpu") if can_run(value, name)] for value in BACKENDS}
    assert can == {
        "triton": ["cuda", "rocm"],
        "aiter": ["rocm"],
        "marlin": ["cuda"],
        "cutlass": ["cuda"],
        "flashinfer": ["cuda"],
        "cpu": ["cpu"],
    }
    assert can_run("humming", "cpu")  # of an engine's own word nothing is known


def test_auto_asks_for_nothing_and_an_engines_own_word_is_passed_on() -> None:
    assert asked("auto") is None
    own = asked("humming")
    assert own is not None
    assert own.engine_args == {"moe_backend": "humming"}
