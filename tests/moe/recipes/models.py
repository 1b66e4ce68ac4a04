"""The checkpoints themselves: configuration and tensors of the tiny Qwen3-MoE, Qwen2-MoE and Jamba."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import torch

from recipes import weights as w
from recipes.shape import (
    BOS,
    EOS,
    EXPERT_WIDTH,
    EXPERTS,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    PAD,
    POSITIONS,
    TOP_K,
    VOCAB,
)


@dataclass(frozen=True)
class Ask:
    """What the reference is asked: `prompts` prompts, `new_tokens` tokens each."""

    prompts: int = 8
    new_tokens: int = 10


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds: the transformers class, its configuration, tensors, and where the experts are."""

    architecture: str
    config: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    expert_prefixes: tuple[str, ...]
    """`model.layers.N.mlp.experts` of every mixture layer, in layer order."""
    routers: tuple[str, ...]
    quantized: bool = False
    format: str = ""
    """A name of `formats.FORMATS`, or empty for bfloat16."""
    activations: str | None = None
    """How an engine rounds the inputs of quantized layers: a name of `rounding.ACTIVATIONS`, or None."""
    meant: dict[str, torch.Tensor] = field(default_factory=dict)
    """Float32 matrices that quantized tensors stand for, by the name of the bfloat16 weight they replace."""
    ask: Ask = Ask()

    def values(self) -> dict[str, torch.Tensor]:
        """Every weight of the model in float32, as a sound engine understands the stored tensors."""
        if not self.format:
            return {name: tensor.to(torch.float32) for name, tensor in self.tensors.items()}
        kept = {n: t.to(torch.float32) for n, t in self.tensors.items() if t.dtype == torch.bfloat16}
        packed = {m.removesuffix(".weight") for m in self.meant}
        other = {n: t for n, t in kept.items() if n.rpartition(".")[0] not in packed or n.endswith(".bias")}
        return other | self.meant


def qwen3moe(seed: int = 20260805, experts: int = EXPERTS) -> Checkpoint:
    """Two layers, both mixtures. Names as in transformers' Qwen3MoeForCausalLM checkpoints (5.19)."""
    source = w.Source(seed, experts)
    tensors = {"model.embed_tokens.weight": w.embedding(source)}
    layers = 2
    for i in range(layers):
        base = f"model.layers.{i}"
        tensors.update(w.attention(source, f"{base}.self_attn"))
        tensors[f"{base}.self_attn.q_norm.weight"] = w.norm(HEAD_DIM)
        tensors[f"{base}.self_attn.k_norm.weight"] = w.norm(HEAD_DIM)
        tensors[f"{base}.input_layernorm.weight"] = w.norm()
        tensors[f"{base}.post_attention_layernorm.weight"] = w.norm()
        tensors[f"{base}.mlp.gate.weight"] = w.router(source, i, gain=0.8 + 0.4 * i)
        tensors.update(w.experts(source, f"{base}.mlp.experts", out_std=0.1))
    tensors["model.norm.weight"] = w.norm()
    tensors["lm_head.weight"] = w.output_layer(source, std=0.2)
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_hidden_layers": layers,
        "head_dim": HEAD_DIM,
        "intermediate_size": EXPERT_WIDTH,
        "moe_intermediate_size": EXPERT_WIDTH,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "rope_theta": 10000.0,
        **_common_config(experts),
    }
    return Checkpoint(
        architecture="Qwen3MoeForCausalLM",
        config=config,
        tensors=tensors,
        expert_prefixes=tuple(f"model.layers.{i}.mlp.experts" for i in range(layers)),
        routers=tuple(f"model.layers.{i}.mlp.gate" for i in range(layers)),
    )


def qwen3moe16(seed: int = 20261201) -> Checkpoint:
    """Qwen3-MoE with 16 experts, for engines that quantize the router too.

    Those need its width to be a multiple of 16 (vLLM 0.26.0: online fp8, `cutlass_scaled_mm` in `_custom_ops.py`). Each expert
    has an eighth of the tokens, hence more and shorter answers: what the last layer does to a token is seen only in the answer.
    """
    return dataclasses.replace(qwen3moe(seed, experts=16), ask=Ask(prompts=40, new_tokens=5))


