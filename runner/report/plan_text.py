"""A plan on a terminal: what would run and in which order, what is refused, and what is left out with every reason."""

from __future__ import annotations

from collections.abc import Sequence

from runner.model import Plan
from runner.report.grid import fold, grid
from runner.report.groups import reason_text, shelves
from runner.report.paint import Style, draw
from runner.report.terminal import groups_text
from runner.report.text import clean, columns, count, pad, wrap
from runner.report.view import plan_cells, plan_sum

MOST_UNCOVERABLE = 10
"""Lines shown on what no cell can cover."""
MOST_CELLS = 200
"""Cells listed by name; ``plan --json`` has all of them."""


def plan_text(
    plan: Plan,
    runtime: str,
    *,
    color: bool = False,
    width: int = 100,
    plain: bool = False,
    order: Sequence[str] = (),
    cost: Sequence[str] = (),
) -> str:
    """The plan as text; totals add up to the product.

    ``runtime`` is one line on what would run the cells, empty where nobody looked. ``order`` has ids of cells in the
    order in which they start (default: plan order), ``cost`` lines on what they will take.
    """
    style = Style(color, max(60, width), plain)
    cells = plan_cells(plan)
    head = [style.bold(f"Plan of {clean(plan.matrix)}" + (f" on {clean(runtime)}" if runtime else ""))]
    head += wrap(plan_sum(plan), style.width)
    if plan.matrix_hash:
        head.append(f"matrix hash {clean(plan.matrix_hash)}")
    if plan.selection:
        head.append(f"selected by {clean(plan.selection)}")
    head += [line for remark in plan.remarks for line in wrap(f"note: {clean(remark)}", style.width)]
    blocks = [
        head,
        draw(fold(grid(cells, plan.axes)), style),
        _sample(plan, style),
        _cost(cost, style),
        _order(plan, style, order),
        _refused(plan, style),
        groups_text(shelves(cells, plan.axes), style),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _sample(plan: Plan, style: Style) -> list[str]:
    if not plan.certificate:
        return []
    first, *rest = plan.certificate
    lines = [style.bold("Sample"), *(f"  {line}" for line in wrap(clean(first), style.width - 2))]
    for line in rest[:MOST_UNCOVERABLE]:
        lines += [f"    {part}" for part in wrap(clean(line), style.width - 4, lines=2)]
    if len(rest) > MOST_UNCOVERABLE:
        lines.append(f"    and {len(rest) - MOST_UNCOVERABLE:,} more; plan --json has them")
    return lines


def _cost(cost: Sequence[str], style: Style) -> list[str]:
    if not cost:
        return []
    return [
        style.bold("Will cost"),
        *(f"  {line}" for each in cost for line in wrap(clean(each), style.width - 2)),
    ]


def _order(plan: Plan, style: Style, order: Sequence[str]) -> list[str]:
    entries = [entry for entry in plan.planned() if entry.refused is None]
    place = {cell: at for at, cell in enumerate(order)}
    entries.sort(key=lambda entry: place.get(entry.cell.id, len(place)))
    if not entries:
        return [style.bold("Nothing would run.")]
    shown = entries[:MOST_CELLS]
    ids = [clean(entry.cell.id) for entry in shown]
    widest = max(map(columns, ids))
    digits = len(str(len(shown)))
    lines = [style.bold(f"Would run, in this order ({count(len(entries), 'cell')})")]
    for at, (entry, name) in enumerate(zip(shown, ids, strict=True), 1):
        settings = entry.settings
        parts = [clean(settings.image), clean(settings.model.name) if settings.model else ""]
        parts.append(count(settings.devices, "device") if settings.devices else "")
        lines.append(f"  {at:>{digits}}  {pad(name, widest)}  {', '.join(filter(None, parts))}".rstrip())
    if len(entries) > len(shown):
        lines.append(f"  showing {len(shown):,} of {len(entries):,}; plan --json has all")
    return lines


def _refused(plan: Plan, style: Style) -> list[str]:
    entries = [(entry, entry.refused) for entry in plan.planned() if entry.refused is not None]
    if not entries:
        return []
    lines = [style.bold(f"Refused before any container, red in the run ({count(len(entries), 'cell')})")]
    for entry, reason in entries[:MOST_CELLS]:
        lines.append(f"  {style.face('refused')}  {clean(entry.cell.id)}")
        lines += [f"      {line}" for line in wrap(reason_text(reason), style.width - 6)]
    if len(entries) > MOST_CELLS:
        lines.append(f"  showing {MOST_CELLS:,} of {len(entries):,}; plan --json has all")
    return lines
