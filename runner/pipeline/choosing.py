"""Which of the cells that could run do run: a sample that covers pairs or triples, and one machine's share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runner import matrix
from runner.errors import UsageError
from runner.expr import nearest
from runner.model import Cell, Matrix, Plan, PlanEntry, Reason, Status
from runner.pipeline import durations

SHOWN = 200
"""Lines of a certificate that a plan keeps on what cannot be covered."""
WORDS = {1: "value", 2: "pair", 3: "triple"}


def sample(plan: Plan, read: Matrix, strength: int, key: str, pins: Sequence[str]) -> Plan:
    """Keep the fewest planned cells that have every combination of ``strength`` axis values that planned cells have.

    Cells that the file includes and those of ``pins`` are always kept, and so are refused ones, which start nothing.

    Raises:
        UsageError: a pin that is not planned, or a strength the axes do not allow.

    """
    able = [entry.cell for entry in plan.planned() if entry.refused is None]
    if not able:
        return plan
    chosen = matrix.cover(
        able,
        strength,
        pinned=_pinned(able, read, pins),
        key=key,
        axes=plan.axes,
        left_out={entry.cell: entry.reasons for entry in plan.entries if entry.status is not Status.PLANNED},
    )
    kept = set(chosen.cells)
    uncoverable = chosen.certificate.uncoverable
    lines = [chosen.sentence(), *chosen.remarks, *map(str, uncoverable[:SHOWN])]
    if len(uncoverable) > SHOWN:
        lines.append(f"and {len(uncoverable) - SHOWN} more that cannot occur")
    named = f"--cover {strength}" + (f" --rotate {key}" if key else "")
    word = WORDS.get(strength, "combination")
    text = f"not in the {word} cover ({named}): cells that are in it have every {word} of values that this one has"
    left = _leave_out(plan, lambda entry: entry.cell in kept or entry.refused is not None, text)
    return replace(left, certificate=tuple(lines), selection=f"{plan.selection} {named}".strip())


def _pinned(able: Sequence[Cell], read: Matrix, pins: Sequence[str]) -> list[Cell]:
    known = {cell.id: cell for cell in able} | {cell.slug: cell for cell in able}
    for name in pins:
        if name not in known:
            close = nearest(name, known)
            msg = f"--pin {name}: no such cell would run" + (f", did you mean {close}?" if close else "")
            raise UsageError(msg)
    included = {item.cell for item in read.cells if item.included_by}
    return [cell for cell in able if cell in included] + [known[name] for name in pins]


def share(plan: Plan, text: str, known: Mapping[str, float]) -> Plan:
    """Keep the cells of one shard (``I/N``), dealt out by known durations and stated guesses.

    All machines must see the same cells and durations. Raises :class:`UsageError` for a text that is no shard.
    """
    index, count = matrix.parse_shard(text)
    entries = plan.planned()
    seconds = {
        entry.cell.id: durations.GUESS_S[entry.cell.get("platform")] for entry in entries
    } | durations.by_cell(entries, known)
    kept = set(matrix.shard([entry.cell for entry in entries], index, count, seconds, 60.0))
    left = _leave_out(
        plan, lambda entry: entry.cell in kept, f"in another shard than {index}/{count} (--shard)"
    )
    return replace(left, selection=f"{plan.selection} --shard {index}/{count}".strip())


def _leave_out(plan: Plan, keep: Callable[[PlanEntry], bool], text: str) -> Plan:
    reason = (Reason(text=text),)
    entries = tuple(
        replace(entry, status=Status.NOT_SELECTED, reasons=reason, refused=None)
        if entry.status is Status.PLANNED and not keep(entry)
        else entry
        for entry in plan.entries
    )
    return replace(plan, entries=entries)
