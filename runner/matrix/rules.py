"""Exclusions made ready for use: for each axis that a rule names, the set of values that it takes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runner.errors import UsageError
from runner.expr import holds
from runner.matrix.shape import MatrixFile, RuleSpec
from runner.matrix.special import Condition
from runner.model import BUILT_IN_AXES, Reason
from runner.strictyaml.mistakes import Mistakes, meant

AxisValues = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One exclusion."""

    values: Mapping[str, frozenset[str]]
    reason: Reason


def canonical(axes: Iterable[str]) -> tuple[str, ...]:
    """Axis names in the order of a cell id."""
    names = set(axes)
    return (*(name for name in BUILT_IN_AXES if name in names), *sorted(names.difference(BUILT_IN_AXES)))


def exclusions(file: MatrixFile, axes: AxisValues, where: str, mistakes: Mistakes) -> tuple[Exclusion, ...]:
    """The exclusions in the order of the file; notes what matches nothing.

    An exclusion is a product of sets, so one whose every set holds a value of its axis matches some cell.
    """
    found = []
    for rule in file.rules:
        if rule.exclude is None:
            continue
        values = {}
        for axis, conditions in rule.exclude:
            if axis.text in axes:
                values[axis.text] = matching(axis.text, conditions, axes[axis.text], mistakes)
            else:
                mistakes.add(axis.mark, f"exclude: {axis.text!r} is no axis", meant(axis.text, tuple(axes)))
        found.append(Exclusion(values, Reason(text=rule.reason.text, source=f"{where}:{rule.mark.line}")))
    return tuple(found)


def matching(
    axis: str, conditions: Sequence[Condition], values: Sequence[str], mistakes: Mistakes
) -> frozenset[str]:
    """The values of an axis that one of the conditions is true of; notes each condition that is true of none."""
    found: set[str] = set()
    for condition in conditions if values else ():
        if condition.op in ("=", "!=") and condition.value not in values:
            text = f"the axis {axis} has no value {condition.value!r}, so this matches nothing"
            mistakes.add(condition.mark, text, meant(condition.value, values))
            continue
        if condition.op == "=":
            found.add(condition.value)
            continue
        try:
            hit = [value for value in values if holds(value, condition.op, condition.value)]
        except UsageError:
            text = f"{condition.op} puts numbers in order, and the axis {axis} has other values"
            mistakes.add(condition.mark, text, "list the values instead")
            continue
        if not hit:
            text = f"no value of {axis} is {condition.op} {condition.value}, so this matches nothing"
            mistakes.add(condition.mark, text, f"values: {', '.join(values)}")
        found.update(hit)
    return frozenset(found)


def check_rules(rules: Sequence[RuleSpec], mistakes: Mistakes) -> None:
    """Note rules that are no rule, or two."""
    for rule in rules:
        if (rule.exclude is None) == (rule.require is None):
            mistakes.add(rule.mark, "a rule must have one of exclude and require", "write one rule for each")
        elif rule.exclude is not None and rule.when:
            mistakes.add(rule.mark, "when belongs to require", "name the axis values under exclude")
