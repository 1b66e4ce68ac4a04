"""What must hold without vllm, torch or a GPU: collection, deselection, cells, first errors, expectations."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cell as cells
import engine
import engine_log
import pytest
from expectations import rank_problems
from leftovers import Holdings, left, unexpected

SUITE = Path(__file__).resolve().parents[1]


def cell_json(tmp_path: Path, quantization: str, **more: Any) -> Path:
    """A cell.json for `quantization` at tp 2."""
    model = tmp_path / "model"
    model.mkdir(exist_ok=True)
    config = {"num_experts": 4, "moe_intermediate_size": 256, "hidden_size": 256, "num_hidden_layers": 1}
    (model / "config.json").write_text(json.dumps(config))
    content = {
        "schema": 1,
        "id": "x",
        "axes": {"platform": "cpu", "dtype": "bfloat16", "tp": "2", "quantization": quantization},
        "out": str(tmp_path),
        "model": {"name": "m", "path": str(model), "traits": ["moe"]},
        "engine_args": {"enforce_eager": True},
        "expect": {"moe_method": "Int8OnlineMoEMethod", "expert_weight_dtype": "int8"},
        **more,
    }
    path = tmp_path / "cell.json"
    path.write_text(json.dumps(content))
    return path


def collected(cell: Path | None, suite: Path = SUITE) -> str:
    """pytest's list of tests, in a process where importing vllm, torch or transformers fails."""
    block = (
        "import sys\n"
        "for name in ('vllm', 'torch', 'transformers'): sys.modules[name] = None\n"
        "import pytest; sys.exit(pytest.main(sys.argv[1:]))\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "MATRIX_CELL"}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    if cell is not None:
        env["MATRIX_CELL"] = str(cell)
    arguments = ["-c", str(suite / "pytest.ini"), "--rootdir", str(suite), "--collect-only", "-q", str(suite)]
    done = subprocess.run(
        [sys.executable, "-c", block, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_everything_collects_without_an_engine_or_a_cell() -> None:
    """All files, and none of the self tests."""
    listed = collected(None)
    for name in (
        "test_model_experts_int8_startup",
        "test_quark_int8_w8a8_moe",
        "test_shutdown",
        "test_mamba_rule",
    ):
        assert name in listed
    assert "selftest" not in listed


@pytest.mark.parametrize(
    ("quantization", "own", "others"),
    [
        ("none", None, ("test_quark.py", "test_experts_int8.py")),
        ("experts_int8", "test_experts_int8.py", ("test_quark.py",)),
        ("quark_int8", "test_quark.py", ("test_experts_int8.py",)),
    ],
)
def test_a_cell_gets_its_own_tests(
    quantization: str, own: str | None, others: tuple[str, ...], tmp_path: Path
) -> None:
    """Others are deselected, and shutdown comes last."""
    listed = collected(cell_json(tmp_path, quantization))
    assert own is None or own in listed
    assert not any(other in listed for other in others)
    assert "test_mamba_rule.py" not in listed
    tests = [line for line in listed.splitlines() if "::" in line]
    assert "test_shutdown_gives_memory_back" in tests[-1]
    assert "test_startup" in tests[0]


def test_a_test_file_of_a_users_own_runs_while_there_is_an_engine(tmp_path: Path) -> None:
    """Put into a copy of the suite, it comes before the engine is stopped."""
    suite = tmp_path / "suite"
    shutil.copytree(SUITE, suite, ignore=shutil.ignore_patterns("selftest", "__pycache__"))
    (suite / "test_zz_tools.py").write_text("def test_mine() -> None: pass\n")
    tests = [line for line in collected(cell_json(tmp_path, "none"), suite).splitlines() if "::" in line]
    mine = next(n for n, line in enumerate(tests) if "test_mine" in line)
    assert all("test_shutdown" not in line for line in tests[:mine])
    assert all("test_shutdown" in line for line in tests[mine + 1 :])


def test_a_mamba_model_brings_the_mamba_tests(tmp_path: Path) -> None:
    """By trait, or by an extra model whose configuration is a mamba one."""
    jamba = tmp_path / "jamba"
    jamba.mkdir()
    (jamba / "config.json").write_text(json.dumps({"mamba_d_state": 16}))
    assert "test_mamba_rule.py" in collected(
        cell_json(tmp_path, "none", extra_models={"jamba-tiny": str(jamba)})
    )


def test_a_bad_cell_is_named(tmp_path: Path) -> None:
    """The file and the field."""
    path = tmp_path / "cell.json"
    path.write_text(json.dumps({"schema": 1, "axes": {}}))
    with pytest.raises(cells.CellError, match=r"cell\.json.*id"):
        cells.load(str(path))


def test_the_first_error_is_the_cause(tmp_path: Path) -> None:
    """By time, with the process that raised it, and not what its parent made of it."""
    log = tmp_path / "errors.log"
    log.write_text(
        "@ 12.500 EngineCore 7: EngineCore failed to start.\nTraceback (most recent call last):\n"
        '  File "x.py", line 1, in f\nRuntimeError: Engine core initialization failed. See root cause above.\n'
        "@ 12.100 VllmWorker-1 9: WorkerProc failed to start.\nTraceback (most recent call last):\n"
        '  File "y.py", line 2, in g\nNotImplementedError: No Int8 MoE backend supports the configuration\n'
    )
    assert (
        engine_log.first_error(log)
        == "VllmWorker-1: NotImplementedError: No Int8 MoE backend supports the configuration"
    )
    assert engine_log.first_error(tmp_path / "none.log") == ""


def rank(number: int, **layer: Any) -> dict[str, Any]:
    """A sound rank of the cell above, with one layer changed."""
    sound = {
        "name": "model.layers.0.mlp.experts",
        "moe_method": "Int8OnlineMoEMethod",
        "experts_class": "ZenCPUExpertsInt8",
        "backend": "CPU",
        "expert_weight_dtype": "int8",
        "w2_dtype": "int8",
        "w13_shape": [4, 256, 256],
        "w2_shape": [4, 256, 128],
    }
    return {
        "rank": number, "world_size": 2, "pid": 100 + number, "device": "cpu", "dtype": "bfloat16",
        "layers": [{**sound, **layer}], "linear_schemes": {}, "visible_devices": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"moe_method": "UnquantizedFusedMoEMethod"}, "fell back"),
        ({"expert_weight_dtype": "bfloat16"}, "expert_weight_dtype bfloat16"),
        ({"w2_dtype": "bfloat16"}, "w2_dtype bfloat16"),
        ({"w13_shape": [4, 512, 256]}, "w13_shape"),
        ({"w2_shape": [4, 256, 256]}, "w2_shape"),
    ],
)
def test_what_is_wrong_on_one_rank_is_said(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Rank 1 alone is wrong: it is named, rank 0 is not."""
    cell = cells.load(str(cell_json(tmp_path, "experts_int8")))
    assert cell is not None
    assert rank_problems(cell, [rank(0), rank(1)]) == []
    problems = rank_problems(cell, [rank(0), rank(1, **change)])
    assert problems
    assert all(text.startswith("rank 1:") for text in problems)
    assert words in problems[0]


def test_what_was_left_is_said() -> None:
    """A new shared memory file, and device memory beyond the slack; what was there before is not blamed."""
    before = Holdings({"old": 10}, {0: 1 << 30, 1: 1 << 30})
    after = Holdings({"old": 99, "psm_1": 4096}, {0: 2 << 30, 1: (1 << 30) + 1})
    assert left(before, after) == [
        "shared memory psm_1 of 4096 bytes",
        "device 0: 1024 MiB more in use than before",
    ]
    assert left(before, before) == []
    known = left(before, Holdings({"vllm_dist_4fded87d-tp:0-[0-1]-cpushm_1": 4194560}, {}))
    assert len(known) == 1
    assert unexpected(known) == []
    assert unexpected(left(before, after)) == left(before, after)
    gone = left(before, Holdings({"old": 10}, {}, "GPU is lost"))
    assert unexpected(gone) == ["device memory can no longer be asked: GPU is lost"], (
        "silence is no memory given back"
    )
    assert left(Holdings(problem="no driver"), Holdings(problem="no driver")) == []


def test_expert_parallel_ranks_hold_whole_experts(tmp_path: Path) -> None:
    """Half of the experts, each whole; a shard of every expert is wrong then."""
    path = cell_json(tmp_path, "experts_int8", engine_args={"enable_expert_parallel": True})
    cell = cells.load(str(path))
    assert cell is not None
    whole = {"w13_shape": [2, 512, 256], "w2_shape": [2, 256, 256]}
    assert rank_problems(cell, [rank(0, **whole), rank(1, **whole)]) == []
    assert len(rank_problems(cell, [rank(0), rank(1, **whole)])) == 2


def test_missing_ranks_layers_and_schemes_are_said(tmp_path: Path) -> None:
    """Fewer ranks than tp, a rank twice, no expert layer, no quantized linear."""
    expect = {"moe_method": "Int8OnlineMoEMethod", "linear_scheme": "QuarkW8A8Int8"}
    cell = cells.load(str(cell_json(tmp_path, "experts_int8", expect=expect)))
    assert cell is not None
    assert any("for tp 2" in text for text in rank_problems(cell, [rank(0)]))
    assert any("one process" in text for text in rank_problems(cell, [rank(0), {**rank(1), "pid": 100}]))
    assert any(
        "0 expert layers" in text for text in rank_problems(cell, [rank(0), {**rank(1), "layers": []}])
    )
    assert any("QuarkW8A8Int8" in text for text in rank_problems(cell, [rank(0), rank(1)]))


def test_workers_import_copies_that_outlive_a_replaced_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever edits the suite while a cell runs takes nothing away from its workers."""
    for name in ("PYTHONPATH", "VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_LOGGING_CONFIG_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    suite = tmp_path / "suite"
    suite.mkdir()
    for name in ("checks.py", "engine_log.py"):
        (suite / name).write_bytes((SUITE / name).read_bytes())
    engine.prepare_environment(tmp_path, suite)
    for file in suite.iterdir():
        file.unlink()
    argv = [sys.executable, "-c", "import checks, engine_log; print(checks.__file__)"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert not done.stdout.startswith(str(suite))
