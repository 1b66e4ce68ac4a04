"""A run as one static, self-contained page: readable without script, quick with it up to 10,000 cells.

Everything a test wrote is escaped by jinja2 or set as text by the script; the page forbids all but its own script and
style by their hashes (Content Security Policy level 3), so markup that slipped through would stay inert.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runner.facts import PreparedImage
from runner.records import Run
from runner.report.agreement import agreement
from runner.report.card import ReadText, card, context
from runner.report.grid import Grid, grid
from runner.report.groups import left_out, reason_text
from runner.report.page_data import Budget, page_data, script_json
from runner.report.qualified import qualified
from runner.report.text import clean, count, seconds, short_digest, short_seconds
from runner.report.triaged import NEWS, news, numbers, settle_line, told
from runner.report.triaged import TONES as CHANGE_TONES
from runner.report.view import CellView, RunView, outcome_sum, plan_sum, view
from runner.report.vocabulary import LOOKS, TONES
from runner.triage import Comparison

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent
MOST_CARDS = 100
"""Red cells written out on the page; further ones open from the grid, and the page says so."""

MOST_OPEN = 5
"""Causes whose first cell has its log open."""

AXIS_REM, MOST_AXIS_REM = 6.5, 16.0
"""Least and most width of a row axis in the grid, rem; a longer value is cut and shown in full on its cell."""

TEXT_CHARS = 2_000_000
"""Characters of log excerpts and test messages in the whole page."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a block: the value of each row axis but the first, whether it differs from above, and the slots."""

    labels: tuple[tuple[str, bool], ...]
    slots: tuple[CellView | None, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One value of the first axis with its part of the grid. ``open`` is False where nothing in it was planned."""

    name: str
    summary: str
    why: str
    table: Grid
    rows: tuple[Line, ...]
    open: bool


def html(
    run: Run,
    read_text: ReadText,
    *,
    comparison: Comparison | None = None,
    since: Mapping[str, str] | None = None,
) -> str:
    """The page. ``read_text`` is asked for the logs of red cells only, within :data:`TEXT_CHARS` in all.

    ``comparison`` sets the run against a baseline; ``since`` names the first bad run by cell id, from history.
    """
    shown = view(run)
    budget = Budget(TEXT_CHARS)
    cards = tuple(card(cell, run, read_text, budget) for cell in shown.red[:MOST_CARDS])
    contexts = {c.slug: context(c, read_text).numbered for c in shown.red[MOST_CARDS : 3 * MOST_CARDS]}
    whole = grid(shown.cells, run.plan.axes)
    script, style = _asset("page.js"), _style(whole)
    lines = told(shown, comparison, since)
    changes = {one.cell.id: one for one in comparison.cells} if comparison else {}
    return _template().render(
        shown=shown,
        run=run,
        facts=_facts(shown),
        sums=(plan_sum(run.plan), outcome_sum(shown)),
        chips=_chips(shown),
        bar=_bar(shown),
        blocks=_blocks(shown, whole),
        cards=cards,
        firsts={line.cells[0].slug for line in lines[:MOST_OPEN]},
        carded={one.cell.slug for one in cards},
        triage=lines,
        numbers=numbers(lines),
        settle=settle_line(shown, lines, f"reports/{clean(run.run_id)}"),
        comparison=comparison,
        news=news(shown, comparison) if comparison else (),
        changes={cell: one for cell, one in changes.items() if one.change in NEWS},
        change_tones=CHANGE_TONES,
        heat=agreement(shown.cells, run.plan.axes),
        groups=left_out(shown.cells, run.plan.axes),
        looks=LOOKS,
        data=script_json(page_data(shown, contexts, budget, changes)),
        script=script,
        style=style,
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


@cache
def _template() -> Template:
    """The compiled template; compiling takes longer than a small page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"clean": clean, "face_time": short_seconds, "count": count}
    return environment.get_template("page.html.j2")


def _asset(name: str) -> str:
    return (HERE / name).read_text("utf-8")


