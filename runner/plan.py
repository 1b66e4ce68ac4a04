"""Which cell of the product runs here, and why each other one does not. Pure: a matrix and host facts in, a plan out.

A cell is ``excluded`` if a rule says so; otherwise, if it is selected and a ``require`` rule is broken, it is planned
and refused (a wrong configuration is wrong on every host); otherwise ``not_runnable`` if this host lacks what it
needs; otherwise ``not_selected``; otherwise planned. All reasons of the first kind that applies are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runner.errors import UsageError
from runner.expr import Expr, parse
from runner.machine import Inventory
from runner.model import CellSettings, Matrix, MatrixCell, Plan, PlanEntry, Reason, Requirement, Status
from runner.vendors import VENDORS, never_ran

Facts = Callable[[str], Mapping[str, object]]
"""Host facts of a platform, by which requirements are decided."""


def make(
    matrix: Matrix,
    inventory: Inventory,
    facts: Facts,
    widths: Mapping[str, int],
    *,
    select: str = "",
    cells: tuple[str, ...] = (),
) -> Plan:
    """Decide every cell of the product. ``widths``: most devices of a platform that one cell can get together.

    ``select`` is an axis expression (``-k``), ``cells`` are cell ids or slugs (``--cell``); both given: both must hold.

    Raises:
        UsageError: an id that the product does not hold, or an expression that cannot be read.

    """
    wanted = _wanted(matrix, select, cells)
    entries = tuple(_entry(item, wanted(item), inventory, facts, widths) for item in matrix.cells)
    return Plan(
        matrix=matrix.path,
        matrix_hash=matrix.hash,
        axes=matrix.axes,
        entries=entries,
        infra_retries=matrix.infra_retries,
        selection=" ".join(
            filter(None, [f"-k {select!r}" if select else "", *(f"--cell {c}" for c in cells)])
        ),
        remarks=(
            *matrix.remarks,
            *never_ran(item.cell.get("platform") for item in matrix.cells if not item.excluded),
        ),
    )


def _wanted(matrix: Matrix, select: str, cells: tuple[str, ...]) -> Callable[[MatrixCell], bool]:
    expression: Expr | None = parse(select, values=matrix.axes) if select else None
    known = {item.cell.id: item for item in matrix.cells} | {item.cell.slug: item for item in matrix.cells}
    for name in cells:
        if name not in known:
            msg = f"--cell {name}: no such cell in {matrix.path} ({_nearest(name, known)})"
            raise UsageError(msg)
    ids = {known[name].cell.id for name in cells}

    def wanted(item: MatrixCell) -> bool:
        by_expression = expression is None or expression.matches(dict(item.cell.axes))
        return by_expression and (not ids or item.cell.id in ids)

    return wanted


def _nearest(name: str, known: Mapping[str, MatrixCell]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"nearest: {close[0]}" if close else "'plan FILE' lists them"


def _entry(
    item: MatrixCell, selected: bool, inventory: Inventory, facts: Facts, widths: Mapping[str, int]
) -> PlanEntry:
    def entry(status: Status, *reasons: Reason) -> PlanEntry:
        return PlanEntry(cell=item.cell, status=status, settings=item.settings, reasons=reasons)

    if item.excluded:
        return entry(Status.EXCLUDED, *item.excluded)
    if selected and item.refused is not None:
        return PlanEntry(
            cell=item.cell,
            status=Status.PLANNED,
            settings=item.settings,
            reasons=(item.refused,),
            refused=item.refused,
        )
    lacking = _lacking(item, inventory, facts, widths)
    if lacking:
        return entry(Status.NOT_RUNNABLE, *lacking)
    if not selected:
        return entry(Status.NOT_SELECTED, Reason(text="not selected on the command line"))
    return entry(Status.PLANNED)


def _lacking(
    item: MatrixCell, inventory: Inventory, facts: Facts, widths: Mapping[str, int]
) -> tuple[Reason, ...]:
    platform = item.cell.get("platform")
    reasons = [_never(item), *_device_reasons(platform, item.settings, inventory, widths[platform])]
    has_devices = not reasons[1:]
    # Without a device nothing is known of its capability: saying that it is too low would be a guess.
    unmet = [need for need in item.settings.requires if has_devices and not _met(need, facts(platform))]
    reasons += [
        Reason(text=need.reason or f"this host lacks: {need.expression}", source=need.source)
        for need in unmet
    ]
    ranks = item.cell.get("tp", "1")
    if not VENDORS[platform].accelerator and ranks.isdecimal() and int(ranks) > len(inventory.cpu.cores):
        reasons.append(
            Reason(text=f"needs one core per rank: tp {ranks}, this host offers {len(inventory.cpu.cores)}")
        )
    return tuple(reason for reason in reasons if reason is not None)


def _met(need: Requirement, known: Mapping[str, object]) -> bool:
    return need.expression is None or parse(need.expression).matches(known)


def _never(item: MatrixCell) -> Reason | None:
    for need in item.settings.requires:
        if need.expression is None:
            return Reason(text=need.reason, source=need.source)
    return None


def _device_reasons(platform: str, settings: CellSettings, inventory: Inventory, width: int) -> list[Reason]:
    if settings.devices <= width:
        return []
    have = sum(1 for device in inventory.devices if device.platform == platform)
    why = inventory.absent.get(platform, "")
    if not have and why:
        return [Reason(text=f"no {platform} device on this host: {why}")]
    text = f"needs {settings.devices} {platform} device{'s' * (settings.devices > 1)}, this host has {have}"
    return [Reason(text=text + (f" of which one cell gets {width} together" if have > width else ""))]


def as_json(plan: Plan) -> dict[str, object]:
    """What ``plan --json`` prints: every cell of the product, and totals by status that add up to it."""
    return {
        "matrix": plan.matrix,
        "matrix_hash": plan.matrix_hash,
        "axes": {name: list(values) for name, values in plan.axes.items()},
        "cells": [
            {
                "id": entry.cell.id,
                "slug": entry.cell.slug,
                "axes": dict(entry.cell.axes),
                "status": entry.status.value,
                "refused": entry.refused is not None,
                "reason": "; ".join(reason.text for reason in entry.reasons),
                "sources": [reason.source for reason in entry.reasons if reason.source],
                "note": VENDORS[entry.cell.get("platform")].never_ran,
            }
            for entry in plan.entries
        ],
        "certificate": list(plan.certificate),
        "product": len(plan.entries),
        "totals": plan.totals(),
    }


def sentence(plan: Plan) -> str:
    """The totals in one line, left-out statuses of zero cells not named."""
    words = [
        f"{count} {name.replace('_', ' ')}"
        for name, count in plan.totals().items()
        if count or name == "planned"
    ]
    return f"{len(plan.entries)} cells = {' + '.join(words)}"
