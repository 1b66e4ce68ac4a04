"""The layers of a cell's settings, derived values, limits, models and requirements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runner.model import (
    CellSettings,
    Expectation,
    HostFolder,
    Limits,
    Matrix,
    ModelRef,
    Proof,
    Requirement,
    Suite,
)

Load = Callable[..., Matrix]
Wrong = Callable[..., list[str]]

CHEAP = "version: 1\nsuite: {proof: tests}\n"


def settings(matrix: Matrix, **axes: str) -> CellSettings:
    return next(each.settings for each in matrix.cells if dict(each.cell.axes) == axes)


def test_the_smallest_file(load: Load) -> None:
    matrix = load("version: 1\nsuite: {proof: tests}\naxes: {platform: [cuda]}\n")
    (only,) = matrix.cells
    assert only.cell.id == "platform=cuda"
    assert only.settings == CellSettings(
        image="images/cuda", suite=Suite(path="tests/moe", proof=Proof.TESTS), limits=Limits(), devices=1
    )
    assert (matrix.infra_retries, matrix.remarks) == (1, ())


def test_later_layers_win_key_by_key(load: Load) -> None:
    matrix = load(
        CHEAP
        + """\
axes: {platform: [cpu, cuda], quantization: [none, int8], tp: [1, 2]}
engine_args: {a: 1, b: 1, c: 1, d: 1, e: 1}
env: {A: file, B: file, C: file}
limits: {start: 10m, idle: 90s, memory: 1g}
expect: {moe_method: File, linear_scheme: Linear}
platforms:
  cpu: {engine_args: {b: 2}, env: {B: platform}, limits: {memory: 2g, pids: 100}}
quantizations:
  none: {}
  int8: {engine_args: {c: 3}, expect: {moe_method: Int8}}
include:
  - {cell: {platform: cpu, quantization: int8, tp: 2}, engine_args: {d: 4, e: 4}, limits: {total: 1h30m}}
overrides:
  - {when: quantization=int8 and tp>1, engine_args: {e: 5}, limits: {prepare: 20m, stop_grace: 5s, shm: 64k, log: 3m}}
  - {when: platform=cpu and tp=2, engine_args: {e: 6}, env: {C: override}, expect: {moe_backend: triton}}
"""
    )
    one = settings(matrix, platform="cpu", quantization="int8", tp="2")
    assert one.engine_args == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 6}
    assert one.env == {"A": "file", "B": "platform", "C": "override"}
    assert one.limits == Limits(
        prepare_s=1200.0,
        start_s=600.0,
        idle_s=90.0,
        total_s=5400.0,
        stop_grace_s=5.0,
        memory_bytes=2 << 30,
        shm_bytes=64 << 10,
        pids=100,
        log_bytes=3 << 20,
    )
    assert one.expect == Expectation(moe_method="Int8", linear_scheme="Linear", moe_backend="triton")
    other = settings(matrix, platform="cuda", quantization="int8", tp="2")
    assert other.engine_args == {"a": 1, "b": 1, "c": 3, "d": 1, "e": 5}
    assert other.limits.memory_bytes == 1 << 30


def test_a_user_axis_gets_its_effect_from_overrides_and_shares_settings(load: Load) -> None:
    matrix = load(
        CHEAP
        + """\
axes: {platform: [cuda], moe_backend: [auto, triton], seed: [1, 2, 3]}
overrides: [{when: moe_backend=triton, engine_args: {moe_backend: triton}, expect: {moe_backend: triton}}]
"""
    )
    assert [each.cell.id for each in matrix.cells][:2] == [
        "platform=cuda,moe_backend=auto,seed=1",
        "platform=cuda,moe_backend=auto,seed=2",
    ]
    assert len({id(each.settings) for each in matrix.cells}) == 2
    assert matrix.cells[0].settings.engine_args == {}
    assert matrix.cells[3].settings.engine_args == {"moe_backend": "triton"}


@pytest.mark.parametrize(
    ("platforms", "devices"),
    [
        ("", {"cuda": 4, "rocm": 4, "cpu": 0}),
        ("platforms: {cuda: {devices: 8}, cpu: {devices: 1}}\n", {"cuda": 8, "rocm": 4, "cpu": 1}),
    ],
)
def test_devices_are_tp_on_accelerators_and_none_on_cpu(
    load: Load, platforms: str, devices: dict[str, int]
) -> None:
    matrix = load(CHEAP + platforms + "axes: {platform: [cuda, rocm, cpu], tp: [4]}\n")
    assert {each.cell.get("platform"): each.settings.devices for each in matrix.cells} == devices


def test_models_by_platform_by_override_and_extra(load: Load) -> None:
    matrix = load(
        """\
