"""Kernel backends of expert layers as data: what the axis ``moe_backend`` asks an engine for, and how an engine says it.

Sources, vLLM 0.26 and 0.32: the argument ``moe_backend`` (``vllm/config/kernel.py``: MoEBackend), its meaning for each
kind of weights and the names of what was chosen (``fused_moe/oracle/*.py``), where a kernel can run (``fused_moe/
experts/*.py``: ``_supports_current_device``). vLLM has no value for its CPU kernels: there it has no choice to make.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

AUTO = "auto"
"""The engine's own choice: nothing is passed and nothing is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One value: what the engine is passed, and in which environment.

    ``platforms`` are those where it can ever run, ``why`` is the reason on the others. ``reported`` is a pattern for the
    engine's words, in small letters.
    """

    engine_args: Mapping[str, str] = field(default_factory=dict)
    platforms: tuple[str, ...] = ()
    why: str = ""
    reported: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


BACKENDS: Mapping[str, Backend] = {
    "triton": Backend(
        engine_args={"moe_backend": "triton"},
        platforms=("cuda", "rocm"),
        why="Triton's kernels need a GPU",
        reported=r"(batched_)?triton(_mxfp8)?",
    ),
    "aiter": Backend(
        engine_args={"moe_backend": "aiter"},
        platforms=("rocm",),
        why="AITER is AMD's library for its GPUs",
        reported=r"(rocm )?aiter(_.+)?",
        env={"VLLM_ROCM_USE_AITER": "1"},
    ),
    "marlin": Backend(
        engine_args={"moe_backend": "marlin"},
        platforms=("cuda",),
        why="Marlin's kernels are written for NVIDIA's GPUs",
        reported=r"(batched_)?marlin",
    ),
    "cutlass": Backend(
        engine_args={"moe_backend": "cutlass"},
        platforms=("cuda",),
        why="CUTLASS is NVIDIA's library for its GPUs",
        reported=r"(batched_)?(vllm_)?cutlass(_.+)?",
    ),
    "flashinfer": Backend(
        engine_args={"moe_backend": "flashinfer_cutlass"},
        platforms=("cuda",),
        why="FlashInfer's kernels are written for NVIDIA's GPUs",
        reported=r"flashinfer[ _].+",
    ),
    "cpu": Backend(
        platforms=("cpu",),
        why="the engine's CPU kernels run on a CPU alone",
        reported=r"(zen_)?cpu(_.+)?",
    ),
}
"""FlashInfer has several backends: the one in the table runs from capability 9.0 on, and the axis may name another."""


def asked(value: str) -> Backend | None:
    """What a value of the axis stands for; None for :data:`AUTO`. A word that is not in the table is the engine's own."""
    if value == AUTO:
        return None
    known = BACKENDS.get(value)
    return known or Backend(engine_args={"moe_backend": value})


def can_run(value: str, platform: str) -> bool:
    """Whether a platform can ever use a value; of a word that is not in the table nothing is known."""
    known = BACKENDS.get(value)
    return known is None or platform in known.platforms


def pattern(wanted: str) -> str:
    """What matches an engine's words for ``wanted``, in small letters: those of the value, or else the same letters.

    Engines write ``FLASHINFER_TRTLLM``, ``FlashInfer TRTLLM`` and ``FLASHINFER_TRTLLM_MXFP4_BF16`` for one value.
    """
    between = "[^a-z0-9]*"
    letters = between.join(re.sub(r"[^a-z0-9]", "", wanted.casefold()))
    same = f"(batched{between})?{letters}({between}mxfp[48].*)?"
    known = BACKENDS.get(wanted)
    return f"{known.reported}|{same}" if known else same


def is_backend(reported: str, wanted: str) -> bool:
    """Whether an engine's word for what ran is what was asked for."""
    return re.fullmatch(pattern(wanted), reported.casefold()) is not None
