"""How every setting of a cell came to be: the layer and line of the value that won, and those that it replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner import backends
from runner.errors import UsageError
from runner.expr import nearest
from runner.matrix.expand import Ready
from runner.matrix.read import read_matrix
from runner.matrix.settings import BACKEND_AXIS, LIMIT_FIELDS
from runner.matrix.shape import IncludeSpec, Layer, OverrideSpec, PlatformSpec, QuantizationSpec
from runner.model import Limits, Matrix, MatrixCell, ModelRef
from runner.strictyaml.mistakes import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value that a layer of the file gives; ``source`` is ``matrix.yaml:41``, empty for a default of the program."""

    value: str
    layer: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One setting: the value that holds, and what earlier layers had said, the latest first."""

    setting: str
    given: Given
    replaced: tuple[Given, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A cell with the origin of its axis values and of every setting."""

    item: MatrixCell
    axes: tuple[Origin, ...]
    settings: tuple[Origin, ...]

    def lines(self) -> list[str]:
        """The explanation for a person: a line for each setting, and below it what was replaced."""
        return _lines(self)


def explain_cell(path: Path, cell: str, *, apply_rules: bool, max_cells: int) -> Explained:
    """See :func:`runner.matrix.explain`."""
    ready, matrix = read_matrix(path, apply_rules=apply_rules, max_cells=max_cells)
    item = _find(matrix, cell)
    axes = dict(item.cell.axes)
    found: dict[str, list[Given]] = {}
    for name, given in _Layers(ready, axes).given():
        found.setdefault(name, []).insert(0, given)
    for name, given in _defaults(item):
        found.setdefault(name, [given])
    settings = tuple(
        Origin(setting=name, given=values[0], replaced=tuple(values[1:])) for name, values in found.items()
    )
    return Explained(item=item, axes=tuple(_axes(ready, axes)), settings=tuple(sorted(settings, key=_order)))


def _find(matrix: Matrix, name: str) -> MatrixCell:
    known = {item.cell.id: item for item in matrix.cells} | {item.cell.slug: item for item in matrix.cells}
    if name not in known:
        close = nearest(name, known)
        msg = f"{name}: no such cell in {matrix.path}" + (
            f", did you mean {close}?" if close else ": 'plan FILE' lists them"
        )
        raise UsageError(msg)
    return known[name]


_FIRST = ("image", "devices", "model", "suite")


def _order(origin: Origin) -> tuple[int, str]:
    head = origin.setting.partition(".")[0]
    return (_FIRST.index(head) if head in _FIRST else len(_FIRST), origin.setting)


def _axes(ready: Ready, axes: Mapping[str, str]) -> Iterator[Origin]:
    marks = {(axis.name.text, word.text): word.mark for axis in ready.file.axes for word in axis.values}
    included = _included(ready, axes)
    own = {axis.text: value.mark for axis, value in included.cell} if included else {}
    for name, value in axes.items():
        mark = marks.get((name, value), own.get(name))
        layer = "axes" if (name, value) in marks else "include"
        yield Origin(setting=name, given=_given(ready, value, layer, mark))


def _included(ready: Ready, axes: Mapping[str, str]) -> IncludeSpec | None:
    for entry in ready.file.include:
        if {axis.text: value.text for axis, value in entry.cell} == dict(axes):
            return entry
    return None


def _given(ready: Ready, value: object, layer: str, mark: Mark | None) -> Given:
    shown = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return Given(value=shown, layer=layer, source=f"{ready.where}:{mark.line}" if mark else "")


