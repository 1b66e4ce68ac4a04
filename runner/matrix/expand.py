"""From a checked file to cells, in one order: product, exclude, include, overrides, then the require rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from runner.errors import UsageError
from runner.expr import Expr
from runner.matrix import product
from runner.matrix.demands import Answer, Demand, ask
from runner.matrix.references import base_axes, changes_something, check_secrets
from runner.matrix.rules import AxisValues, Exclusion, canonical
from runner.matrix.settings import BACKEND_AXIS, Resolver
from runner.matrix.shape import IncludeSpec, Layer, MatrixFile, OverrideSpec
from runner.model import Cell, CellSettings, MatrixCell, Proof, Reason
from runner.strictyaml.mistakes import Mistakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A file with its rules and expressions made ready for use. ``axes`` has the values of included cells too."""

    file: MatrixFile
    where: str
    axes: AxisValues
    exclusions: tuple[Exclusion, ...]
    demands: tuple[Demand, ...]
    overrides: tuple[tuple[Expr, OverrideSpec], ...]
    apply_rules: bool


@dataclass(slots=True)
class Group:
    """Cells with the same settings. ``live``: one of them at least is not excluded."""

    axes: Mapping[str, str]
    settings: CellSettings
    overrides: tuple[int, ...]
    answers: tuple[Answer, ...]
    refused: Reason | None
    layers: Sequence[Layer]
    live: bool = False


@dataclass(slots=True)
class Expander:
    """Makes the cells of one file; afterwards ``groups`` holds what they share."""

    ready: Ready
    mistakes: Mistakes
    groups: list[Group] = field(default_factory=list)
    names: tuple[str, ...] = ()
    resolver: Resolver = field(init=False)

    def __post_init__(self) -> None:
        self.names = canonical(self.ready.axes)
        self.resolver = Resolver(self.ready.file, self.ready.where)

    def cells(self) -> tuple[MatrixCell, ...]:
        """The product in the order of its axes and values, then what ``include`` adds."""
        ready = self.ready
        base = base_axes(ready.file)
        included = {self._combo(entry): entry for entry in ready.file.include}
        reasons = _Reasons(ready.exclusions)
        shared = _Shared(self)
        found = []
        for combo, live in product.walk(self.names, base, ready.exclusions):
            if included and combo in included:
                found.append(self._included(combo, included.pop(combo), in_product=True, excluded=bool(live)))
                continue
            group = shared[shared.key(combo)]
            if live:
                found.append(MatrixCell(cell=Cell(combo), settings=group.settings, excluded=reasons[live]))
            else:
                group.live = True
                found.append(MatrixCell(cell=Cell(combo), settings=group.settings, refused=group.refused))
        for combo, entry in included.items():
            found.append(self._included(combo, entry, in_product=False, excluded=False))
        self.groups.extend(shared.values())
        return tuple(found)

    def _combo(self, entry: IncludeSpec) -> product.Combo:
        values = {axis.text: value.text for axis, value in entry.cell}
        return tuple((name, values[name]) for name in self.names)

    def _included(
        self, combo: product.Combo, entry: IncludeSpec, *, in_product: bool, excluded: bool
    ) -> MatrixCell:
        if in_product and not excluded and not changes_something(entry):
            text = "include: this cell is in the product already and the entry changes nothing"
            self.mistakes.add(entry.mark, text, "give it settings, or remove it")
        group = self.group(combo, entry)
        group.live = True
        self.groups.append(group)
        because = f": {entry.reason}" if entry.reason else ""
        return MatrixCell(
            cell=Cell(combo),
            settings=group.settings,
            refused=group.refused,
            included_by=f"{self.ready.where}:{entry.mark.line}{because}",
        )

    def group(self, combo: Sequence[product.Pair], entry: IncludeSpec | None = None) -> Group:
        """Settings and rules for the cells with these values of the axes that matter."""
        axes = dict(combo)
        picked = tuple(number for number in range(len(self.ready.overrides)) if self._picks(number, axes))
        special: list[IncludeSpec | OverrideSpec] = [entry] if entry else []
        special += [self.ready.overrides[number][1] for number in picked]
        settings = self.resolver.settings(axes, special)
        answers = tuple(self._ask(demand, axes, settings) for demand in self.ready.demands)
        layers = self.resolver.stack(axes, special)
        return Group(axes, settings, picked, answers, self._refusal(answers), layers)

    def _picks(self, number: int, axes: Mapping[str, str]) -> bool:
        expression, override = self.ready.overrides[number]
        try:
            return expression.matches(axes)
        except UsageError:
            text = f"when: {override.when.text!r} puts values in order that are no numbers"
            self.mistakes.add(override.when.mark, text, "use = or != for texts")
            return True

    def _ask(self, demand: Demand, axes: Mapping[str, str], settings: CellSettings) -> Answer:
        try:
            return ask(demand, axes, settings, self.ready.file.engine_defaults)
        except UsageError:
            text = "the rule puts values in order that are no numbers"
            self.mistakes.add(demand.mark, text, "use = or != for texts")
            return Answer(applies=True)

    def _refusal(self, answers: Sequence[Answer]) -> Reason | None:
        broken = [
            demand.reason
            for demand, answer in zip(self.ready.demands, answers, strict=True)
            if answer.applies and answer.kept is False
        ]
        if not broken or not self.ready.apply_rules:
            return None
        text = "; ".join(reason.text for reason in broken)
        return Reason(text=text, source=", ".join(reason.source for reason in broken))