def qwen2moe(seed: int = 20261130) -> Checkpoint:
    """Two layers, both mixtures with a shared expert behind a gate. Names as in transformers' Qwen2MoeForCausalLM (5.19)."""
    source = w.Source(seed)
    tensors = {"model.embed_tokens.weight": w.embedding(source)}
    layers = 2
    for i in range(layers):
        base = f"model.layers.{i}"
        tensors.update(w.attention(source, f"{base}.self_attn"))
        for part in ("q_proj", "k_proj", "v_proj"):
            tensors[f"{base}.self_attn.{part}.bias"] = source.normal(HEADS * HEAD_DIM, std=0.1)
        tensors[f"{base}.input_layernorm.weight"] = w.norm()
        tensors[f"{base}.post_attention_layernorm.weight"] = w.norm()
        tensors[f"{base}.mlp.gate.weight"] = w.router(source, i, gain=0.8 + 0.4 * i)
        tensors.update(w.experts(source, f"{base}.mlp.experts", out_std=0.1))
        tensors.update(w.mlp(source, f"{base}.mlp.shared_expert", out_std=0.06))
        tensors[f"{base}.mlp.shared_expert_gate.weight"] = source.normal(1, HIDDEN, std=0.1)
    tensors["model.norm.weight"] = w.norm()
    tensors["lm_head.weight"] = w.output_layer(source, std=0.2)
    config = {
        "architectures": ["Qwen2MoeForCausalLM"],
        "model_type": "qwen2_moe",
        "num_hidden_layers": layers,
        "intermediate_size": EXPERT_WIDTH,
        "moe_intermediate_size": EXPERT_WIDTH,
        "shared_expert_intermediate_size": EXPERT_WIDTH,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "rope_theta": 10000.0,
        "use_sliding_window": False,
        **_common_config(),
    }
    return Checkpoint(
        architecture="Qwen2MoeForCausalLM",
        config=config,
        tensors=tensors,
        expert_prefixes=tuple(f"model.layers.{i}.mlp.experts" for i in range(layers)),
        routers=tuple(f"model.layers.{i}.mlp.gate" for i in range(layers)),
    )


def jamba(seed: int = 20260902) -> Checkpoint:
    """Four layers: mamba, mamba + experts, attention, mamba + experts. Names as in transformers' Jamba (5.19)."""
    source = w.Source(seed)
    tensors = {"model.embed_tokens.weight": w.embedding(source)}
    layers, period, offset = 4, 4, 2
    mixtures = [i for i in range(layers) if i % 2 == 1]
    for i in range(layers):
        base = f"model.layers.{i}"
        if i % period == offset:
            tensors.update(w.attention(source, f"{base}.self_attn"))
        else:
            tensors.update(_mamba(source, f"{base}.mamba"))
        tensors[f"{base}.input_layernorm.weight"] = w.norm()
        tensors[f"{base}.pre_ff_layernorm.weight"] = w.norm()
        if i in mixtures:
            mixture = mixtures.index(i)
            gain = 1.0 + 0.5 * mixture
            tensors[f"{base}.feed_forward.router.weight"] = w.router(source, mixture, gain)
            tensors.update(w.experts(source, f"{base}.feed_forward.experts", out_std=0.12))
        else:
            tensors.update(w.mlp(source, f"{base}.feed_forward", out_std=0.03))
    tensors["model.final_layernorm.weight"] = w.norm()
    tensors["lm_head.weight"] = w.output_layer(source, std=0.2)
    config = {
        "architectures": ["JambaForCausalLM"],
        "model_type": "jamba",
        "num_hidden_layers": layers,
        "intermediate_size": EXPERT_WIDTH,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "attn_layer_period": period,
        "attn_layer_offset": offset,
        "mamba_d_state": MAMBA_STATE,
        "mamba_d_conv": MAMBA_CONV,
        "mamba_expand": MAMBA_EXPAND,
        "mamba_dt_rank": MAMBA_DT_RANK,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
        "use_mamba_kernels": False,
        **_common_config(),
    }
    return Checkpoint(
        architecture="JambaForCausalLM",
        config=config,
        tensors=tensors,
        expert_prefixes=tuple(f"model.layers.{i}.feed_forward.experts" for i in mixtures),
        routers=tuple(f"model.layers.{i}.feed_forward.router" for i in mixtures),
    )


MAMBA_STATE, MAMBA_CONV, MAMBA_EXPAND, MAMBA_DT_RANK = 16, 4, 2, 16


def _mamba(source: w.Source, prefix: str) -> dict[str, torch.Tensor]:
    inner = MAMBA_EXPAND * HIDDEN
    spread = torch.linspace(math.log(0.002), math.log(0.2), inner).exp()
    states = torch.arange(1, MAMBA_STATE + 1, dtype=torch.float32).log().repeat(inner, 1)
    return {
        f"{prefix}.in_proj.weight": source.normal(2 * inner, HIDDEN, std=0.08),
        f"{prefix}.conv1d.weight": source.normal(inner, 1, MAMBA_CONV, std=0.5),
        f"{prefix}.conv1d.bias": source.normal(inner, std=0.1),
        f"{prefix}.x_proj.weight": source.normal(MAMBA_DT_RANK + 2 * MAMBA_STATE, inner, std=0.06),
        f"{prefix}.dt_proj.weight": source.normal(inner, MAMBA_DT_RANK, std=0.1),
        f"{prefix}.dt_proj.bias": spread.expm1().log().to(torch.bfloat16),
        f"{prefix}.A_log": states.to(torch.bfloat16),
        f"{prefix}.D": torch.ones(inner, dtype=torch.bfloat16),
        f"{prefix}.dt_layernorm.weight": w.norm(MAMBA_DT_RANK),
        f"{prefix}.b_layernorm.weight": w.norm(MAMBA_STATE),
        f"{prefix}.c_layernorm.weight": w.norm(MAMBA_STATE),
        f"{prefix}.out_proj.weight": w.quiet(source, source.normal(HIDDEN, inner, std=0.04)),
    }


def _common_config(experts: int = EXPERTS) -> dict[str, Any]:
    return {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "num_experts": experts,
        "num_experts_per_tok": TOP_K,
        "max_position_embeddings": POSITIONS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