version: 1
axes: {platform: [cuda, cpu], quantization: [none, fp8]}
model: base
extra_models: [base, other]
quantizations: {none: {}, fp8: {model: {cuda: other, cpu: base}}}
overrides: [{when: platform=cpu and quantization=fp8, model: remote}]
models:
  base: {recipe: qwen3moe, fault: drop_scale}
  other: {recipe: jamba, traits: [mamba, hybrid]}
  remote: {hub: org/name, revision: main}
"""
    )
    found = {each.cell.id: each.settings for each in matrix.cells}
    names = {cell_id: each.model.name for cell_id, each in found.items() if each.model}
    assert names == {
        "platform=cuda,quantization=none": "base",
        "platform=cuda,quantization=fp8": "other",
        "platform=cpu,quantization=none": "base",
        "platform=cpu,quantization=fp8": "remote",
    }
    assert found["platform=cpu,quantization=fp8"].model == ModelRef(
        name="remote", hub="org/name", revision="main"
    )
    assert found["platform=cuda,quantization=fp8"].model == ModelRef(
        name="other", recipe="jamba", traits=("hybrid", "mamba")
    )
    extra = {cell_id: [model.name for model in each.extra_models] for cell_id, each in found.items()}
    assert extra["platform=cuda,quantization=none"] == ["other"]
    assert extra["platform=cpu,quantization=fp8"] == ["base", "other"]


def test_a_model_axis_is_identity(load: Load) -> None:
    text = "version: 1\naxes: {platform: [cpu], model: [b, a]}\nmodels: {a: {recipe: qwen3moe}, b: {recipe: jamba}}\n"
    matrix = load(text)
    assert [(each.cell.id, each.settings.model and each.settings.model.recipe) for each in matrix.cells] == [
        ("platform=cpu,model=b", "jamba"),
        ("platform=cpu,model=a", "qwen3moe"),
    ]


def test_suite_and_retry(load: Load) -> None:
    matrix = load(
        """\
version: 1
suite: {path: ../suite, proof: tests, tests: ["a.py::test_x[1]", b.py]}
axes: {platform: [cpu]}
retry: {infra: 3}
"""
    )
    assert matrix.cells[0].settings.suite == Suite(
        path="../suite", proof=Proof.TESTS, tests=("a.py::test_x[1]", "b.py")
    )
    assert matrix.infra_retries == 3


def test_requirements_of_platform_quantization_and_override(load: Load) -> None:
    matrix = load(
        CHEAP
        + """\
axes: {platform: [cuda, rocm], quantization: [fp8]}
platforms: {cuda: {requires: memory_gib >= 40}}
quantizations:
  fp8:
    requires:
      cuda: {needs: capability >= 8.9, reason: no fp8 units}
      rocm: {never: not on the list}
