"""Sizes shared by the recipes, and why they are what they are.

Every size divides up to tensor parallel 8: 8 heads and 8 key-value heads, 256 wide experts (32 a rank, the least an int8
CPU kernel takes: vllm/model_executor/layers/fused_moe/experts/cpu_moe.py, vLLM 0.32.0), head_dim 32 (16 is refused by
the CPU attention kernel), positions above the 1,024 tokens upstream's test runner asks for.
"""

from __future__ import annotations

HIDDEN = 256
HEADS = 8
KV_HEADS = 8
HEAD_DIM = 32
EXPERTS = 4
TOP_K = 2
EXPERT_WIDTH = 256
POSITIONS = 2048
VOCAB = 259
PAD, BOS, EOS = 256, 257, 258
