"""Faults planted in the weights of a live engine, rank by rank, and taken back. Runs inside the workers.

A weight is replaced by a new tensor and not written in place: ZenDNN (zentorch 2.13.0.1) keeps a packed copy under the
weight's address, so that a change in place has no effect at all, which was measured. For the same reason a planted tensor
is never freed: a later one at its address would meet the packed copy of the earlier. Scales are read at every call and
are changed in place, wherever the kernel keeps them. Weights are treated as blocks of numbers, so kernels that store their
own layout are served as well; between ranks weights travel through the engine's own process group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import checks

BETWEEN_RANKS = ("swap_w2_shards", "same_shard")
LIVE: dict[str, str] = {
    "corrupt_expert": "the weights of one expert shuffled",
    "drop_scale": "one expert's w2 scales set to 1 (without scales: its w2 halved)",
    "double_scale": "one expert's w2 scales doubled (without scales: its w2 doubled)",
    "swap_experts": "two experts change places",
    "transpose_w2": "w2 of every expert transposed",
    "swap_gate_up": "gate and up projection of every expert change places",
    "zero_experts": "every expert zero",
    "zero_router": "the router's word for every expert the same",
    "rotate_router": "the router chooses each expert's neighbour",
    "swap_w2_shards": "the ranks have each other's part of w2",
    "same_shard": "every rank has the first rank's part",
}
"""Names for `plant_in`, and what each does; those of BETWEEN_RANKS need two ranks or more."""

_undo: list[Callable[[], None]] = []
_alive: list[Any] = []


def plant_in(fault: str, layer: int, model: Any, expert: int = 2) -> int:
    """Plants `fault` (one of LIVE) and returns how many tensors of this rank it changed.

    `layer` counts mixture layers. Raises ValueError for another name, RuntimeError where one is planted already.
    """
    if _undo:
        msg = "a fault is planted already: restore first"
        raise RuntimeError(msg)
    if fault not in _PLANTERS:
        msg = f"unknown live fault {fault!r}; known: {', '.join(LIVE)}"
        raise ValueError(msg)
    name, owner, experts = list(checks.expert_layers(model))[layer]
    _PLANTERS[fault](Place(model, name, owner, experts, expert))
    return len(_undo)


class Place(NamedTuple):
    """Where a fault goes: the model, a mixture layer's name, its owner of the method, the holder of its weights, an expert."""

    model: Any
    name: str
    owner: Any
    experts: Any
    expert: int


def _corrupt(at: Place) -> None:
    for part in ("w13", "w2"):
        _change_expert(at, part, _shuffled)


def _scales(at: Place, new: Callable[[Any], Any], instead: Callable[[Any], Any]) -> None:
    scales = _w2_scales(checks.method_of(at.owner), at.experts)
    for scale in scales:
        _set_in_place(scale[at.expert], new)
    if not scales:
        _change_expert(at, "w2", instead)


def _swap_experts(at: Place) -> None:
    other = (at.expert + 1) % checks.weight_of(at.experts, "w13").shape[0]
    for part in ("w13", "w2"):
        content = checks.weight_of(at.experts, part).data.clone()
        content[[at.expert, other]] = content[[other, at.expert]]
        _replace(at.experts, part, content)


def _every_expert(part: str, change: Callable[[Any], Any]) -> Callable[[Place], None]:
    return lambda at: _replace(at.experts, part, change(checks.weight_of(at.experts, part).data))


def _zero(at: Place) -> None:
    for part in ("w13", "w2"):
        _every_expert(part, lambda weight: weight * 0)(at)


def _router(change: Callable[[Any], Any]) -> Callable[[Place], None]:
    """Changes what the router says: its weight has no effect once a CPU engine has packed it into the layer's own call."""

    def hook(_module: Any, _given: Any, out: Any) -> Any:
        return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

    def plant(at: Place) -> None:
        modules = dict(at.model.named_modules())
        base = at.name.partition(".experts")[0]
        module = modules.get(f"{base}.gate") or modules[f"{base}.router"]
        _undo.append(module.register_forward_hook(hook).remove)

    return plant


