"""The rules of matrix files against the real engine's validator, for every cell of every platform: a disagreement names the rule.

What runs where there is no GPU: validator.py. Needs vllm and, beside the suite, the runner that reads matrix files; left out
where the suite stands alone in a cell.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = (HERE / ".." / ".." / "..").resolve()
FILES = (
    "docs/examples/starts.yaml",
    "docs/examples/methods.yaml",
    "examples/gpu-host/matrix-rules.yaml",
    "matrix.yaml",
)
PLATFORMS = {
    "cpu": {"CpuPlatform", "ZenCpuPlatform"},
    "cuda": {"NvmlCudaPlatform"},
    "rocm": {"RocmPlatform"},
}
"""vLLM's own classes for each."""

pytest.importorskip("vllm", reason="the engine's validator is what the rules are compared with")
if not all((ROOT / name).is_file() for name in FILES):
    pytest.skip("the suite stands alone: no matrix files beside it", allow_module_level=True)


@dataclass(frozen=True)
class Case:
    """A cell of a file; `rule` is the place and text of what refuses it, `words` the engine's for the same.

    `floor`: the compute capability that the file asks of a CUDA device, times ten, and where.
    """

    file: str
    id: str
    platform: str
    job: Mapping[str, Any]
    rule: str | None
    words: str
    floor: tuple[int, str]

    @property
    def key(self) -> str:
        return f"{self.file}:{self.id}"


def cases() -> list[Case]:
    """The cells of all files, by platform, with the rules' word on each."""
    sys.path.insert(0, str(ROOT))
    try:
        from runner.matrix import load
    finally:
        sys.path.remove(str(ROOT))
    entries = ((name, entry) for name in FILES for entry in load(ROOT / name).cells)
    found = [case(name, entry) for name, entry in entries if not (entry.excluded or kernels_say_no(entry))]
    return sorted(found, key=lambda one: list(PLATFORMS).index(one.platform))


def kernels_say_no(entry: Any) -> bool:
    """Whether a `never` is about a missing kernel: the engine says that when it loads a model, its validator does not."""
    return any(one.expression is None and "list" not in one.reason for one in entry.settings.requires)


def case(name: str, entry: Any) -> Case:
    """One cell as the engine is started for it."""
    axes, settings = dict(entry.cell.axes), entry.settings
    job = {
        "model": settings.model.recipe,
        "dtype": axes["dtype"],
        "tp": int(axes["tp"]),
        "engine_args": dict(settings.engine_args),
    }
    rule, words, floor = None, "", (0, name)
    for one in settings.requires:
        if one.expression is None:
            method = settings.engine_args["quantization"]
            rule = f"{one.source} ({one.reason})"
            words = f"{method} quantization is currently not supported in {axes['platform']}"
        elif asked := re.fullmatch(r"capability >= (\d+)\.(\d)", one.expression):
            floor = max(floor, (int("".join(asked.groups())), f"{one.source} ({one.reason})"))
    if entry.refused is not None:
        rule = f"{entry.refused.source} ({entry.refused.text})"
        words = "hunked prefill is required"
    return Case(Path(name).name, entry.cell.id, axes["platform"], job, rule, words, floor)


CASES = cases()
Said = Callable[[Case], Mapping[str, Any]]


def test_there_is_something_to_compare() -> None:
    """(file, platform) -> cells, and how many of them a rule refuses."""
    cells = Counter((one.file, one.platform) for one in CASES)
    refused = Counter((one.file, one.platform) for one in CASES if one.rule)
    assert {key: (cells[key], refused[key]) for key in cells} == {
        ("starts.yaml", "cpu"): (32, 4),
        ("starts.yaml", "cuda"): (48, 6),
        ("starts.yaml", "rocm"): (48, 6),
        ("methods.yaml", "cpu"): (22, 0),
        ("methods.yaml", "cuda"): (40, 0),
        ("methods.yaml", "rocm"): (40, 6),
        ("matrix-rules.yaml", "cuda"): (2, 1),
        ("matrix.yaml", "cpu"): (6, 0),
        ("matrix.yaml", "cuda"): (24, 0),
        ("matrix.yaml", "rocm"): (24, 8),
    }


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.key)
def test_rule_and_validator_agree(one: Case, said: Said) -> None:
    """Refused by both for the same reason, or accepted by both with the arguments as they were given."""
    answer = said(one)
    resolved, refused = answer["resolved"], answer["refused"]
    if one.rule is None:
        assert refused is None, (
            f"no rule of {one.file} refuses this cell, the engine does: {refused}; {resolved}"
        )
        given = {name: value for name, value in one.job["engine_args"].items() if name in resolved}
        given |= {"dtype": one.job["dtype"], "tensor_parallel_size": one.job["tp"]}
        assert {name: resolved[name] for name in given} == given, f"the engine resolved otherwise: {resolved}"
    else:
        assert refused is not None, f"{one.rule} refuses this cell, the engine accepts it: {resolved}"
        assert one.words in refused, (
            f"{one.rule} refuses it, the engine for another reason: {refused}; {resolved}"
        )