overrides: [{when: platform=cuda, requires: "name != 'NVIDIA T4'"}]
"""
    )
    assert settings(matrix, platform="cuda", quantization="fp8").requires == (
        Requirement(
            expression="memory_gib >= 40",
            reason="needs memory_gib >= 40 (cuda cells)",
            source="matrix.yaml:4",
        ),
        Requirement(expression="capability >= 8.9", reason="no fp8 units", source="matrix.yaml:8"),
        Requirement(
            expression="name != 'NVIDIA T4'",
            reason="needs name != 'NVIDIA T4' (cells with platform=cuda)",
            source="matrix.yaml:10",
        ),
    )
    assert settings(matrix, platform="rocm", quantization="fp8").requires == (
        Requirement(expression=None, reason="not on the list", source="matrix.yaml:9"),
    )


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "platforms: {cuda: {requires: capabilty >= 8}}",
            "4:30: expression, column 1: 'capabilty' is not known, did you mean capability?: ^capabilty >= 8",
        ),
        (
            "platforms: {cuda: {requires: false}}",
            "4:30: platforms.cuda.requires: a reason is missing (write {never: WHY})",
        ),
        (
            "platforms: {cuda: {requires: {reason: x}}}",
            "4:30: platforms.cuda.requires must have one of needs and never (write {needs: EXPRESSION})",
        ),
        (
            "platforms: {cpu: {requires: avx2 and}}",
            "4:29: expression, column 9: expected a name, found the end: avx2 and^",
        ),
        ("platforms: {cudda: {}}", "4:13: platforms: the name 'cudda' is not known (did you mean cuda?)"),
        (
            "platforms: {cuda: {devices: -1}}",
            "4:29: platforms.cuda.devices: '-1' is no whole number from 0 to 64",
        ),
        ("quantizations: {int8: {}}", "4:17: there is no axis quantization (add quantization: [int8])"),
        ("models: {a: {}}", "4:13: model a must have one of recipe and hub (write {recipe: NAME})"),
        (
            "models: {a: {recipe: x, hub: y}}",
            "4:13: model a must have one of recipe and hub (write {recipe: NAME})",
        ),
        (
            "models: {a: {recipe: b c}}\nmodel: a",
            "4:22: models.a.recipe: 'b c' does not fit (use letters, digits, _ . -)",
        ),
        (
            "models: {a: {recipe: x, revision: y}}",
            "4:35: model a: a revision belongs to a hub name (remove it)",
        ),
        ("models: {a: {hub: x, fault: y}}", "4:29: model a: a fault is planted by a recipe (remove it)"),
        ("model: nope", "4:8: there is no model 'nope' (define it: models: {NAME: {recipe: RECIPE}})"),
        (
            "models: {mine: {recipe: x}}\nextra_models: [mind]",
            "5:16: there is no model 'mind' (did you mean mine?)",
        ),
        (
            "limits: {start: 0s}",
            "4:17: limits.start: '0s' is zero (write 1s or more; leave the key out for the default)",
        ),
        ("limits: {pids: 1}", "4:16: limits.pids: '1' is no whole number from 16 to 1000000"),
        ("limits:", "4:8: limits is empty (give it keys, or remove it)"),
        ("retry: {infra: 9}", "4:16: retry.infra: '9' is no whole number from 0 to 5"),
        ("version: 2", "4:1: version is given twice: here and in line 1 (keep one of them)"),
    ],
)
def test_settings_that_cannot_be(wrong: Wrong, text: str, mistake: str) -> None:
    assert wrong(CHEAP + "axes: {platform: [cuda, cpu]}\n" + text + "\n") == [mistake]


def test_a_version_that_nobody_knows(wrong: Wrong) -> None:
    assert wrong("version: 2\nsuite: {proof: tests}\naxes: {platform: [cpu]}\n") == [
        "1:10: version: '2' is not known (write version: 1; a file of another version needs another version of this program)"
    ]


SMALL = "version: 1\nsuite: {proof: tests%s}\naxes: {platform: [cuda, cpu], case: [a, b]}\n%s"


@pytest.mark.parametrize(
    ("limits", "wrong_with"),
    [
        ("total: 0m0s", "limits.total: '0m0s' is zero (write 1s or more; leave the key out for the default)"),
        ("total: -5m", "limits.total: '-5m' is negative (write 1s or more)"),
        ("total: 99999999999999h", "limits.total: '99999999999999h' is too much (write 9999h or less)"),
        ("total: 5 min", "limits.total: '5 min' is no time (write it with units: 90s, 10m, 1h30m)"),
        ("memory: 0g", "limits.memory: '0g' is zero (write 1k or more; leave the key out for the default)"),
        ("memory: -4g", "limits.memory: '-4g' is negative (write 1k or more)"),
        ("memory: 04g", "limits.memory: '04g' is written with a zero before it (leave the zero out)"),
        ("memory: 99999999999g", "limits.memory: '99999999999g' is too much (write 999999999g or less)"),
        ("memory: 4G", "limits.memory: '4G' is no size (write it with a unit: 64k, 512m, 4g)"),
    ],
)
def test_an_amount_out_of_bounds_says_which_bound(wrong: Wrong, limits: str, wrong_with: str) -> None:
    column = 12 + limits.index(":")
    assert wrong(SMALL % ("", f"limits: {{{limits}}}\n")) == [f"4:{column}: {wrong_with}"]


@pytest.mark.parametrize("name", ["tp", "tensor_parallel_size"])
def test_what_the_axis_tp_says_is_no_engine_argument(wrong: Wrong, name: str) -> None:
    said = f"engine_args: the name {name!r} is what the axis tp says (use the axis tp)"
    assert wrong(SMALL % ("", f"engine_args: {{{name}: 3}}\n")) == [f"4:15: {said}"]


@pytest.mark.parametrize("name", ["model", "model_tag"])
def test_the_model_is_no_engine_argument(wrong: Wrong, name: str) -> None:
    said = f"engine_args: the name {name!r} is no engine argument here (use the key model)"
    assert wrong(SMALL % ("", f"engine_args: {{{name}: x}}\n")) == [f"4:15: {said}"]


@pytest.mark.parametrize("name", ["tests", "command"])
def test_a_list_that_says_what_runs_is_not_empty(wrong: Wrong, name: str) -> None:
    said = f"suite.{name} is empty (write at least one item, or remove the key)"
    assert wrong(SMALL % (f", {name}: []", "")) == [f"2:{25 + len(name)}: {said}"]


@pytest.mark.parametrize("word", ["{nosuch}", "{suite}/{nosuch}", "--out={nosuch}"])
def test_a_word_of_a_command_holds_only_what_is_filled_in(wrong: Wrong, word: str) -> None:
    said = (
        f"suite.command[1]: {word!r} holds {{nosuch}}, which stands for nothing (known: {{suite}}, {{out}})"
    )
    assert wrong(SMALL % (f', command: [x, "{word}"]', "")) == [f"2:36: {said}"]


@pytest.mark.parametrize("word", ["{suite}/run", "{out}", "${HOME}", "{{x}}", "{a,b}", "{}"])
def test_other_braces_are_the_commands_own(load: Load, word: str) -> None:
    assert load(SMALL % (f', command: ["{word}"]', "")).remarks == ()


def test_a_script_may_have_braces_of_its_own_and_the_plan_remarks_them(load: Load) -> None:
    text = SMALL % (", command: [sh, -c, 'cat {suite}/x {nosuch}/y']", "")
    assert load(text).remarks == (
        "matrix.yaml:2:41: suite.command: {nosuch} reaches the cell as it stands; only {suite}, {out} are replaced",
    )


KEEP = "keep one: what stands under env is written into plan, report and log"


@pytest.mark.parametrize(
    ("layers", "place", "line"),
    [
        ("secrets: [TOKEN]\nenv: {TOKEN: literal}\n", "5:7", 4),
        ("secrets: [TOKEN]\nplatforms:\n  cpu: {env: {TOKEN: literal}}\n", "6:15", 4),
        ("env: {TOKEN: literal}\noverrides:\n  - {when: case=a, secrets: [TOKEN]}\n", "4:7", 6),
        ("env: {TOKEN: literal}\nplatforms: {cpu: {secrets: [TOKEN], env: {TOKEN: other}}}\n", "5:43", 5),
    ],
)
def test_one_name_is_not_both_a_variable_and_a_secret_of_a_cell(
    wrong: Wrong, layers: str, place: str, line: int
) -> None:
    found = wrong(SMALL % ("", layers))
    assert f"{place}: env: TOKEN is among the secrets of the same cell, in line {line} ({KEEP})" in found


def test_a_secret_of_some_cells_may_be_a_variable_of_others(load: Load) -> None:
    layers = "platforms:\n  cuda: {secrets: [TOKEN]}\n  cpu: {env: {TOKEN: none}}\n"
    cells = load(SMALL % ("", layers)).cells
    assert {item.cell.get("platform"): item.settings.secrets for item in cells} == {
        "cuda": ("TOKEN",),
        "cpu": (),
    }


@pytest.mark.parametrize(
    "image", ["user:pass@reg.example/x", "https://user:pass@reg.example/x:1", "pass@reg.example:5000/x"]
)
def test_credentials_in_an_image_are_refused_at_their_place_and_not_shown(wrong: Wrong, image: str) -> None:
    (line,) = wrong(SMALL % ("", f'platforms: {{cpu: {{image: "{image}"}}}}\n'))
    assert line.startswith(
        "4:26: platforms.cpu.image: what stands before the @ of an image would be credentials"
    )
    assert "pass" not in line


def test_a_suite_cannot_have_tests_and_a_command(wrong: Wrong) -> None:
    text = "version: 1\nsuite: {proof: tests, tests: [a], command: [b]}\naxes: {platform: [cpu]}\n"
    assert wrong(text) == ["2:31: suite has both tests and command (a command names its tests itself)"]


def test_a_suite_that_proves_its_engine_needs_a_model_for_every_cell_that_is_left(
    load: Load, wrong: Wrong
) -> None:
    text = """\
