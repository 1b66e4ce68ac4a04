"""A run on a terminal: what was qualified, the grid, what was left out and why, and every red cell with its rerun line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runner.model import Outcome
from runner.records import Run
from runner.report.grid import fold, grid
from runner.report.groups import Shelf, shelves
from runner.report.paint import TESTS_ONLY, Style, draw
from runner.report.qualified import qualified
from runner.report.rerun import rerun_line
from runner.report.text import MARK, clean, columns, count, cut, pad, wrap
from runner.report.triaged import Told, news, numbers, settle_line, told
from runner.report.view import CellView, RunView, outcome_sum, plan_sum, view
from runner.report.vocabulary import LOOKS, Tone
from runner.triage import Comparison
from runner.vendors import never_ran

MOST_RED = 50
"""Red cells shown in full; the rest is in the page, and the terminal says so."""

MOST_GROUPS = 30
MOST_NEWS = 10


def terminal(
    run: Run,
    *,
    color: bool,
    width: int,
    folder: str = "",
    plain: bool = False,
    comparison: Comparison | None = None,
    since: Mapping[str, str] | None = None,
) -> str:
    """The whole report as text of at most ``width`` columns (at least 60); ends with a newline.

    Lines meant to be copied (paths, rerun lines) are never cut. ``folder`` is the run folder as the user should
    read it, by default ``reports/<run id>``. ``plain`` keeps to ASCII symbols for terminals without Unicode.
    ``comparison`` sets the run against a baseline; ``since`` names the first bad run by cell id, from history.
    """
    shown = view(run)
    style = Style(color, max(60, width), plain)
    folder = (folder or f"reports/{clean(run.run_id)}").rstrip("/")
    found = told(shown, comparison, since)
    blocks = [
        _head(shown, style),
        draw(fold(grid(shown.cells, run.plan.axes)), style, numbers(found)) + _footnotes(shown, style),
        groups_text(shelves(shown.cells, run.plan.axes), style),
        _red(shown, style, folder),
        _notices(shown, style),
        _against(shown, comparison, style),
        _triage(shown, found, style),
        _foot(shown, style, folder, settle_line(shown, found, folder)),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
    return text.replace(MARK, "~") if plain else text


def _head(shown: RunView, style: Style) -> list[str]:
    run, what = shown.run, qualified(shown.run)
    lines = [
        style.bold(line) for line in wrap(f"{what.engine} on {what.runtime}, host {what.host}", style.width)
    ]
    lines += [f"  image {image}" for image in what.images]
    if what.mismatch:
        lines.append(style.tone(f"  {what.mismatch}", shown.tone))
    lines += wrap(plan_sum(run.plan), style.width)
    if run.plan.selection:
        lines.append(f"selected by {clean(run.plan.selection)}")
    return lines


def _footnotes(shown: RunView, style: Style) -> list[str]:
    lines = [style.dim(line) for line in never_ran(shown.run.plan.axes.get("platform", ()))]
    if any(cell.proven_by_tests_only and cell.record for cell in shown.cells):
        lines.insert(0, style.dim(f"{TESTS_ONLY} no engine proof: judged by tests and exit code alone"))
    return lines


def groups_text(groups: Sequence[Shelf], style: Style) -> list[str]:
    """Left-out cells by the first axis, each reason once; shared with the plan."""
    if not groups:
        return []
    lines = [style.bold(f"Left out ({count(sum(group.size for group in groups), 'cell')})")]
    names = [cut(" ".join(group.names), 24) for group in groups]
    widest = max(map(columns, names))
    digits = max(len(f"{group.size:,}") for group in groups)
    faces = max(len(style.face(group.word)) for group in groups)
    above = ""
    for name, group in zip(names[:MOST_GROUPS], groups[:MOST_GROUPS], strict=True):
        face = style.face(group.word)
        start = f"  {pad('' if name == above else name, widest)}  {group.size:>{digits},}  "
        head = start + style.tone(face, LOOKS[group.word].tone) + " " * (faces - columns(face)) + "  "
        indent = columns(start) + faces + 2
        for line in _shelf(group, style.width - indent):
            lines.append(head + line)
            head = " " * indent
        above = name
    if hidden := groups[MOST_GROUPS:]:
        lines.append(f"  {sum(g.size for g in hidden):,} more in {count(len(hidden), 'other group')}")
    return lines


def _shelf(group: Shelf, room: int) -> Iterator[str]:
    """The reasons of a shelf; one that does not hold for all its cells says for how many, and where."""
    for text, number, where in group.reasons[:MOST_GROUPS]:
        part = f"{number:,}: " if number < group.size else ""
        yield from wrap(part + text + (f"  [{where}]" if where else ""), max(20, room), lines=3)
    if group.reasons[MOST_GROUPS:]:
        yield f"{count(len(group.reasons) - MOST_GROUPS, 'other reason')}"


def _indented(text: str, by: int, style: Style, *, lines: int) -> list[str]:
    return [" " * by + line for line in wrap(text, style.width - by, lines=lines)]


def _against(shown: RunView, comparison: Comparison | None, style: Style) -> list[str]:
    if comparison is None:
        return []
    lines = wrap(clean(comparison.text), style.width)
    lines[0] = style.bold(lines[0])
    listed = [one for one in news(shown, comparison) if not (one.cell and one.cell.red)]  # red ones: triage
    for one in listed[:MOST_NEWS]:
        why = f": {one.why}" if one.why else ""
        lines += _indented(f"{one.change}  {one.id} (before {one.before}){why}", 2, style, lines=2)
    if listed[MOST_NEWS:]:
        lines.append(f"  {count(len(listed) - MOST_NEWS, 'change')} more in the page")
    return lines


def _triage(shown: RunView, found: Sequence[Told], style: Style) -> list[str]:
    if not found:
        return []
    lines = [style.bold(f"Triage ({count(len(found), 'cause')} over {count(len(shown.red), 'red cell')})")]
    for one in found[:MOST_GROUPS]:
        face = f"{one.look.ascii if style.plain else one.look.symbol} {one.look.label}"
        number = f"  ({one.number})" if len(found) > 1 else ""
        head = f"{number}  {one.size:>5,}  {face}, {one.culprit}: "
        first = wrap(one.cause, max(20, style.width - columns(head)), lines=1)[0]
        lines.append(head.replace(face, style.tone(face, one.look.tone), 1) + first)
        for text in filter(None, (one.rule, one.masked, one.since, one.advice)):
            lines += _indented(text, 9, style, lines=3)
    if found[MOST_GROUPS:]:
        lines.append(f"  {count(len(found) - MOST_GROUPS, 'cause')} more in the page")
    return lines


def _notices(shown: RunView, style: Style) -> list[str]:
    if not shown.notices:
        return []
    lines = [style.bold("Beyond the cells")]
    for red, culprit, text in shown.notices[:MOST_GROUPS]:
        head = f"  {style.face(Outcome.FAILED).split(' ', 1)[0] if red else '-'} "
        first, *rest = wrap(text + (f" (culprit {culprit})" if red else ""), style.width - 4, lines=4)
        lines.append((style.tone(head, Tone.BAD) if red else head) + first)
        lines += [f"    {line}" for line in rest]
    if shown.notices[MOST_GROUPS:]:
        lines.append(f"  {count(len(shown.notices) - MOST_GROUPS, 'notice')} more in the page")
    return lines


def _red(shown: RunView, style: Style, folder: str) -> list[str]:
    red = shown.red
    if not red:
        return []
    lines = [style.bold(f"Not passed ({count(len(red), 'cell')})")]
    for cell in red[:MOST_RED]:
        lines += ["", *_red_cell(cell, shown.run, style, folder)]
    if red[MOST_RED:]:
        lines += ["", f"showing {MOST_RED} of {len(red):,}; the rest is in the page"]
    return lines


def _red_cell(cell: CellView, run: Run, style: Style, folder: str) -> list[str]:
    attempts = len(cell.record.attempts) if cell.record else 0
    tries = f", attempt {cell.attempt.number} of {attempts}" if cell.attempt and attempts > 1 else ""
    log = cell.log
    first, *rest = wrap(cell.cause, style.width - 11, lines=4)
    return [
        f"{style.tone(style.face(cell.word), cell.look.tone)}  {style.bold(cell.id)}",
        f"  culprit  {cell.culprit}{tries}",
        f"  cause    {first}",
        *(f"           {line}" for line in rest),
        f"  log      {f'{folder}/{log}' if log else _no_log(cell)}",
        f"  rerun    {rerun_line(run, cell.entry.cell)}",
    ]


def _no_log(cell: CellView) -> str:
    if cell.record and cell.record.refused:
        return "none: refused before any container"
    return "none: the cell left no log"


def _foot(shown: RunView, style: Style, folder: str, settle: str) -> list[str]:
    symbol = style.face(next(iter(shown.outcomes), "missing")).split(" ", 1)[0] if shown.green else "!"
    return [
        *wrap(outcome_sum(shown), style.width),
        *(
            style.bold(style.tone(line, shown.tone))
            for line in wrap(f"{symbol} {shown.headline}", style.width)
        ),
        *([f"settle  {settle}"] if settle else []),
        f"page  {folder}/index.html",
    ]
