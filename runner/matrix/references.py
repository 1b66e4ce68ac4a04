"""Checks names across the parts of a file: models, quantizations, included cells, expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.errors import UsageError
from runner.expr import Expr, parse
from runner.matrix.rules import AxisValues
from runner.matrix.settings import values_of
from runner.matrix.shape import IncludeSpec, Layer, MatrixFile, QuantizationSpec
from runner.matrix.special import NeedSpec, value_kind
from runner.strictyaml.mistakes import Mark, Mistakes, meant
from runner.strictyaml.scalars import Word

FACTS: Mapping[str, tuple[str, ...]] = {
    "cuda": ("capability", "memory_gib", "name"),
    "rocm": ("gfx", "memory_gib", "name"),
}
"""Host facts that a requirement may ask for. On cpu they are words without an end (flags), so none are refused."""


def base_axes(file: MatrixFile) -> dict[str, tuple[str, ...]]:
    """The values of every axis of the product.

    An axis with a value that could not be read has none here: nothing is said about what rules ask of it.
    """
    return {
        axis.name.text: tuple(word.text for word in axis.values) if axis.whole else () for axis in file.axes
    }


def all_axes(file: MatrixFile) -> dict[str, tuple[str, ...]]:
    """As :func:`base_axes`, with the values that only included cells have at the end."""
    axes = {axis.name.text: [word.text for word in axis.values] for axis in file.axes}
    for entry in file.include:
        for axis, value in entry.cell:
            if axis.text in axes and value.text not in axes[axis.text]:
                axes[axis.text].append(value.text)
    whole = {axis.name.text for axis in file.axes if axis.whole}
    return {name: tuple(values) if name in whole else () for name, values in axes.items()}


def check_names(file: MatrixFile, axes: AxisValues, mistakes: Mistakes) -> None:
    """Note names that nothing defines, and what contradicts itself."""
    for name, model in file.models.items():
        if (model.recipe is None) == (model.hub is None):
            mistakes.add(model.mark, f"model {name} must have one of recipe and hub", "write {recipe: NAME}")
        if model.hub is None and model.revision:
            mistakes.add(model.revision.mark, f"model {name}: a revision belongs to a hub name", "remove it")
        if model.recipe is None and model.fault:
            mistakes.add(model.fault.mark, f"model {name}: a fault is planted by a recipe", "remove it")
    if file.suite.tests and file.suite.command:
        mark = file.suite.tests[0].mark
        mistakes.add(mark, "suite has both tests and command", "a command names its tests itself")
    for word in () if mistakes.about("models.") else _model_names(file):
        if word.text not in file.models:
            fix = meant(word.text, tuple(file.models)) or _DEFINE
            mistakes.add(word.mark, f"there is no model {word.text!r}", fix)
    if "model" in axes:
        for word in _second_models(file):
            mistakes.add(word.mark, "the axis model says the model of a cell already", "remove this one")
    _check_quantizations(file, axes, mistakes)
    for platform, spec in file.platforms.items():
        _check_need(platform, spec.requires, mistakes)
    for override in file.overrides:
        _check_need("", override.requires, mistakes)


_DEFINE = "define it: models: {NAME: {recipe: RECIPE}}"


def _second_models(file: MatrixFile) -> list[Word]:
    found = [file.model, *(entry.model for entry in file.include), *(entry.model for entry in file.overrides)]
    return [*filter(None, found), *(word for _, spec in file.quantizations for _, word in spec.model)]


def _model_names(file: MatrixFile) -> list[Word]:
    return [*_second_models(file), *file.extra_models, *values_of(file, "model")]


def _check_quantizations(file: MatrixFile, axes: AxisValues, mistakes: Mistakes) -> None:
    defined: dict[str, QuantizationSpec] = {word.text: spec for word, spec in file.quantizations}
    for word in values_of(file, "quantization") if defined else ():
        if word.text not in defined:
            fix = meant(word.text, tuple(defined), what="defined")
            mistakes.add(word.mark, f"quantizations says nothing about {word.text!r}", fix)
    if defined and "quantization" not in axes:
        mark = file.quantizations[0][0].mark
        mistakes.add(mark, "there is no axis quantization", f"add quantization: [{', '.join(defined)}]")
    for spec in defined.values():
        for platform, need in spec.requires:
            _check_need(platform.text, need, mistakes)


def _check_need(platform: str, need: NeedSpec | None, mistakes: Mistakes) -> None:
    if need is not None and need.needs is not None:
        expression(need.needs, mistakes, names=FACTS.get(platform))


def expression(
    word: Word,
    mistakes: Mistakes,
    *,
    names: tuple[str, ...] | None = None,
    values: AxisValues | None = None,
) -> Expr | None:
    """An expression of the file, or None where it is none; the mistake has the column in the expression."""
    known = None if values is None else {name: each for name, each in values.items() if each}
    try:
        return parse(word.text, names=names if values is None else tuple(values), values=known)
    except UsageError as error:
        mistakes.add(word.mark, str(error))
        return None


def check_included(file: MatrixFile, axes: AxisValues, mistakes: Mistakes) -> None:
    """Note included cells that are no cell, or the same one twice."""
    seen: dict[tuple[tuple[str, str], ...], Mark] = {}
    for entry in file.include:
        broken = _check_cell(entry, axes, mistakes)
        cell = tuple(sorted((axis.text, value.text) for axis, value in entry.cell))
        first = seen.get(cell)
        seen.setdefault(cell, entry.mark)
        if first is not None and not broken:
            mistakes.add(
                entry.mark, f"this cell is included twice: here and in line {first.line}", "keep one entry"
            )


def _check_cell(entry: IncludeSpec, axes: AxisValues, mistakes: Mistakes) -> bool:
    given = {axis.text for axis, _ in entry.cell}
    broken = False
    for axis, value in entry.cell:
        if axis.text not in axes:
            mistakes.add(axis.mark, f"include: {axis.text!r} is no axis", meant(axis.text, tuple(axes)))
            broken = True
            continue
        wrong = value_kind(axis.text).wrong(value.text)
        if wrong:
            mistakes.add(value.mark, f"include: {axis.text}: {wrong[0]}", wrong[1])
            broken = True
    missing = [axis for axis in axes if axis not in given]
    if missing:
        mistakes.add(
            entry.mark, f"include: the cell has no value for {', '.join(missing)}", "name every axis"
        )
    return broken or bool(missing)


def check_secrets(layers: Sequence[Layer], mistakes: Mistakes) -> None:
    """Note variables that these layers of a cell give both a value and a secret: the value would stand in every file."""
    secrets = {word.text: word.mark for layer in reversed(layers) for word in reversed(layer.secrets)}
    for word in (word for layer in layers for word, _ in layer.env):
        if word.text in secrets:
            text = (
                f"env: {word.text} is among the secrets of the same cell, in line {secrets[word.text].line}"
            )
            mistakes.add(
                word.mark, text, "keep one: what stands under env is written into plan, report and log"
            )


def changes_something(layer: Layer) -> bool:
    """Whether a layer has any setting."""
    given = (
        layer.engine_args,
        layer.env,
        layer.secrets,
        layer.limits,
        layer.expect,
        getattr(layer, "model", None),
        getattr(layer, "requires", None),
    )
    return any(each not in ((), None) for each in given)