version: 1
axes: {platform: [cuda, cpu], quantization: [none]}
quantizations: {none: {model: {cuda: a}}}
models: {a: {recipe: x}}
"""
    mistake = (
        "cells with quantization=none, platform=cpu have no model, which a suite with proof: engine needs"
    )
    fix = "name one under quantizations or as model, or say suite: {proof: tests}"
    assert wrong(text) == [f"2:46: {mistake} ({fix})"]
    assert len(load(text + "rules: [{exclude: {platform: cpu}, reason: no model}]\n").cells) == 2
    assert len(load(text + "suite: {command: [make, test]}\n").cells) == 2


def test_the_model_cannot_be_an_axis_and_a_setting(wrong: Wrong) -> None:
    text = "version: 1\naxes: {platform: [cpu], model: [a]}\nmodels: {a: {recipe: x}}\nmodel: a\n"
    assert wrong(text) == ["4:8: the axis model says the model of a cell already (remove this one)"]


def test_a_quantization_that_the_file_does_not_explain(wrong: Wrong) -> None:
    text = CHEAP + "axes: {platform: [cpu], quantization: [none, int8]}\nquantizations: {none: {}, int: {}}\n"
    assert wrong(text) == ["3:46: quantizations says nothing about 'int8' (did you mean int?)"]


def test_included_cells_name_models_and_quantizations_that_exist(wrong: Wrong) -> None:
    text = """\