def _style(table: Grid) -> str:
    """The style sheet with the colours of the tones, from the one table, and room for every column of the grid."""
    widths = _axis_widths(table)
    room = f".grid{{width:100%;min-width:{sum(widths) + 9.5 * len(table.columns):g}rem}}"
    room += "".join(
        f".grid thead th:nth-child({at}){{width:{width:g}rem}}"
        for at, width in enumerate(widths, 1)
        if width > AXIS_REM
    )
    light = "".join(f"--{t}:{c.light};--{t}-ground:{c.light_ground};" for t, c in TONES.items())
    dark = "".join(f"--{t}:{c.dark};--{t}-ground:{c.dark_ground};" for t, c in TONES.items())
    tones = "".join(
        f".{t}{{color:var(--{t})}}.on.{t}{{background:var(--{t}-ground)}}svg .{t}{{fill:var(--{t})}}"
        for t in TONES
    )
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{tones}\n{_asset('page.css')}{room}"


def _axis_widths(table: Grid) -> list[float]:
    """Room for the values of each row axis beside the first, in rem: two models that begin alike must not look alike."""
    longest = (
        max((len(value) for row in table.rows for value in row.keys[at]), default=0)
        for at in range(1, len(table.axes))
    )
    return [max(AXIS_REM, min(MOST_AXIS_REM, 0.48 * chars + 1.2)) for chars in longest]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _facts(shown: RunView) -> list[tuple[str, list[str]]]:
    run, what = shown.run, qualified(shown.run)
    cpu = clean(run.inventory.cpu.model)
    devices = sorted({clean(device.name or device.platform) for device in run.inventory.devices})
    facts = [
        ("Engine", [what.engine, what.mismatch]),
        *(("Image", [clean(image.ref or key), *_made(image)]) for key, image in run.prepared.images.items()),
        ("Ran on", [f"{what.runtime}, host {what.host}", ", ".join(filter(None, [cpu, *devices]))]),
        ("When", [clean(run.started_at), _took(run)]),
        (
            "Matrix",
            [
                clean(run.plan.matrix),
                f"hash {clean(run.plan.matrix_hash)[:16]}" if run.plan.matrix_hash else "",
            ],
        ),
        ("Selection", [clean(run.plan.selection)]),
        ("Command", [clean(run.command)]),
        ("Notes", [clean(remark) for remark in run.plan.remarks]),
    ]
    return [(name, lines) for name, texts in facts if (lines := [text for text in texts if text])]


def _made(image: PreparedImage) -> list[str]:
    digest = short_digest(clean(image.digest)) or "digest not known"
    return [f"{digest}, {clean(image.how)}" if image.how else digest]


def _took(run: Run) -> str:
    try:
        span = datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.started_at)
    except (ValueError, TypeError):  # not ended, or one of the two without a zone
        return ""
    return f"took {seconds(span.total_seconds())}"


def _chips(shown: RunView) -> list[tuple[str, int]]:
    counts = {**shown.outcomes}
    for cell in shown.cells:
        if not cell.planned:
            counts[cell.word] = counts.get(cell.word, 0) + 1
    return list(counts.items())


def _bar(shown: RunView) -> list[tuple[str, float, float]]:
    """Tone, start and width of each part of a bar 100 wide over the planned cells."""
    total = sum(shown.outcomes.values()) or 1
    parts, at = [], 0.0
    for word, number in shown.outcomes.items():
        width = 100 * number / total
        parts.append((LOOKS[word].tone.value, round(at, 3), round(width, 3)))
        at += width
    return parts


def _blocks(shown: RunView, whole: Grid) -> list[Block]:
    by_first: dict[str, list[CellView]] = {}
    for cell in shown.cells:
        by_first.setdefault(cell.entry.cell.axes[0][1] if cell.entry.cell.axes else "", []).append(cell)
    return [_block(name, cells, whole) for name, cells in by_first.items()]


def _block(name: str, cells: Sequence[CellView], whole: Grid) -> Block:
    counts: dict[str, int] = {}
    for cell in cells:
        counts[cell.word] = counts.get(cell.word, 0) + 1
    words = ", ".join(f"{counts[word]:,} {LOOKS[word].label}" for word in LOOKS if word in counts)
    planned = any(cell.planned for cell in cells)
    lines, above = [], [""] * len(whole.axes)
    for row in whole.rows:
        key = [values[0] for values in row.keys]
        if not key or key[0] == name:
            fresh = [above[: n + 1] != key[: n + 1] for n in range(len(key))]
            lines.append(Line(tuple(zip(key, fresh, strict=True))[1:], row.slots))
            above = key
    shared = [r for r in cells[0].entry.reasons if all(r in cell.entry.reasons for cell in cells)]
    why = "" if planned else "; ".join(map(reason_text, shared))
    return Block(clean(name), words, why, whole, tuple(lines), planned)