class _Layers:
    """The layers of a file that speak of one cell, first to last."""

    def __init__(self, ready: Ready, axes: Mapping[str, str]) -> None:
        self.ready = ready
        self.axes = axes
        file, name = ready.file, axes["platform"]
        method = axes.get("quantization", "")
        quantizations = {word.text: spec for word, spec in file.quantizations}
        stack: list[tuple[str, Layer | None]] = [
            ("top level", file),
            (f"platform {name}", file.platforms.get(name)),
            (f"quantization {method}", quantizations.get(method)),
            ("include", _included(ready, axes)),
        ]
        stack += [
            (f"override when {override.when}", override)
            for expression, override in ready.overrides
            if expression.matches(axes)
        ]
        self.stack = [(layer, spec) for layer, spec in stack if spec is not None]

    def given(self) -> Iterator[tuple[str, Given]]:
        """Every setting that a layer gives, in the order in which later ones win."""
        file = self.ready.file
        for name in ("path", "proof", "tests", "command"):
            if name in file.suite.marks:
                value = getattr(file.suite, name)
                text = " ".join(map(str, value)) if isinstance(value, tuple) else value
                yield f"suite.{name}", _given(self.ready, text, "suite", file.suite.marks[name])
        if "model" in self.axes:
            yield "model", Given(value=self.axes["model"], layer="axis model")
        elif file.model:
            yield "model", _given(self.ready, file.model, "top level", file.model.mark)
        for word in file.extra_models:
            yield f"extra_models.{word}", _given(self.ready, word, "top level", word.mark)
        special = [pair for pair in self.stack if isinstance(pair[1], IncludeSpec | OverrideSpec)]
        asked = backends.asked(self.axes.get(BACKEND_AXIS, backends.AUTO))
        for name, given in self._layers(self.stack[: len(self.stack) - len(special)]):
            if name != "engine_args.moe_backend" or asked is None or asked.engine_args:
                yield name, given
        yield from self._backend(asked)
        yield from self._layers(special)

    def _backend(self, asked: backends.Backend | None) -> Iterator[tuple[str, Given]]:
        if asked is not None:
            value, layer = self.axes[BACKEND_AXIS], f"axis {BACKEND_AXIS}"
            for name, argument in asked.engine_args.items():
                yield f"engine_args.{name}", Given(value=argument, layer=layer)
            for name, variable in asked.env.items():
                yield f"env.{name}", Given(value=variable, layer=layer)
            yield "expect.moe_backend", Given(value=value, layer=layer)
            if not backends.can_run(value, self.axes["platform"]):
                yield f"requires.{BACKEND_AXIS}", Given(value=backends.BACKENDS[value].why, layer=layer)

    def _layers(self, stack: Sequence[tuple[str, Layer]]) -> Iterator[tuple[str, Given]]:
        for layer, spec in stack:
            yield from self._common(layer, spec)
            if isinstance(spec, PlatformSpec):
                yield from self._platform(layer, spec)
            elif isinstance(spec, QuantizationSpec):
                yield from self._quantization(layer, spec)
            elif isinstance(spec, IncludeSpec | OverrideSpec) and spec.model:
                yield "model", _given(self.ready, spec.model, layer, spec.model.mark)
            if isinstance(spec, OverrideSpec) and spec.requires:
                yield from self._need(layer, spec.requires.mark, spec.requires.needs or spec.requires.never)

    def _common(self, layer: str, spec: Layer) -> Iterator[tuple[str, Given]]:
        for word, argument in spec.engine_args:
            yield f"engine_args.{word}", _given(self.ready, argument, layer, word.mark)
        for word, value in spec.env:
            yield f"env.{word}", _given(self.ready, value, layer, word.mark)
        for word in spec.secrets:
            yield f"secrets.{word}", _given(self.ready, word, layer, word.mark)
        for name in spec.limits.marks if spec.limits else ():
            value, mark = getattr(spec.limits, name), _of(spec.limits, name)
            if isinstance(value, Mapping):
                for phase, seconds in value.items():
                    yield f"limits.phases.{phase}", _given(self.ready, f"{seconds:g}s", layer, mark)
            else:
                yield f"limits.{name}", _given(self.ready, _limit(name, value), layer, mark)
        for name in (
            ("moe_method", "linear_scheme", "expert_weight_dtype", "moe_backend") if spec.expect else ()
        ):
            word = getattr(spec.expect, name)
            if word is not None:
                yield f"expect.{name}", _given(self.ready, word, layer, word.mark)

    def _platform(self, layer: str, spec: PlatformSpec) -> Iterator[tuple[str, Given]]:
        for name in ("image", "devices", "python"):
            if name in spec.marks:
                yield name, _given(self.ready, getattr(spec, name), layer, spec.marks[name])
        for mount in spec.mounts:
            text = mount.source if mount.source == mount.target else f"{mount.source}:{mount.target}"
            yield f"mounts.{mount.target}", _given(self.ready, text, layer, spec.marks["mounts"])
        for word in spec.engine_digest:
            yield f"engine_digest.{word}", _given(self.ready, word, layer, word.mark)
        if spec.requires:
            yield from self._need(layer, spec.requires.mark, spec.requires.needs or spec.requires.never)

    def _quantization(self, layer: str, spec: QuantizationSpec) -> Iterator[tuple[str, Given]]:
        platform = self.axes["platform"]
        for choice, word in spec.model if "model" not in self.axes else ():
            if choice.text in ("", platform):
                yield "model", _given(self.ready, word, layer, word.mark)
        for word, need in spec.requires:
            if word.text == platform:
                yield from self._need(layer, need.mark, need.needs or need.never)

    def _need(self, layer: str, mark: Mark, what: object) -> Iterator[tuple[str, Given]]:
        yield f"requires.{mark.line}", _given(self.ready, what, layer, mark)