version: 1
axes: {platform: [cpu], model: [a], quantization: [none]}
quantizations: {none: {}}
models: {a: {recipe: x}}
include: [{cell: {platform: cpu, model: b, quantization: nine}}]
"""
    assert wrong(text) == [
        "5:41: there is no model 'b' (known: a)",
        "5:58: quantizations says nothing about 'nine' (did you mean none?)",
    ]


def test_an_engine_on_the_host_is_said_by_the_platform(load: Load) -> None:
    matrix = load(
        CHEAP
        + """\
axes: {platform: [cuda]}
platforms:
  cuda: {mounts: [/opt/, "/srv/engine:/engine"], python: /opt/bin/python3, engine_digest: [/opt/engine]}
"""
    )
    one = matrix.cells[0].settings
    assert one.mounts == (
        HostFolder(source="/opt", target="/opt"),
        HostFolder(source="/srv/engine", target="/engine"),
    )
    assert (one.python, one.engine_folders) == ("/opt/bin/python3", ("/opt/engine",))


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        (
            "opt",
            "4:18: platforms.cuda.mounts[0]: 'opt' does not fit (write /PATH or /PATH:/PATH/IN/THE/CELL)",
        ),
        (
            "/a:b",
            "4:18: platforms.cuda.mounts[0]: '/a:b' does not fit (write /PATH or /PATH:/PATH/IN/THE/CELL)",
        ),
        ("/", "4:18: platforms.cuda.mounts[0]: / would hide /out of the cell (mount a folder below it)"),
        (
            "/a:/suite",
            "4:18: platforms.cuda.mounts[0]: /suite would hide /suite of the cell (mount a folder below it)",
        ),
    ],
)
def test_a_mount_that_cannot_be_is_refused(wrong: Wrong, mount: str, said: str) -> None:
    text = CHEAP + f'axes: {{platform: [cuda]}}\nplatforms: {{cuda: {{mounts: ["{mount}"]}}}}\n'
    (found,) = wrong(text)
    assert found.partition(": ")[2] == said.partition(": ")[2]


def test_secrets_and_bounds_of_phases_add_up_over_layers(load: Load) -> None:
    matrix = load(
        CHEAP
        + """\
axes: {platform: [cpu]}
secrets: [HF_TOKEN]
limits: {phases: {load: 5m, generate: 1m}}
platforms: {cpu: {secrets: [OTHER, HF_TOKEN], limits: {phases: {load: 90s}}}}
"""
    )
    one = matrix.cells[0].settings
    assert one.secrets == ("HF_TOKEN", "OTHER")
    assert one.limits.phase_s == {"load": 90.0, "generate": 60.0}


def test_a_phase_that_no_engine_has_is_a_mistake(wrong: Wrong) -> None:
    text = CHEAP + "axes: {platform: [cpu]}\nlimits: {phases: {loading: 5m}}\n"
    assert wrong(text) == ["4:19: limits.phases: the name 'loading' is not known (did you mean load?)"]
