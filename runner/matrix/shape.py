"""The keys of a matrix file, once: the reader and the JSON Schema are both made from these dataclasses."""

# ruff: noqa: RUF009 - key() is dataclasses.field with metadata; the defaults it makes are fresh for every value

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runner.matrix.special import (
    Axes,
    AxisSpec,
    Condition,
    Conditions,
    HostPath,
    ModelChoice,
    Need,
    NeedSpec,
    absolute,
    axis_name,
    axis_value,
    command_word,
    engine_arg,
    env_name,
    image,
    line,
    name,
    phase_name,
    platform_name,
)
from runner.model import HostFolder, Proof, Scalar
from runner.strictyaml.kinds import ListOf, MapOf, PlacedMapOf, Record, key
from runner.strictyaml.mistakes import TOP, Mark
from runner.strictyaml.scalars import Count, Duration, EngineValue, EnvValue, OneOf, Size, Word

EngineArgs = tuple[tuple[Word, Scalar], ...]
Env = tuple[tuple[Word, str], ...]
Conds = tuple[tuple[Word, tuple[Condition, ...]], ...]

Marks = Mapping[str, Mark]

_VERSION = "write version: 1; a file of another version needs another version of this program"
_ENGINE_ARGS = PlacedMapOf(MapOf(engine_arg, EngineValue()))
_ENV = PlacedMapOf(MapOf(env_name, EnvValue()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSpec:
    """Bounds of one cell."""

    marks: Marks = field(default_factory=dict)

    prepare: float | None = key(
        Duration(), "time for making ready an image, a probe or a model, each; 1h if not said", None
    )
    start: float | None = key(Duration(), "time until the first sign of life, such as 10m", None)
    idle: float | None = key(Duration(), "time without progress after which a cell is hung", None)
    total: float | None = key(Duration(), "time after which a cell is ended", None)
    stop_grace: float | None = key(Duration(), "time between asking a cell to stop and killing it", None)
    memory: int | None = key(Size(), "memory of one cell, such as 8g", None)
    shm: int | None = key(Size(), "shared memory of one cell", None)
    pids: int | None = key(Count(16, 1_000_000), "processes and threads of one cell", None)
    log: int | None = key(Size(), "log kept of one cell; the rest is cut and the cut stated", None)
    phases: Mapping[str, float] = key(
        MapOf(phase_name, Duration()), "time that single phases of the engine may take, such as load: 5m", {}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectSpec:
    """What the evidence of a cell must say."""

    moe_method: Word | None = key(name, "class of the MoE method on every rank", None)
    linear_scheme: Word | None = key(name, "class of the scheme of the attention projections", None)
    expert_weight_dtype: Word | None = key(name, "dtype of the expert weights, such as int8", None)
    moe_backend: Word | None = key(name, "kernel backend, where the engine says it", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Settings that may be given for all cells and again, more narrowly, for some."""

    mark: Mark
    marks: Marks = field(default_factory=dict)
    engine_args: EngineArgs = key(
        _ENGINE_ARGS, "arguments of the engine; unquoted true, false and numbers are typed", ()
    )
    env: Env = key(_ENV, "variables of the cell; values are text as written", ())
    secrets: tuple[Word, ...] = key(
        ListOf(env_name),
        "variables that cells get from the runner's own environment; kept out of every file",
        (),
    )
    limits: LimitsSpec | None = key(Record(LimitsSpec), "bounds of a cell", None)
    expect: ExpectSpec | None = key(Record(ExpectSpec), "what the engine must prove", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSpec(Layer):
    """What a platform means."""

    image: Word | None = key(
        image, "image reference, or folder with a Dockerfile; images/PLATFORM if not said", None
    )
    devices: int | None = key(Count(0, 64), "devices a cell leases; tp if not said, 0 on cpu", None)
    requires: NeedSpec | None = key(Need(), "condition on host facts for every cell of the platform", None)
    mounts: tuple[HostFolder, ...] = key(
        ListOf(HostPath()), "host paths that cells see read-only, such as /opt or /opt/a:/b", ()
    )
    python: Word | None = key(absolute, "interpreter in the cell where the image has none of its own", None)
    engine_digest: tuple[Word, ...] = key(
        ListOf(absolute), "host folders with the mounted engine; their content is hashed and recorded", ()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationSpec(Layer):
    """What a quantization method means."""

    model: tuple[tuple[Word, Word], ...] = key(ModelChoice(), "the model, or one for each platform", ())
    requires: tuple[tuple[Word, NeedSpec], ...] = key(
        PlacedMapOf(MapOf(platform_name, Need())), "condition on host facts for each platform", ()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Where a model comes from: one of recipe and hub."""

    mark: Mark
    recipe: Word | None = key(name, "recipe that makes the model locally", None, vital=True)
    fault: Word | None = key(name, "fault planted by the recipe, for tests of the suite", None)
    hub: Word | None = key(line, "name on the hub, an explicit choice", None, vital=True)
    revision: Word | None = key(line, "revision on the hub; resolved and recorded when prepared", None)
    traits: tuple[Word, ...] = key(ListOf(name), "what rules may ask for, such as mamba", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpec:
    """The tests that run in a cell."""

    marks: Marks = field(default_factory=dict)

    path: Word | None = key(line, "folder with the tests, relative to this file", None)
    proof: Proof = key(
        OneOf(Proof), "engine: a pass needs evidence; tests: JUnit and exit code alone", Proof.ENGINE
    )
    tests: tuple[Word, ...] = key(ListOf(line, least=1), "node ids instead of the whole folder", ())
    command: tuple[Word, ...] = key(
        ListOf(command_word, least=1),
        "command that writes the report itself, one word an item; {suite} and {out} are the cell's folders",
        (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySpec:
    """How often a cell is tried again."""

    infra: int = key(Count(0, 5), "attempts more after a fault of the host", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """An exclusion, or a demand on engine arguments; each with the reason that is shown."""

    mark: Mark
    exclude: Conds | None = key(Conditions(), "axis values whose cells are left out", None, vital=True)
    require: Conds | None = key(
        Conditions(), "engine arguments a cell must have; otherwise it is refused", None, vital=True
    )
    when: Conds = key(Conditions(), "the cells that a require is about", ())
    reason: Word = key(line, "give the reason that is shown", Word("", TOP), required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludeSpec(Layer):
    """One cell more, or settings for one that is there."""

    cell: tuple[tuple[Word, Word], ...] = key(
        PlacedMapOf(MapOf(axis_name, axis_value)), "one value for every axis"
    )
    model: Word | None = key(name, "the model of this cell", None)
    reason: Word | None = key(line, "why; explain-cell shows it", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideSpec(Layer):
    """Settings for the cells that an axis expression picks."""

    when: Word = key(line, "give an axis expression, such as platform=cpu and tp>1")
    model: Word | None = key(name, "the model of these cells", None)
    requires: NeedSpec | None = key(
        Need(), "condition on host facts for these cells, beside those they have", None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFile(Layer):
    """A matrix of cells for the matrix runner."""

    version: int = key(Count(1, 1, _VERSION), "begin the file with: version: 1", 1, required=True)
    axes: tuple[AxisSpec, ...] = key(Axes(), "give at least: axes: {platform: [cpu]}")
    suite: SuiteSpec = key(Record(SuiteSpec), "the tests that run in a cell", SuiteSpec())
    platforms: Mapping[str, PlatformSpec] = key(
        MapOf(platform_name, Record(PlatformSpec)), "what a platform means", {}
    )
    quantizations: tuple[tuple[Word, QuantizationSpec], ...] = key(
        PlacedMapOf(MapOf(axis_value, Record(QuantizationSpec))), "what a quantization method means", ()
    )
    models: Mapping[str, ModelSpec] = key(MapOf(name, Record(ModelSpec)), "where models come from", {})
    model: Word | None = key(name, "the model of cells whose quantization names none", None)
    extra_models: tuple[Word, ...] = key(
        ListOf(name), "models the suite wants in every cell beside its own", ()
    )
    engine_defaults: Mapping[str, Scalar] = key(
        MapOf(engine_arg, EngineValue()), "what rules take an engine argument to be where no cell sets it", {}
    )
    retry: RetrySpec = key(Record(RetrySpec), "how often a cell is tried again", RetrySpec())
    rules: tuple[RuleSpec, ...] = key(
        ListOf(Record(RuleSpec)), "exclusions and demands, each with a reason", ()
    )
    include: tuple[IncludeSpec, ...] = key(
        ListOf(Record(IncludeSpec)), "cells added after the exclusions", ()
    )
    overrides: tuple[OverrideSpec, ...] = key(
        ListOf(Record(OverrideSpec)), "settings by axis expression, applied in order, last of all", ()
    )


def layers(file: MatrixFile) -> Iterator[Layer]:
    """Everything in a file that holds settings."""
    yield file
    yield from file.platforms.values()
    yield from (spec for _, spec in file.quantizations)
    yield from file.include
    yield from file.overrides
