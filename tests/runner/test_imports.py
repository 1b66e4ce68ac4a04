"""The house keeps its doors: which module may import which, read from the source (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[2] / "runner"
VOCABULARY = {
    "model",
    "machine",
    "control",
    "facts",
    "records",
    "errors",
    "codec",
    "vendors",
    "backends",
    "reference",
    "expr",
    "interrupt",
    "version",
    "strictyaml",
}
COMPOSES = {
    "cells": {"junit", "verdict"},
    "report": {"junit", "triage"},
    "plan": set(),
    "schedule": set(),
    "cost": {"schedule"},
}
EDGE = {"pipeline", "report", "cli", "arguments", "outlet"}
OWNERS = {
    "docker": {"runtimes"},
    "requests": {"runtimes"},
    "yaml": {"strictyaml", "ci"},
    "jinja2": {"report"},
    "rich": {"report"},
    "junitparser": {"junit"},
    "lxml": set(),
    "pynvml": {"hosts"},
    "huggingface_hub": {"prepare"},
    "torch": set(),
    "vllm": set(),
    "transformers": set(),
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # Inside a cell the package has another name (`incell`), so only there imports are relative.
            assert node.level == 0 or room_of(path) == "incell", f"{path}: relative import"
            module = node.module or ""
            found |= {f"{module}.{alias.name}" if module == "runner" else module for alias in node.names}
    return found


def sources() -> list[Path]:
    return sorted(path for path in RUNNER.rglob("*.py") if "__pycache__" not in path.parts)


def room_of(path: Path) -> str:
    return path.relative_to(RUNNER).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(RUNNER).as_posix())
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    wrong = []
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "runner" and rest:
            to = rest[0]
            inside = to == room or to in VOCABULARY
            composed = to in COMPOSES.get(room, set()) and len(rest) == 1
            pipeline = room == "pipeline" and (len(rest) <= 1 or to in {"plan", "pipeline"})
            edge = room in {"cli", "__main__"} and to in EDGE and len(rest) == 1
            if (room == "incell" and to != "incell") or not (inside or composed or pipeline or edge):
                wrong.append(name)
        elif top in OWNERS and room not in OWNERS[top]:
            wrong.append(name)
    assert not wrong, f"{path.relative_to(RUNNER)} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(RUNNER).as_posix())
def test_a_module_is_small_enough_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


def test_the_vocabulary_imports_no_room() -> None:
    for path in (path for path in sources() if room_of(path) in VOCABULARY):
        for found in imports(path):
            top, *rest = found.split(".")
            assert top != "runner" or rest[0] in VOCABULARY, f"{path} imports {found}"
