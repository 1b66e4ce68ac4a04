"""The mutation table: each planted fault with the check that catches it, where no engine is needed to plant it.

`test_live_faults.py` plants more in a running engine, in both mixture layers, and `test_faults.py` in stored checkpoints of
every kind. docs/mutations.md lists all of them. None may pass: a fault that a check no longer sees fails here.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import agreement
import cell as cells
import pytest
from agreement import Bound
from answers import differences as answer_differences
from answers import problems as answer_problems
from cell import Cell
from expectations import rank_problems
from oracle import Answer, Reference

NEW = 6
BOUND = Bound(0.5, 0.09)


def sound_answers() -> list[Answer]:
    """Eight different answers with a clear lead at every position."""
    out = []
    for prompt in range(8):
        tokens = tuple((prompt * 7 + i * 3) % 50 for i in range(NEW))
        out.append(Answer(tokens, tuple({t: -0.1, 99: -3.1, 98: -4.0} for t in tokens)))
    return out


def reference() -> Reference:
    """Whose answers are the sound ones."""
    made = tuple(sound_answers())
    return Reference("none", "", ("p",) * len(made), ((1,),) * len(made), made, NEW, 3)


Answers = list[Answer]


def shifted(answers: Answers, by: float) -> Answers:
    """Every log-probability moved."""
    return [Answer(a.tokens, tuple({t: p + by for t, p in top.items()} for top in a.top)) for a in answers]


def constant(answers: Answers) -> Answers:
    """One token all along."""
    return [
        dataclasses.replace(a, tokens=(7,) * NEW, top=({7: -0.1, 99: -3.1, 98: -4.0},) * NEW) for a in answers
    ]


def one_wrong_token(answers: Answers) -> Answers:
    """Prompt 3 chooses the second best at position 2, against a lead of three nats."""
    a = answers[3]
    return [*answers[:3], dataclasses.replace(a, tokens=(*a.tokens[:2], 99, *a.tokens[3:])), *answers[4:]]


def nan(answers: Answers) -> Answers:
    """Logits that are not numbers."""
    return [Answer(a.tokens, tuple(dict.fromkeys(top, math.nan) for top in a.top)) for a in answers]


ANSWER_FAULTS: dict[str, Callable[[Answers], Answers]] = {
    "empty output": lambda a: [Answer((), ()) for _ in a],
    "one answer missing": lambda a: a[:-1],
    "no answers": lambda a: [],
    "answers cut short": lambda a: [Answer(x.tokens[:-1], x.top[:-1]) for x in a],
    "a token repeated": constant,
    "the same answer to every prompt": lambda a: [a[0]] * len(a),
    "two prompts swapped": lambda a: [a[1], a[0], *a[2:]],
    "one wrong token": one_wrong_token,
    "log-probabilities off by 0.1 everywhere": lambda a: shifted(a, -0.1),
    "one position off by 0.6": lambda a: [*shifted(a[:1], -0.6), *a[1:]],
    "not a number": nan,
    "log-probabilities missing": lambda a: [Answer(x.tokens, ()) for x in a],
}


def test_sound_answers_pass() -> None:
    """Both checks are silent."""
    assert agreement.compare(reference(), sound_answers(), BOUND).agrees
    assert not answer_problems(sound_answers(), NEW)


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_wrong_answers_do_not_pass(fault: str) -> None:
    """Caught by the comparison with the reference."""
    assert not agreement.compare(reference(), ANSWER_FAULTS[fault](sound_answers()), BOUND).agrees


SEEN_WITHOUT_REFERENCE = (
    "empty output",
    "answers cut short",
    "a token repeated",
    "the same answer to every prompt",
    "not a number",
)


@pytest.mark.parametrize("fault", SEEN_WITHOUT_REFERENCE)
def test_nothing_as_output_is_seen_without_a_reference(fault: str) -> None:
    """Caught by the look at the answers alone, which a model without a reference has as well."""
    assert answer_problems(ANSWER_FAULTS[fault](sound_answers()), NEW)


def test_a_second_run_that_differs_is_seen() -> None:
    """Two greedy runs are compared token by token."""
    first, second = sound_answers(), one_wrong_token(sound_answers())
    assert answer_differences(first, sound_answers()) == []
    assert answer_differences(first, second) == [f"prompt 3: token 2 is (99,), was {first[3].tokens[2:3]}"]
    assert answer_differences(first, second[:-1])[0] == "8 answers, then 7"
    assert answer_differences(first, second, lead=2.9) != []
    assert answer_differences(first, second, lead=3.1) == []
    assert answer_differences(first, constant(first), lead=3.1) != []
    assert answer_differences(first, ANSWER_FAULTS["answers cut short"](first), lead=99.0) != []
    assert answer_differences(first, ANSWER_FAULTS["answers cut short"](first)) != []


LAYER = {
    "moe_method": "QuarkW8A8Int8MoEMethod",
    "experts_class": "ZenCPUExpertsInt8",
    "backend": "CPU",
    "expert_weight_dtype": "int8",
    "w2_dtype": "int8",
    "w13_shape": [4, 256, 256],
    "w2_shape": [4, 256, 128],
    "w13_bytes": 4 * 256 * 256,
    "w2_bytes": 4 * 256 * 128,
}
Ranks = list[dict[str, Any]]


def sound_ranks() -> Ranks:
    """Two ranks of a Quark int8 cell with two mixture layers."""
    layers = [{"name": f"model.layers.{i}.mlp.experts", **copy.deepcopy(LAYER)} for i in range(2)]
    return [
        {
            "rank": n,
            "world_size": 2,
            "pid": 100 + n,
            "device": "cpu",
            "dtype": "bfloat16",
            "layers": copy.deepcopy(layers),
            "linear_schemes": {"QuarkW8A8Int8": 4},
            "visible_devices": 0,
        }
        for n in range(2)
    ]


def layer(rank: int, number: int, **change: Any) -> Callable[[Ranks], Ranks]:
    """One layer of one rank changed."""

    def plant(ranks: Ranks) -> Ranks:
        ranks[rank]["layers"][number].update(change)
        return ranks

    return plant


def whole(rank: int, **change: Any) -> Callable[[Ranks], Ranks]:
    """One rank changed."""

    def plant(ranks: Ranks) -> Ranks:
        ranks[rank].update(change)
        return ranks

    return plant


def unquantized_everywhere(ranks: Ranks) -> Ranks:
    """What the engine shows where the argument `quantization` got lost."""
    for rank in ranks:
        for each in rank["layers"]:
            each.update(
                moe_method="UnquantizedFusedMoEMethod", expert_weight_dtype="bfloat16", w2_dtype="bfloat16"
            )
    return ranks


def tp_one(ranks: Ranks) -> Ranks:
    """What the engine shows where tensor parallelism got lost."""
    return [{**ranks[0], "world_size": 1}]


RANK_FAULTS: dict[str, tuple[Callable[[Ranks], Ranks], str]] = {
    "experts unquantized everywhere": (unquantized_everywhere, "fell back"),
    "experts unquantized on one rank": (layer(1, 0, moe_method="UnquantizedFusedMoEMethod"), "fell back"),
    "another method in one layer": (layer(0, 1, moe_method="Int8OnlineMoEMethod"), "Int8OnlineMoEMethod"),
    "w13 in bfloat16": (layer(0, 0, expert_weight_dtype="bfloat16"), "expert_weight_dtype"),
    "w2 in bfloat16": (layer(1, 1, w2_dtype="bfloat16"), "w2_dtype"),
    "w13 not sharded": (layer(1, 0, w13_shape=[4, 512, 256]), "w13_shape"),
    "w2 not sharded": (layer(0, 0, w2_shape=[4, 256, 256]), "w2_shape"),
    "w2 transposed": (layer(1, 0, w2_shape=[4, 128, 256]), "w2_shape"),
    "an expert missing": (layer(0, 0, w13_shape=[3, 256, 256]), "w13_shape"),
    "another kernel backend": (layer(1, 0, backend="OTHER", experts_class="Other"), "backend"),
    "a layer missing": (lambda r: [r[0], {**r[1], "layers": r[1]["layers"][:1]}], "1 expert layers"),
    "no layers": (whole(0, layers=[]), "0 expert layers"),
    "linear layers unquantized": (whole(1, linear_schemes={"UnquantizedLinearMethod": 4}), "QuarkW8A8Int8"),
    "another dtype": (whole(0, dtype="float16"), "dtype float16"),
    "a rank missing": (lambda r: r[:1], "for tp 2"),
    "one rank alone": (tp_one, "for tp 2"),
    "a rank twice": (lambda r: [r[0], r[0]], "for tp 2"),
    "both ranks one process": (whole(1, pid=100), "one process"),
}


@pytest.fixture
def quark_cell(tmp_path: Path) -> Cell:
    """Quark int8 at tp 2 on a model of the recipes' size."""
    config = {"num_experts": 4, "moe_intermediate_size": 256, "hidden_size": 256, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    raw = {
        "schema": 1,
        "id": "x",
        "axes": {"platform": "cpu", "dtype": "bfloat16", "tp": "2", "quantization": "quark_int8"},
        "out": str(tmp_path),
        "model": {"name": "m", "path": str(tmp_path), "traits": []},
        "engine_args": {},
        "expect": {
            "moe_method": "QuarkW8A8Int8MoEMethod",
            "linear_scheme": "QuarkW8A8Int8",
            "expert_weight_dtype": "int8",
            "moe_backend": "CPU",
        },
    }
    return cells.parse(raw)


def test_sound_ranks_pass(quark_cell: Cell) -> None:
    """Nothing is said of them."""
    assert rank_problems(quark_cell, sound_ranks()) == []


@pytest.mark.parametrize(
    ("asked", "pattern", "sound"),
    [("cpu", "(zen_)?cpu(_.+)?", True), ("cpu", None, False), ("humming", "(batched)?humming", False)],
)
def test_the_backend_that_was_asked_for_is_known_by_its_pattern(
    quark_cell: Cell, asked: str, pattern: str | None, sound: bool
) -> None:
    """The engine says CPU; what matches that is the runner's table, not this suite's."""
    expect = replace(quark_cell.expect, moe_backend=asked, moe_backend_pattern=pattern)
    problems = rank_problems(replace(quark_cell, expect=expect), sound_ranks())
    assert (problems == []) is sound
    assert all(f"{asked} wanted" in text for text in problems)


@pytest.mark.parametrize("fault", RANK_FAULTS)
def test_wrong_ranks_do_not_pass(fault: str, quark_cell: Cell) -> None:
    """Caught by what every rank says of itself, in words that name it."""
    plant, words = RANK_FAULTS[fault]
    problems = rank_problems(quark_cell, plant(sound_ranks()))
    assert any(words in text for text in problems), problems


def test_the_page_lists_every_planted_fault() -> None:
    """At least 25, each once, and the page says what the code does; in a cell there is no page."""
    from selftest import mutation_page

    rows = list(mutation_page.rows())
    assert len(rows) == len({(r.where, r.fault) for r in rows})
    assert len(rows) >= 25
    if mutation_page.PAGE.is_file():
        assert mutation_page.PAGE.read_text(encoding="utf-8") == mutation_page.page()
