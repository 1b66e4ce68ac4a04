"""The order of this room: path -> text -> nodes -> checked file -> cells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runner.matrix import product
from runner.matrix.commands import COMMAND_PLACES, unknown_places
from runner.matrix.demands import demands
from runner.matrix.digest import matrix_hash
from runner.matrix.expand import Expander, Group, Ready, check_expanded
from runner.matrix.places import check_limits, places, unreachable
from runner.matrix.references import (
    all_axes,
    base_axes,
    check_included,
    check_names,
    check_secrets,
    expression,
)
from runner.matrix.rules import canonical, check_rules, exclusions
from runner.matrix.shape import MatrixFile, layers
from runner.model import Matrix, MatrixCell
from runner.strictyaml.document import read_record
from runner.strictyaml.mistakes import Mistakes, TooMany, Unreadable, visible


def load_matrix(path: Path, *, apply_rules: bool, max_cells: int) -> Matrix:
    """See :func:`runner.matrix.load`."""
    return read_matrix(path, apply_rules=apply_rules, max_cells=max_cells)[1]


def read_matrix(path: Path, *, apply_rules: bool, max_cells: int) -> tuple[Ready, Matrix]:
    """As :func:`runner.matrix.load`, with the checked file, whose values know their places."""
    mistakes = Mistakes(visible(str(path), 4096))
    try:
        file = read_record(path, MatrixFile, mistakes)
        ready = _ready(file, path.name, apply_rules, mistakes)
    except (Unreadable, TooMany):
        mistakes.settle()
        raise
    mistakes.settle()
    _check_size(ready, max_cells, mistakes)
    mistakes.settle()
    expander, cells = _expand(ready, mistakes)
    matrix = Matrix(
        path=str(path),
        hash=matrix_hash(cells, file.retry.infra),
        axes={name: ready.axes[name] for name in expander.names},
        cells=cells,
        infra_retries=file.retry.infra,
        remarks=_remarks(ready, expander.groups),
        places=places(file, path.name),
    )
    return ready, matrix


def _expand(ready: Ready, mistakes: Mistakes) -> tuple[Expander, tuple[MatrixCell, ...]]:
    expander = Expander(ready, mistakes)
    cells: tuple[MatrixCell, ...] = ()
    with suppress(TooMany):
        cells = expander.cells()
        check_expanded(expander, mistakes)
    mistakes.settle()
    return expander, cells


def _ready(file: MatrixFile, where: str, apply_rules: bool, mistakes: Mistakes) -> Ready:
    axes = all_axes(file)
    check_names(file, axes, mistakes)
    check_included(file, axes, mistakes)
    check_rules(file.rules, mistakes)
    check_limits(file, mistakes)
    for layer in layers(file):
        check_secrets([layer], mistakes)
    overrides = [(expression(each.when, mistakes, values=axes), each) for each in file.overrides]
    return Ready(
        file=file,
        where=where,
        axes=axes,
        exclusions=exclusions(file, base_axes(file), where, mistakes),
        demands=demands(file, axes, where, mistakes),
        overrides=tuple((found, each) for found, each in overrides if found is not None),
        apply_rules=apply_rules,
    )


def _check_size(ready: Ready, max_cells: int, mistakes: Mistakes) -> None:
    base = base_axes(ready.file)
    total = product.size(base) + len(ready.file.include)
    if total > max_cells:
        left = product.left(canonical(base), base, ready.exclusions)
        after = "" if left is None else f" ({left} after exclude)"
        text = f"the product has {product.size(base)} cells{after}, the limit is {max_cells}"
        mistakes.add(
            ready.file.axes[0].name.mark, text, "use fewer values, or raise the limit with --max-cells"
        )


def _remarks(ready: Ready, groups: Sequence[Group]) -> tuple[str, ...]:
    live = [group for group in groups if group.live]
    found = []
    for name, values in base_axes(ready.file).items():
        added = ready.axes[name][len(values) :]
        if added:
            more = f" and {len(added) - 5} more" if len(added) > 5 else ""
            found.append(f"only included cells have {name}={', '.join(added[:5])}{more}")
    defaulted = sorted({arg for group in live for answer in group.answers for arg in answer.defaulted})
    for arg in defaulted:
        value = ready.file.engine_defaults[arg]
        shown = str(value).lower() if isinstance(value, bool) else value
        found.append(f"rules take {arg} as {shown} where no cell sets it (engine_defaults)")
    for number, demand in enumerate(ready.demands):
        undecided = [group.answers[number] for group in live if _undecided(group, number)]
        if undecided:
            unknown = ", ".join(sorted({arg for answer in undecided for arg in answer.unknown}))
            text = f"{demand.reason.source}: left to the engine where {unknown} is not set; engine_defaults can say it"
            found.append(text)
    for word in ready.file.suite.command:
        for place in dict.fromkeys(unknown_places(word.text)):
            at = f"{ready.where}:{word.mark.line}:{word.mark.column}"
            known = ", ".join(COMMAND_PLACES)
            found.append(
                f"{at}: suite.command: {place} reaches the cell as it stands; only {known} are replaced"
            )
    found += unreachable(ready.file, ready.where, [group.settings.limits for group in live])
    if ready.demands and not ready.apply_rules:
        found.append("require rules do not refuse cells in this run: the engine judges")
    return tuple(found)


def _undecided(group: Group, number: int) -> bool:
    answer = group.answers[number]
    return answer.applies is not False and answer.kept is not True and None in (answer.applies, answer.kept)
