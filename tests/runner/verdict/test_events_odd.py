"""Evidence whose every part is, in turn, what no cell should write: it is read, recorded and read again all the same."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

from runner import codec
from runner.facts import Evidence
from runner.verdict import read_evidence, read_progress

ODD: tuple[Any, ...] = (
    10**400,
    -(10**5000),
    2**70,
    math.nan,
    math.inf,
    True,
    "\ud800",
    ["\udc00"],
    {"\ud800": []},
    [[[]]],
    {"cores": [True]},
)
FULL: tuple[dict[str, Any], ...] = (
    {"event": "start", "sees": {"cores": [0], "cpuset": [0], "files": [], "drivers": {"cuda": ["x"]}, "problems": ["p"]}},
    {"event": "phase", "phase": "load", "state": "end", "seconds": 1.0},
    {"event": "engine", "name": "vllm", "version": "0.32.0", "commit": "abc", "platform": "CpuPlatform",
     "device_type": "cpu", "dtype": "torch.bfloat16", "tp": 1, "quantization": "experts_int8"},
    {"event": "rank", "rank": 0, "world_size": 1, "device": "cpu", "visible_devices": 0, "linear_schemes": ["A"],
     "layers": [{"moe_method": "M", "backend": "CPU", "expert_weight_dtype": "torch.int8"}]},
    {"event": "agreement", "tokens_equal": True, "max_abs_diff": 0.1, "bound": 1.0},
    {"event": "control", "of": "m", "bound": 0.1, "mean_bound": 0.1, "control_bound": 0.1, "control_mean_bound": 0.1,
     "top": [[[1, -0.1]]]},
    {"event": "shutdown", "children_left": 0},
)  # fmt: skip


def odd(value: Any) -> Iterator[Any]:
    """A value with each part of it, in turn, of another type."""
    yield from ODD
    if isinstance(value, dict):
        yield from ({**value, key: other} for key, part in value.items() for other in odd(part))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in odd(part))


def test_whatever_a_cell_writes_can_be_recorded_and_read_again() -> None:
    """A record that cannot be written loses the run; one that cannot be read loses its folder."""
    sys_limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        written = [
            json.dumps({"t": 1.0, **one}) for event in FULL for one in odd(event) if isinstance(one, dict)
        ]
    finally:
        sys.set_int_max_str_digits(sys_limit)
    assert len(written) > 300
    for line in written:
        codec.loads(codec.dumps(read_evidence([line])), Evidence)
        codec.dumps(read_progress([line]))


def test_a_difference_that_no_float_holds_is_the_worst() -> None:
    seen = read_evidence([f'{{"event": "agreement", "max_abs_diff": 1{"0" * 400}, "bound": 1}}'])
    assert seen.max_abs_logprob_diff == math.inf


def test_a_bound_of_zero_is_a_bound() -> None:
    zero = {**FULL[5], "bound": 0, "control_mean_bound": 0.0}
    seen = read_evidence([json.dumps(zero)])
    assert (seen.control is not None, seen.bad_lines) == (True, 0)
