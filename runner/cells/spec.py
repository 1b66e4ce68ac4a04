"""What a cell is started with: ``cell.json``, mounts, command line and environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.backends import pattern
from runner.facts import CellSpec, HandOver, Mount, Runtime
from runner.model import CellSettings, PlanEntry
from runner.records import Prepared
from runner.vendors import CACHE_DIR, CELL_ENV, cache_env, python_path

IN_CELL = Path(__file__).parents[1] / "incell"
"""Stdlib-only code that runs inside cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Host paths of one attempt. ``settings`` is shown read-only; the cell may write to ``out``, and to ``cache``."""

    settings: Path
    out: Path
    log: Path
    suite: Path
    in_cell: Path
    cache: Path | None = None


def build(
    entry: PlanEntry,
    prepared: Prepared,
    runtime: Runtime,
    place: Place,
    *,
    name: str,
    labels: Mapping[str, str],
    hand_over: HandOver,
    expect_engine: str | None,
) -> CellSpec:
    """Write ``cell.json`` and make the spec. Everything in it speaks of paths as the cell sees them."""
    settings = entry.settings
    mounts = [
        *(Mount(source=Path(each.source), target=each.target) for each in settings.mounts),
        Mount(source=place.settings, target="/cell"),
        Mount(source=place.suite, target="/suite"),
        Mount(source=place.in_cell, target="/matrix"),
    ]
    models = {}
    for model in filter(None, (settings.model, *settings.extra_models)):
        ready = prepared.models.get(f"{settings.image}|{model.name}")
        if ready is not None:
            mount = Mount(source=Path(ready.path), target=f"/models/{model.name}")
            mounts.append(mount)
            models[model.name] = runtime.view(mount.source, mount.target)
    out = runtime.view(place.out, "/out")
    suite = runtime.view(place.suite, "/suite")
    text = json.dumps(_cell_json(entry, models, out, expect_engine), indent=2) + "\n"
    (place.settings / "cell.json").write_text(text)
    (place.settings / "cell.json").chmod(0o644)
    image = prepared.images[settings.image]
    return CellSpec(
        name=name,
        image=image.ref,
        argv=_argv(settings, image.python, suite, out, place.suite),
        out_dir=place.out,
        log_path=place.log,
        limits=settings.limits,
        env={
            **CELL_ENV,
            **(cache_env(runtime.view(place.cache, CACHE_DIR)) if place.cache else {}),
            **settings.env,
            "PYTHONPATH": python_path(runtime.view(place.in_cell, "/matrix"), settings.env),
            "MATRIX_CELL": runtime.view(place.settings, "/cell") + "/cell.json",
            "MATRIX_OUT": out,
        },
        mounts=tuple(mounts),
        labels=labels,
        hand_over=hand_over,
        cache_dir=place.cache,
        # At SIGINT pytest stops, runs its teardowns and writes its report; at SIGTERM it dies without one.
        stop_signal="SIGTERM" if settings.suite.command else "SIGINT",
    )


def _cell_json(
    entry: PlanEntry, models: Mapping[str, str], out: str, expect_engine: str | None
) -> dict[str, object]:
    settings = entry.settings
    model = settings.model
    expect = settings.expect
    return {
        "schema": 1,
        "id": entry.cell.id,
        "axes": dict(entry.cell.axes),
        "proof": settings.suite.proof.value,
        "out": out,
        "model": None
        if model is None or model.name not in models
        else {"name": model.name, "path": models[model.name], "traits": list(model.traits)},
        "extra_models": {m.name: models[m.name] for m in settings.extra_models if m.name in models},
        "engine_args": dict(settings.engine_args),
        "expect": {
            "moe_method": expect.moe_method,
            "linear_scheme": expect.linear_scheme,
            "expert_weight_dtype": expect.expert_weight_dtype,
            "moe_backend": expect.moe_backend,
            "moe_backend_pattern": pattern(expect.moe_backend) if expect.moe_backend else None,
            "engine": expect_engine,
        },
    }


def _argv(settings: CellSettings, python: str, suite: str, out: str, host_suite: Path) -> tuple[str, ...]:
    if settings.suite.command:
        return tuple(part.replace("{suite}", suite).replace("{out}", out) for part in settings.suite.command)
    tests = [f"{suite}/{node}" for node in settings.suite.tests] or [suite]
    ini = ["-c", f"{suite}/pytest.ini"] if (host_suite / "pytest.ini").is_file() else ["-c", "/dev/null"]
    # Without the bound, pytest takes conftest.py files above the suite too, where a cell sees host paths.
    ini += ["--confcutdir", suite]
    options = ["--junitxml", f"{out}/junit.xml", "-o", "junit_family=xunit2", "-p", "no:cacheprovider"]
    return (python, "-m", "pytest", *ini, "--rootdir", suite, *tests, *options, "-p", "incell.testlog")
