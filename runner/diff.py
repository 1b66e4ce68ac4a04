"""What differs between two plans: cells, statuses with their reasons, and settings field by field. Pure.

Where a reason or a requirement stands in its file is no difference: a line added above would change every cell.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum

from runner.expr import is_number
from runner.model import Cell, CellSettings, ModelRef, Plan, PlanEntry, Reason, Requirement, Status

MOST_NAMES = 20
"""Cells listed by name under one change; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field, such as ``limits.total_s``, as text; None on a side where it is not there."""

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """A status, or the reasons for it, of one cell. The word ``refused``: planned, but red without a container."""

    cell: Cell
    old: str
    new: str
    old_reasons: tuple[Reason, ...] = ()
    new_reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """The changed settings of one cell that both plans hold."""

    cell: Cell
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDiff:
    """The difference of two plans. ``same_hash``: same cells and settings, whatever this host can run of them.

    ``plan`` has what differs beside the cells: axes and their values, retries, selection.
    """

    old: str
    new: str
    old_hash: str
    new_hash: str
    plan: tuple[FieldChange, ...]
    added: tuple[PlanEntry, ...]
    removed: tuple[PlanEntry, ...]
    statuses: tuple[StatusChange, ...]
    settings: tuple[SettingsChange, ...]
    unchanged: int

    @property
    def same_hash(self) -> bool:
        """Whether both have the same matrix hash."""
        return self.old_hash == self.new_hash

    @property
    def empty(self) -> bool:
        """Whether nothing differs: then the plans run the same cells in the same way."""
        return not (self.plan or self.added or self.removed or self.statuses or self.settings)


def diff(old: Plan, new: Plan) -> PlanDiff:
    """Compare two plans cell by cell, in the order of the new plan (removed ones: of the old)."""
    before = {entry.cell: entry for entry in old.entries}
    after = {entry.cell: entry for entry in new.entries}
    both = [(before[cell], entry) for cell, entry in after.items() if cell in before]
    statuses = [_status(was, now) for was, now in both]
    settings = [
        SettingsChange(cell=now.cell, fields=_settings(was.settings, now.settings)) for was, now in both
    ]
    same = sum(
        1 for status, change in zip(statuses, settings, strict=True) if status is None and not change.fields
    )
    return PlanDiff(
        old=old.matrix,
        new=new.matrix,
        old_hash=old.matrix_hash,
        new_hash=new.matrix_hash,
        plan=tuple(_changes(_of_plan(old), _of_plan(new))),
        added=tuple(entry for cell, entry in after.items() if cell not in before),
        removed=tuple(entry for cell, entry in before.items() if cell not in after),
        statuses=tuple(status for status in statuses if status is not None),
        settings=tuple(change for change in settings if change.fields),
        unchanged=same,
    )


def _of_plan(plan: Plan) -> dict[str, str]:
    values = {f"axis {name}": ", ".join(axis) for name, axis in plan.axes.items()}
    values["infra_retries"] = str(plan.infra_retries)
    return values | ({"selection": plan.selection} if plan.selection else {})


def _status(old: PlanEntry, new: PlanEntry) -> StatusChange | None:
    was, now = _word(old), _word(new)
    old_reasons, new_reasons = _reasons(old), _reasons(new)
    if was == now and {each.text for each in old_reasons} == {each.text for each in new_reasons}:
        return None
    return StatusChange(cell=new.cell, old=was, new=now, old_reasons=old_reasons, new_reasons=new_reasons)


def _word(entry: PlanEntry) -> str:
    return "refused" if entry.refused is not None else entry.status.value


def _reasons(entry: PlanEntry) -> tuple[Reason, ...]:
    return () if entry.status is Status.NOT_SELECTED else entry.reasons


def _settings(old: CellSettings, new: CellSettings) -> tuple[FieldChange, ...]:
    if old is new or old == new:
        return ()
    return tuple(_changes(dict(_leaves("", old)), dict(_leaves("", new))))


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[FieldChange]:
    for path in dict.fromkeys([*old, *new]):
        was, now = old.get(path), new.get(path)
        if was != now:
            yield FieldChange(path=path, old=was, new=now)


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Every plain value within settings, named by the way to it. Models of a list go by name, not by place."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"{path}.{key}", _plain(inner)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _leaves(f"{path}.{each.name}" if path else each.name, getattr(value, each.name))
    elif isinstance(value, tuple) and any(isinstance(item, ModelRef) for item in value):
        for item in value:
            yield from _leaves(f"{path}.{item.name}", item)
    elif isinstance(value, tuple) and value:
        yield path, _listed(path, value)
    elif value is not None and value != ():
        yield path, _plain(value)


def _listed(path: str, items: tuple[object, ...]) -> str:
    if all(isinstance(item, Requirement) for item in items):
        return "; ".join(sorted({_requirement(item) for item in items if isinstance(item, Requirement)}))
    words = [str(item) for item in items]
    return shlex.join(sorted(words) if path.endswith(".traits") else words)


def _requirement(need: Requirement) -> str:
    return f"{need.expression or 'never'} ({need.reason})" if need.reason else need.expression or "never"


def _plain(value: object) -> str:
    """A value as a matrix file would have it: a text that would read as something else in quotes."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str) and value and value not in ("true", "false", "null") and not is_number(value):
        return value
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else repr(value)