@pytest.mark.parametrize(
    "one", [c for c in CASES if c.platform == "cuda" and not c.rule], ids=lambda one: one.key
)
def test_no_device_is_let_in_that_the_validator_refuses(one: Case, said: Said) -> None:
    """What a file asks of a CUDA device is at least what the engine asks for the method; kernels may ask for more."""
    least = said(one)["resolved"]["min_capability"]
    floor, where = one.floor
    assert floor >= least, f"{where} lets in a device of capability {floor}, the engine refuses below {least}"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_it_was_the_validator_of_the_platform(platform: str, said: Said) -> None:
    """The platform's own class judged, and a mamba model's cache mode is in every cell what the rule's reason says."""
    accepted = [
        (one.job["model"], said(one)["resolved"])
        for one in CASES
        if one.platform == platform and not one.rule
    ]
    assert {resolved["platform"] for _, resolved in accepted} <= PLATFORMS[platform]
    assert {
        (model == "jamba", model == "jamba" and r["enable_prefix_caching"], r["mamba_cache_mode"])
        for model, r in accepted
    } == {(True, True, "align"), (True, False, "none"), (False, False, "none")}


@pytest.fixture(scope="module")
def said(models: Mapping[str, Path], folder: Path) -> Said:
    """What a platform's validator says of a case: all its cases are put to it at once, when the first is asked for."""
    ended: dict[str, Mapping[str, Any] | str] = {}

    def ask(one: Case) -> Mapping[str, Any]:
        if one.platform not in ended:
            asked = [other for other in CASES if other.platform == one.platform]
            jobs = [{**other.job, "model": str(models[other.job["model"]])} for other in asked]
            lines = validate(one.platform, jobs, folder)
            ended[one.platform] = (
                lines
                if isinstance(lines, str)
                else {c.key: line for c, line in zip(asked, lines, strict=True)}
            )
        found = ended[one.platform]
        assert not isinstance(found, str), found
        answer: Mapping[str, Any] = found[one.key]
        return answer

    return ask


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For logs, and for what vLLM keeps of models it has looked at: once for all platforms."""
    return tmp_path_factory.mktemp("validator")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The models of the files, without references, which a validator does not read."""
    from recipes.make import checkpoint, save

    made = {name: tmp_path_factory.mktemp(name) for name in sorted({one.job["model"] for one in CASES})}
    for name, where in made.items():
        save(checkpoint(name), where)
    return made


def validate(platform: str, jobs: list[dict[str, Any]], folder: Path) -> list[Mapping[str, Any]] | str:
    """validator.py's lines, one a job, from a process of its own; or how that ended before its time."""
    command = [sys.executable, str(HERE / "validator.py"), platform]
    env = {**os.environ, "VLLM_CACHE_ROOT": str(folder / "cache")}
    log = folder / f"{platform}.log"
    with log.open("w", encoding="utf-8") as errors:
        ended = subprocess.run(
            command,
            input=json.dumps(jobs),
            stdout=subprocess.PIPE,
            stderr=errors,
            env=env,
            text=True,
            check=False,
        )
    if ended.returncode != 0:
        last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        return f"the validator of {platform} ended with {ended.returncode}:\n{last}"
    return [json.loads(line) for line in ended.stdout.splitlines()]
