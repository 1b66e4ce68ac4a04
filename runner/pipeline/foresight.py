"""What is known to go wrong before anything runs: a line for each cause, with its place in the file where it has one.

These are notes of a plan and no errors: another host may have what this one lacks, and a run says it cell by cell.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from runner import prepare, reference
from runner.expr import nearest
from runner.machine import Inventory
from runner.model import CellSettings, ModelRef, PlanEntry
from runner.pipeline.host import PROJECT

Counted = dict[str, tuple[str, int]]
"""Texts of notes: the key of the place, and how many cells it is about."""


def foresee(
    entries: Sequence[PlanEntry],
    places: Mapping[str, str],
    root: Path,
    inventory: Inventory,
    environ: Mapping[str, str],
) -> tuple[str, ...]:
    """Notes on the planned cells. ``root`` is where relative paths of the file start."""
    sees = _Sight(root, inventory, environ)
    shared: dict[int, tuple[CellSettings, int]] = {}  # cells share their settings: each is looked at once
    for entry in entries:
        if entry.refused is None:
            count = shared.get(id(entry.settings), (entry.settings, 0))[1]
            shared[id(entry.settings)] = (entry.settings, count + 1)
    notes: Counted = {}
    for settings, count in shared.values():
        for key, text in sees.problems(settings):
            notes[text] = (key, notes.get(text, (key, 0))[1] + count)
    return tuple(
        f"{places[key] + ': ' if key in places else ''}{text} ({count} cell{'s' * (count != 1)})"
        for text, (key, count) in notes.items()
    )


class _Sight:
    """Looks at the host; what was looked at once is remembered."""

    def __init__(self, root: Path, inventory: Inventory, environ: Mapping[str, str]) -> None:
        self._root = root
        self._memory = inventory.cpu.memory_bytes
        self._environ = environ
        self._kinds: dict[Path, str] = {}
        self._recipes: tuple[list[str], list[str]] | None = None

    def problems(self, settings: CellSettings) -> Iterator[tuple[str, str]]:
        """Keys of places, and texts."""
        yield from self._suite(settings)
        yield from self._image(settings)
        for name in settings.secrets:
            if not self._environ.get(name):
                yield f"secret {name}", f"the secret {name} is not set in this environment"
        for path in (*(mount.source for mount in settings.mounts), *settings.engine_folders):
            if not self._kind(Path(path)):
                yield (
                    f"host path {path}",
                    f"this host has no {path}, which the platform mounts or hashes: refused",
                )
        for model in filter(None, (settings.model, *settings.extra_models)):
            texts = (
                self._hub(model.name, model.hub) if model.hub else self._recipe(settings.suite.path, model)
            )
            yield from ((f"model {model.name}", text) for text in texts)
        asked = settings.limits.memory_bytes
        if asked and self._memory and asked > self._memory:
            text = f"limits.memory {asked / (1 << 30):.1f} GiB is more than this host has ({self._memory / (1 << 30):.1f} GiB)"
            yield "", text

    def _suite(self, settings: CellSettings) -> Iterator[tuple[str, str]]:
        suite = settings.suite
        folder = prepare.resolve(suite.path, self._root)
        if folder is None:
            yield "suite", f"there is no suite folder {suite.path} beside the file: no_tests"
            return
        for node in suite.tests:
            if not self._kind(folder / node.partition("::")[0]):
                yield f"test {node}", f"the suite {suite.path} has no {node.partition('::')[0]}"

    def _image(self, settings: CellSettings) -> Iterator[tuple[str, str]]:
        image = settings.image
        # A folder of this project serves too, wherever the file lies.
        path = next((path for path in (self._root / image, PROJECT / image) if self._kind(path)), None)
        text = ""
        if path is not None and self._kind(path) == "folder" and not self._kind(path / "Dockerfile"):
            text = f"the image folder {image} has no Dockerfile"
        elif path is None and image.startswith(("/", "./", "../")):
            text = f"there is no image folder or interpreter {image}"
        elif path is None and image.startswith("images/"):
            text = f"there is no image folder {image} beside the file: it will be asked of a registry"
        elif path is None and not reference.is_reference(image):
            text = (
                f"{image} is no image reference that a registry takes: [HOST[:PORT]/]name[:TAG] or [...]name@sha256:DIGEST,"
                " names in small letters"
            )
        if text:
            yield f"image {image}", text

    def _hub(self, name: str, hub: str) -> Iterator[str]:
        if find_spec("huggingface_hub") is None:
            yield f"model {name} names hub: {hub}, and huggingface_hub is not installed: pip install huggingface_hub"
        if self._environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
            yield f"model {name} names hub: {hub}, and HF_HUB_OFFLINE forbids to ask it"

    def _recipe(self, suite: str, model: ModelRef) -> Iterator[str]:
        folder = prepare.resolve(suite, self._root)
        if folder is None or ((folder / "recipes").is_dir() and folder != prepare.SUITE.resolve()):
            return  # code of another suite runs in cells, never on the host
        if self._recipes is None:
            self._recipes = shipped_recipes()
        known, faults = self._recipes
        if known and model.recipe and model.recipe not in known:
            close = nearest(model.recipe, known)
            hint = f", did you mean {close}?" if close else ""
            yield f"model {model.name} names recipe: {model.recipe}, which the shipped suite does not have{hint}"
        elif known and model.fault and model.fault not in faults:
            yield f"model {model.name} names fault: {model.fault}, known: {', '.join(faults)}"

    def _kind(self, path: Path) -> str:
        if path not in self._kinds:
            self._kinds[path] = "folder" if path.is_dir() else "file" if path.exists() else ""
        return self._kinds[path]


def shipped_recipes() -> tuple[list[str], list[str]]:
    """Names of the shipped suite's recipes, and of the faults they can plant; none where it cannot be asked.

    Its package says them without its heavy imports, but is no part of this one: so it is asked in a process of its own.
    """
    argv = [sys.executable, "-I", "-B", "-c", _ASK, str(prepare.SUITE)]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_ASK_S, check=True, env={})
        names, faults = json.loads(done.stdout)
        return list(map(str, names)), list(map(str, faults))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return [], []


_ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import recipes
print(json.dumps([list(recipes.names()), list(recipes.FAULTS)]))
"""
_ASK_S = 10.0