def text(found: PlanDiff, width: int = 100) -> str:
    """The difference for a person, equal changes of several cells told once. Ends with a newline."""
    page = _Page(max(40, width))
    page.line(f"Plan of {found.old} -> plan of {found.new}")
    page.line(_hashes(found))
    parts = {
        "added": len(found.added),
        "removed": len(found.removed),
        "with another status or reason": len(found.statuses),
        "with other settings": len(found.settings),
    }
    counts = [f"{count} {word}" for word, count in parts.items() if count]
    page.line("Cells: " + ", ".join([*counts, f"{found.unchanged} unchanged"]))
    page.changes("Plan", ((_arrow(change), ()) for change in found.plan))
    page.changes("Added", _grouped((f"+ {_told(entry)}", entry.cell) for entry in found.added))
    page.changes("Removed", _grouped((f"- {_told(entry)}", entry.cell) for entry in found.removed))
    page.changes("Status", _grouped((_moved(change), change.cell) for change in found.statuses))
    flat = ((_arrow(field), change.cell) for change in found.settings for field in change.fields)
    page.changes("Settings", _grouped(flat))
    return "\n".join(page.lines) + "\n"


def _hashes(found: PlanDiff) -> str:
    if found.same_hash:
        return f"matrix hash: the same, {found.new_hash[:16]}"
    return f"matrix hash: {found.old_hash[:16]} -> {found.new_hash[:16]}"


def _told(entry: PlanEntry) -> str:
    reasons = _reasons(entry)
    return _word(entry) + (f": {_because(reasons)}" if reasons else "")


def _moved(change: StatusChange) -> str:
    if change.old == change.new:
        return f"{change.new}, for another reason: {_because(change.old_reasons)} -> {_because(change.new_reasons)}"
    sides = [(change.old, change.old_reasons), (change.new, change.new_reasons)]
    return " -> ".join(word + (f": {_because(reasons)}" if reasons else "") for word, reasons in sides)


def _because(reasons: Sequence[Reason]) -> str:
    return (
        "; ".join(f"{each.text} ({each.source})" if each.source else each.text for each in reasons) or "none"
    )


def _arrow(change: FieldChange) -> str:
    old, new = (side if side is not None else "(not set)" for side in (change.old, change.new))
    return f"{change.path}: {old} -> {new}"


def _grouped(pairs: Iterable[tuple[str, Cell]]) -> list[tuple[str, list[Cell]]]:
    groups: dict[str, list[Cell]] = {}
    for what, cell in pairs:
        groups.setdefault(what, []).append(cell)
    return list(groups.items())


class _Page:
    """Lines no wider than a terminal, control characters made visible."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []

    def line(self, words: str, indent: int = 0) -> None:
        shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in words)
        self.lines += textwrap.wrap(
            shown,
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 4),
            break_on_hyphens=False,
        )

    def changes(self, title: str, groups: Iterable[tuple[str, Sequence[Cell]]]) -> None:
        for at, (what, cells) in enumerate(groups):
            if not at:
                self.lines += ["", title]
            count = f"  [{len(cells)} cell{'s' * (len(cells) != 1)}]" if cells else ""
            self.line(what + count, 2)
            for cell in cells[:MOST_NAMES]:
                self.line(cell.id, 6)
            if len(cells) > MOST_NAMES:
                self.line(f"and {len(cells) - MOST_NAMES} more", 6)