def _swap_shards(at: Place) -> None:
    _replace(at.experts, "w2", _from_rank(checks.weight_of(at.experts, "w2").data, _mirror()))


def _same_shard(at: Place) -> None:
    for part in ("w13", "w2"):
        _replace(at.experts, part, _from_rank(checks.weight_of(at.experts, part).data, 0))


_PLANTERS: dict[str, Callable[[Place], None]] = {
    "corrupt_expert": _corrupt,
    "drop_scale": lambda at: _scales(at, lambda scale: scale * 0 + 1, lambda weight: weight * 0.5),
    "double_scale": lambda at: _scales(at, lambda scale: scale * 2, lambda weight: weight * 2),
    "swap_experts": _swap_experts,
    "transpose_w2": _every_expert("w2", lambda w: w.transpose(1, 2).reshape(w.shape)),
    "swap_gate_up": _every_expert("w13", lambda w: w.roll(w.shape[1] // 2, dims=1)),
    "zero_experts": _zero,
    "zero_router": _router(lambda logits: logits * 0),
    "rotate_router": _router(lambda logits: logits.roll(1, dims=-1)),
    "swap_w2_shards": _swap_shards,
    "same_shard": _same_shard,
}


def widen_experts(model: Any) -> int:
    """Gives every expert layer bfloat16 weights without running it: what a silent dequantization would look like."""
    import torch

    for _, _, experts in checks.expert_layers(model):
        for part in ("w13", "w2"):
            _replace(experts, part, checks.weight_of(experts, part).data.to(torch.bfloat16))
    return len(_undo)


def restore(model: Any) -> int:
    """Takes everything back; returns how many tensors of this rank were restored."""
    count = len(_undo)
    while _undo:
        _undo.pop()()
    return count


def _replace(experts: Any, part: str, content: Any) -> None:
    weight = checks.weight_of(experts, part)
    _replace_attribute(experts, next(n for n, p in experts.named_parameters() if p is weight), content)


def _replace_attribute(module: Any, name: str, content: Any) -> None:
    import torch

    sound = getattr(module, name)
    planted = torch.nn.Parameter(content.clone(), requires_grad=False)
    _alive.append(planted)
    _undo.append(lambda: setattr(module, name, sound))
    setattr(module, name, planted)


def _change_expert(at: Place, part: str, change: Callable[[Any], Any]) -> None:
    content = checks.weight_of(at.experts, part).data.clone()
    content[at.expert] = change(content[at.expert])
    _replace(at.experts, part, content)


def _set_in_place(scale: Any, new: Callable[[Any], Any]) -> None:
    sound = scale.clone()
    _undo.append(lambda: _copy(scale, sound))
    _copy(scale, new(sound))


def _copy(target: Any, content: Any) -> None:
    target.copy_(content)


def _shuffled(weight: Any) -> Any:
    import torch

    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(97))
    return weight.flatten()[order.to(weight.device)].view_as(weight)


def _w2_scales(method: Any, experts: Any) -> list[Any]:
    """Every tensor that holds w2's scales, each storage once: parameters, and copies that the kernel made."""
    kernel = getattr(getattr(method, "moe_kernel", None), "fused_experts", None)
    config = getattr(method, "moe_quant_config", None)
    candidates = [
        p.data for name, p in experts.named_parameters(recurse=False) if "w2" in name and "scale" in name
    ]
    candidates += [v for k, v in vars(kernel).items() if "w2_scale" in k] if kernel is not None else []
    candidates.append(getattr(config, "w2_scale", None))
    found: dict[int, Any] = {}
    for tensor in candidates:
        if hasattr(tensor, "data_ptr") and tensor.numel() > 1:
            found.setdefault(tensor.data_ptr(), tensor)
    return list(found.values())


def _mirror() -> int:
    import torch.distributed as dist

    return dist.get_world_size() - 1 - dist.get_rank()


def _from_rank(weight: Any, source: int) -> Any:
    import torch
    import torch.distributed as dist

    parts = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, weight.contiguous())
    return parts[source]
