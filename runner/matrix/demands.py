"""``require`` rules: engine arguments that a cell must have, under conditions on axes, model traits and arguments.

An argument that no layer of a cell sets counts as what ``engine_defaults`` declares; without a declaration it is
unknown, and a rule that hangs on it leaves the cell to the engine, which a remark says. Engines change their
defaults between versions (vLLM 0.26 has prefix caching off for mamba models, 0.32 on), so none is built in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.expr import holds
from runner.matrix.rules import AxisValues, matching
from runner.matrix.shape import Conds, MatrixFile, layers
from runner.matrix.special import Condition
from runner.model import CellSettings, Reason
from runner.strictyaml.mistakes import Mark, Mistakes, meant

MODEL_FACTS = ("model.name", "model.traits")
_WORDS_FOR_TRUTH = ("on", "off", "yes", "no", "True", "False", "TRUE", "FALSE")


@dataclass(frozen=True, slots=True)
class Demand:
    """One rule. ``axes`` are those that ``when`` names."""

    require: Conds
    when: Conds
    reason: Reason
    mark: Mark
    axes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rule says of a cell.

    ``applies`` is None where ``when`` cannot be decided, ``kept`` is None where ``require`` cannot. ``unknown`` and
    ``defaulted`` name the engine arguments that were not known, and those taken from ``engine_defaults``.
    """

    applies: bool | None
    kept: bool | None = True
    unknown: frozenset[str] = frozenset()
    defaulted: frozenset[str] = frozenset()


def demands(file: MatrixFile, axes: AxisValues, where: str, mistakes: Mistakes) -> tuple[Demand, ...]:
    """The rules in the order of the file; notes names and values that can never matter."""
    args = {word.text for layer in layers(file) for word, _ in layer.engine_args} | set(file.engine_defaults)
    found = []
    for rule in file.rules:
        if rule.require is None:
            continue
        for word, _ in rule.require:
            if word.text not in args:
                text = f"require: nothing sets the engine argument {word.text!r} and engine_defaults does not say it"
                mistakes.add(word.mark, text, meant(word.text, args) or "set it in engine_args")
        for word, conditions in rule.when:
            if word.text in axes:
                matching(word.text, conditions, axes[word.text], mistakes)
            elif word.text not in args and word.text not in MODEL_FACTS:
                text = f"when: {word.text!r} is no axis, no fact of a model, and no engine argument that anything sets"
                mistakes.add(word.mark, text, meant(word.text, {*axes, *MODEL_FACTS, *args}))
        _truths(((word.text, conditions) for word, conditions in (*rule.require, *rule.when)), args, mistakes)
        named = frozenset(word.text for word, _ in rule.when if word.text in axes)
        reason = Reason(text=rule.reason.text, source=f"{where}:{rule.mark.line}")
        found.append(Demand(rule.require, rule.when, reason, rule.mark, named))
    return tuple(found)


def _truths(named: Iterator[tuple[str, tuple[Condition, ...]]], args: set[str], mistakes: Mistakes) -> None:
    for name, conditions in named:
        for condition in conditions:
            if name in args and condition.value in _WORDS_FOR_TRUTH:
                text = f"{name}: {condition.value} is a text and never equal to true or false"
                mistakes.add(condition.mark, text, "write true or false")


def ask(
    demand: Demand, axes: Mapping[str, str], cell: CellSettings, defaults: Mapping[str, object]
) -> Answer:
    """What a rule says of a cell. Raises :class:`runner.errors.UsageError` where it puts texts in order."""
    unknown: set[str] = set()
    defaulted: set[str] = set()

    def decide(conditions: Conds) -> bool | None:
        answers = []
        for word, alternatives in conditions:
            known, fact = _fact(word.text, axes, cell)
            if not known and word.text in defaults:
                known, fact = True, defaults[word.text]
                defaulted.add(word.text)
            if known:
                answers.append(any(holds(fact, each.op, each.value) for each in alternatives))
            else:
                unknown.add(word.text)
        if not all(answers):
            return False
        return None if len(answers) < len(conditions) else True

    applies = decide(demand.when)
    if applies is False:
        return Answer(applies=False)
    kept = decide(demand.require)
    return Answer(applies, kept, frozenset(unknown), frozenset(defaulted))


def _fact(name: str, axes: Mapping[str, str], cell: CellSettings) -> tuple[bool, object]:
    if name in axes:
        return True, axes[name]
    if name in MODEL_FACTS:
        traits = cell.model.traits if cell.model else ()
        return True, traits if name == "model.traits" else cell.model.name if cell.model else None
    return name in cell.engine_args, cell.engine_args.get(name)
