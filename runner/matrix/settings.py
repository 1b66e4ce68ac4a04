"""The settings of one cell, from layers: file, platform, quantization, include, overrides; the later one wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runner import backends
from runner.matrix.shape import (
    ExpectSpec,
    IncludeSpec,
    Layer,
    LimitsSpec,
    MatrixFile,
    ModelSpec,
    OverrideSpec,
    PlatformSpec,
    QuantizationSpec,
    SuiteSpec,
)
from runner.matrix.special import NeedSpec
from runner.model import CellSettings, Expectation, Limits, ModelRef, Requirement, Suite
from runner.strictyaml.scalars import Word
from runner.vendors import VENDORS

BACKEND_AXIS = "moe_backend"
"""An axis whose values the engine is passed and must prove (``runner/backends.py``)."""

LIMIT_FIELDS = {
    "prepare": "prepare_s",
    "start": "start_s",
    "idle": "idle_s",
    "total": "total_s",
    "stop_grace": "stop_grace_s",
    "memory": "memory_bytes",
    "shm": "shm_bytes",
    "pids": "pids",
    "log": "log_bytes",
}


def values_of(file: MatrixFile, name: str) -> list[Word]:
    """The values of an axis, and those that included cells give it."""
    own = [word for axis in file.axes if axis.name.text == name for word in axis.values]
    return own + [value for entry in file.include for axis, value in entry.cell if axis.text == name]


class Resolver:
    """Makes the settings of cells from one file. What cells share is made once."""

    def __init__(self, file: MatrixFile, where: str) -> None:
        self.file = file
        self.where = where
        self.models = {name: _model(name, spec) for name, spec in file.models.items()}
        self.extra = tuple(self.models[word.text] for word in file.extra_models)
        self.suite = _suite(file.suite)
        self.quantizations = {word.text: spec for word, spec in file.quantizations}
        self.backend_marks = {word.text: word.mark for word in values_of(file, BACKEND_AXIS)}

    def model_name(
        self, axes: Mapping[str, str], special: Sequence[IncludeSpec | OverrideSpec]
    ) -> str | None:
        """The model of a cell: of the last layer that names one, unless it is an axis."""
        if "model" in axes:
            return axes["model"]
        platform = axes["platform"]
        quantization = self.quantizations.get(axes.get("quantization", ""))
        named = [self.file.model] if self.file.model else []
        if quantization:
            named += [word for choice, word in quantization.model if choice.text in ("", platform)]
        named += [layer.model for layer in special if layer.model]
        return named[-1].text if named else None

    def settings(
        self, axes: Mapping[str, str], special: Sequence[IncludeSpec | OverrideSpec]
    ) -> CellSettings:
        """Everything the file says about one cell; ``special`` are its include entry and overrides, in order."""
        name = axes["platform"]
        general, platform, quantization = self._general(axes)
        stack = [*general, *special]
        backend = backends.asked(axes.get(BACKEND_AXIS, backends.AUTO))
        devices = int(axes.get("tp", "1")) if VENDORS[name].accelerator else 0
        if platform and platform.devices is not None:
            devices = platform.devices
        model = self.model_name(axes, special)
        return CellSettings(
            image=platform.image.text if platform and platform.image else f"images/{name}",
            suite=self.suite,
            limits=_limits([layer.limits for layer in stack]),
            devices=devices,
            model=self.models[model] if model else None,
            extra_models=tuple(extra for extra in self.extra if extra.name != model),
            engine_args={
                **{
                    word.text: value
                    for layer in general
                    for word, value in layer.engine_args
                    if backend is None or word.text != "moe_backend"
                },
                **(backend.engine_args if backend else {}),
                **{word.text: value for layer in special for word, value in layer.engine_args},
            },
            env={
                **{word.text: value for layer in general for word, value in layer.env},
                **(backend.env if backend else {}),
                **{word.text: value for layer in special for word, value in layer.env},
            },
            secrets=tuple(dict.fromkeys(word.text for layer in stack for word in layer.secrets)),
            expect=_expectation(
                [layer.expect for layer in general],
                [layer.expect for layer in special],
                axes[BACKEND_AXIS] if backend else None,
            ),
            requires=self._requirements(axes, platform, quantization, special),
            mounts=platform.mounts if platform else (),
            python=platform.python.text if platform and platform.python else "",
            engine_folders=tuple(word.text for word in platform.engine_digest) if platform else (),
        )

    def stack(self, axes: Mapping[str, str], special: Sequence[IncludeSpec | OverrideSpec]) -> list[Layer]:
        """The layers of one cell, the first to the last."""
        return [*self._general(axes)[0], *special]

    def _general(
        self, axes: Mapping[str, str]
    ) -> tuple[list[Layer], PlatformSpec | None, QuantizationSpec | None]:
        platform = self.file.platforms.get(axes["platform"])
        quantization = self.quantizations.get(axes.get("quantization", ""))
        return [layer for layer in (self.file, platform, quantization) if layer], platform, quantization

    def _requirements(
        self,
        axes: Mapping[str, str],
        platform: PlatformSpec | None,
        quantization: QuantizationSpec | None,
        special: Sequence[IncludeSpec | OverrideSpec],
    ) -> tuple[Requirement, ...]:
        name = axes["platform"]
        found = []
        value = axes.get(BACKEND_AXIS, backends.AUTO)
        if value != backends.AUTO and not backends.can_run(value, name):
            found.append(self._no_backend(value))
        if platform and platform.requires:
            found.append(self._requirement(platform.requires, f"{name} cells"))
        if quantization:
            own = [need for word, need in quantization.requires if word.text == name]
            found += [self._requirement(need, f"{axes['quantization']} on {name}") for need in own]
        for layer in special:
            if isinstance(layer, OverrideSpec) and layer.requires:
                found.append(self._requirement(layer.requires, f"cells with {layer.when}"))
        return tuple(found)

    def _no_backend(self, value: str) -> Requirement:
        mark = self.backend_marks.get(value)
        reason = f"moe_backend {value}: {backends.BACKENDS[value].why}"
        return Requirement(expression=None, reason=reason, source=f"{self.where}:{mark.line}" if mark else "")

    def _requirement(self, need: NeedSpec, whose: str) -> Requirement:
        source = f"{self.where}:{need.mark.line}"
        if need.needs is None:
            return Requirement(expression=None, reason=str(need.never), source=source)
        reason = need.reason.text if need.reason else f"needs {need.needs} ({whose})"
        return Requirement(expression=need.needs.text, reason=reason, source=source)


def _model(name: str, spec: ModelSpec) -> ModelRef:
    return ModelRef(
        name=name,
        recipe=_text(spec.recipe),
        hub=_text(spec.hub),
        revision=_text(spec.revision),
        fault=_text(spec.fault),
        traits=tuple(sorted(word.text for word in spec.traits)),
    )


def _suite(spec: SuiteSpec) -> Suite:
    suite = Suite(
        proof=spec.proof,
        tests=tuple(word.text for word in spec.tests),
        command=tuple(word.text for word in spec.command),
    )
    return replace(suite, path=spec.path.text) if spec.path else suite


def _limits(layers: Sequence[LimitsSpec | None]) -> Limits:
    given = {}
    for layer in filter(None, layers):
        for name, field in LIMIT_FIELDS.items():
            if getattr(layer, name) is not None:
                given[field] = getattr(layer, name)
    phases = {name: seconds for layer in filter(None, layers) for name, seconds in layer.phases.items()}
    return Limits(**given, phase_s=phases)


def _expectation(
    general: Sequence[ExpectSpec | None], special: Sequence[ExpectSpec | None], backend: str | None
) -> Expectation:
    """``backend`` is the value of the axis: more special than platform and quantization, less than an override."""
    given = _expected(general) | ({"moe_backend": backend} if backend else {}) | _expected(special)
    return Expectation(**given)


def _expected(layers: Sequence[ExpectSpec | None]) -> dict[str, str]:
    given: dict[str, str] = {}
    for layer in filter(None, layers):
        for name in ("moe_method", "linear_scheme", "expert_weight_dtype", "moe_backend"):
            word: Word | None = getattr(layer, name)
            if word is not None:
                given[name] = word.text
    return given


def _text(word: Word | None) -> str | None:
    return word.text if word else None