class _Reasons(dict[int, tuple[Reason, ...]]):
    """The reasons of exclusions by their bits."""

    def __init__(self, rules: Sequence[Exclusion]) -> None:
        super().__init__()
        self.rules = rules

    def __missing__(self, live: int) -> tuple[Reason, ...]:
        self[live] = tuple(self.rules[number].reason for number in product.numbers(live))
        return self[live]


class _Shared(dict[Sequence[product.Pair], Group]):
    """Groups by the values of the axes that settings and rules look at."""

    def __init__(self, expander: Expander) -> None:
        super().__init__()
        self.expander = expander
        ready = expander.ready
        looked_at = {"platform", "quantization", "tp", "model", BACKEND_AXIS}
        looked_at.update(*(expression.names for expression, _ in ready.overrides))
        looked_at.update(*(demand.axes for demand in ready.demands))
        places = [place for place, name in enumerate(expander.names) if name in looked_at]
        self.key = itemgetter(*places, places[0])

    def __missing__(self, key: Sequence[product.Pair]) -> Group:
        self[key] = self.expander.group(key)
        return self[key]


def check_expanded(expander: Expander, mistakes: Mistakes) -> None:
    """Note what only the cells can show: nothing left, rules and overrides of no effect, cells without a model."""
    ready = expander.ready
    live = [group for group in expander.groups if group.live]
    if not live:
        text = "every cell is excluded, so there is nothing to run"
        mistakes.add(ready.file.axes[0].name.mark, text, "relax an exclusion")
        return
    for group in live:
        if not group.settings.env.keys().isdisjoint(group.settings.secrets):
            check_secrets(group.layers, mistakes)
    used = {number for group in live for number in group.overrides}
    for number, (_, override) in enumerate(ready.overrides):
        if number not in used:
            mistakes.add(
                override.when.mark, f"when: {override.when.text!r} picks no cell that is left", "remove it"
            )
        if not changes_something(override):
            mistakes.add(override.mark, "the override changes nothing", "give it settings, or remove it")
    for number, demand in enumerate(ready.demands):
        if all(group.answers[number].applies is False for group in live):
            mistakes.add(
                demand.mark, "this rule is about no cell that is left: its when is true of none", "remove it"
            )
    if expander.resolver.suite.proof is Proof.ENGINE and not expander.resolver.suite.command:
        _check_models(ready.file, live, mistakes)


def _check_models(file: MatrixFile, live: Sequence[Group], mistakes: Mistakes) -> None:
    marks = {(axis.name.text, word.text): word.mark for axis in file.axes for word in axis.values}
    for group in live:
        if group.settings.model is None:
            named = {name: group.axes[name] for name in ("quantization", "platform") if name in group.axes}
            cells = ", ".join(f"{name}={value}" for name, value in named.items())
            mark = next((marks[pair] for pair in named.items() if pair in marks), file.axes[0].name.mark)
            text = f"cells with {cells} have no model, which a suite with proof: engine needs"
            mistakes.add(mark, text, "name one under quantizations or as model, or say suite: {proof: tests}")