def _limit(name: str, value: float | None) -> str:
    """A bound as a matrix file writes it."""
    if value is None:
        return ""
    if name in ("prepare", "start", "idle", "total", "stop_grace"):
        return f"{value:g}s"
    if name == "pids":
        return str(value)
    unit = next((unit for unit, shift in _UNITS.items() if int(value) % (1 << shift) == 0), "")
    return f"{int(value) >> _UNITS[unit]}{unit}" if unit else str(value)


_UNITS = {"g": 30, "m": 20, "k": 10}


def _of(spec: object, name: str) -> Mark | None:
    marks: Mapping[str, Mark] = getattr(spec, "marks", {})
    return marks.get(name)


def _defaults(item: MatrixCell) -> Iterator[tuple[str, Given]]:
    """What no layer gives and a cell has all the same."""
    settings = item.settings
    yield "image", Given(value=settings.image, layer="default: the folder of the platform")
    yield "devices", Given(value=str(settings.devices), layer="default: as many as tp says, none on cpu")
    if isinstance(settings.model, ModelRef):
        yield "model", Given(value=settings.model.name, layer="default")
    yield "suite.path", Given(value=settings.suite.path, layer="default")
    yield "suite.proof", Given(value=settings.suite.proof.value, layer="default")
    own = Limits()
    for name, field in LIMIT_FIELDS.items():
        value = getattr(own, field)
        if value is not None:
            yield f"limits.{name}", Given(value=_limit(name, value), layer="default")


def _lines(found: Explained) -> list[str]:
    item = found.item
    text = [f"{item.cell.id}", f"slug {item.cell.slug}"]
    text += [f"excluded: {reason.text} [{reason.source}]" for reason in item.excluded]
    if item.refused:
        text.append(f"refused: {item.refused.text} [{item.refused.source}]")
    if item.included_by:
        text.append(f"included by {item.included_by}")
    rows = [*found.axes, *found.settings]
    width = max(len(row.setting) for row in rows)
    for title, part in (("Axis values", found.axes), ("Settings", found.settings)):
        text += ["", title]
        for row in part:
            text.append(f"  {row.setting:<{width}}  {_told(row.given)}")
            text += [f"  {'':<{width}}    instead of {_told(given)}" for given in row.replaced]
    return text


def _told(given: Given) -> str:
    return f"{given.value}  [{given.source + ', ' if given.source else ''}{given.layer}]"
