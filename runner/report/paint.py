"""Lines of a terminal: the style (colour, symbols, width) and the grid drawn as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.model import Cell
from runner.report.grid import Grid
from runner.report.text import clean, columns, cut, pad, short_seconds
from runner.report.view import CellView
from runner.report.vocabulary import LOOKS, TONES, Tone

GAP = "  "
TESTS_ONLY = "*"
"""Mark of a cell that passed on tests and exit code alone."""


@dataclass(frozen=True, slots=True)
class Style:
    """How to write on this terminal. ``plain`` keeps to ASCII symbols and rules."""

    color: bool
    width: int
    plain: bool = False

    def tone(self, text: str, tone: Tone) -> str:
        """Text in the colour of a tone, where colour is wanted."""
        return f"\x1b[{TONES[tone].sgr}m{text}\x1b[0m" if self.color else text

    def bold(self, text: str) -> str:
        """A heading."""
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def dim(self, text: str) -> str:
        """Text of less weight."""
        return f"\x1b[2m{text}\x1b[0m" if self.color else text

    def face(self, word: str) -> str:
        """Symbol and label of a word."""
        look = LOOKS[word]
        return f"{look.ascii if self.plain else look.symbol} {look.label}"

    def rule(self, width: int) -> str:
        """A horizontal line."""
        return self.dim(("-" if self.plain else "─") * width)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One column of the body: its title and, for each row, the cell, its face and its time, and the widths of these.

    ``face_width`` is over the faces with a time, so that times stand under each other.
    """

    title: str
    slots: tuple[CellView | None, ...]
    faces: tuple[str, ...]
    times: tuple[str, ...]
    width: int
    face_width: int
    time_width: int

    def paint(self, at: int, style: Style) -> str:
        """The slot of one row, as wide as the column."""
        slot, face, time = self.slots[at], self.faces[at], self.times[at]
        if slot is None:
            return " " * self.width
        shown = style.tone(face, slot.look.tone)
        if not time:
            return shown + " " * (self.width - columns(face))
        tail = " " * (self.width - self.face_width - 1 - self.time_width)
        return (
            shown
            + " " * (self.face_width - columns(face) + 1)
            + style.dim(f"{time:>{self.time_width}}")
            + tail
        )


def draw(table: Grid, style: Style, numbers: Mapping[Cell, int] | None = None) -> list[str]:
    """The grid as lines no wider than the style's width; ``numbers`` are those of the causes of red cells.

    Where it does not fit, times are left out; columns that still do not fit follow below, with their row labels.
    """
    keys = [[" ".join(map(clean, values)) for values in row.keys] for row in table.rows]
    heads = [clean(name) for name in table.axes]
    most = max(12, (style.width // 2) // max(1, len(heads)))
    widths = [
        min(most, max(columns(head), *(columns(key[at]) for key in keys))) for at, head in enumerate(heads)
    ]
    room = style.width - sum(widths) - len(GAP) * len(widths)
    parts = _parts(_columns(table, style, numbers or {}, times=True), room)
    if len(parts) > 1:
        parts = _parts(_columns(table, style, numbers or {}, times=False), room)
    lines: list[str] = []
    for part in parts:
        titles = [pad(cut(column.title, column.width), column.width) for column in part]
        head = GAP.join([*(pad(cut(text, w), w) for text, w in zip(heads, widths, strict=True)), *titles])
        lines += ["", style.bold(head.rstrip()), style.rule(columns(head))]
        lines += _body(keys, widths, part, style)
    return lines[1:]


def _columns(table: Grid, style: Style, numbers: Mapping[Cell, int], *, times: bool) -> list[_Column]:
    return [
        _column(title, tuple(row.slots[at] for row in table.rows), style, numbers, with_times=times)
        for at, title in enumerate(table.columns)
    ]


def _column(
    title: str,
    slots: tuple[CellView | None, ...],
    style: Style,
    numbers: Mapping[Cell, int],
    *,
    with_times: bool,
) -> _Column:
    faces = tuple(_face(slot, style, numbers) for slot in slots)
    times = tuple(_time(slot) if with_times else "" for slot in slots)
    title = clean(title)
    face_width = max((columns(face) for face, time in zip(faces, times, strict=True) if time), default=0)
    time_width = max(map(len, times), default=0)
    timed = face_width + 1 + time_width if time_width else 0
    return _Column(
        title=title,
        slots=slots,
        faces=faces,
        times=times,
        width=max(min(columns(title), 24), timed, *map(columns, faces)),
        face_width=face_width,
        time_width=time_width,
    )


def _face(slot: CellView | None, style: Style, numbers: Mapping[Cell, int]) -> str:
    if slot is None:
        return ""
    number = numbers.get(slot.entry.cell)
    mark = TESTS_ONLY if slot.proven_by_tests_only and slot.record else ""
    return style.face(slot.word) + mark + (f" ({number})" if number else "")


def _time(slot: CellView | None) -> str:
    return short_seconds(slot.record.ran_s) if slot and slot.record and slot.record.ran_s else ""


def _parts(every: Sequence[_Column], room: int) -> list[list[_Column]]:
    parts: list[list[_Column]] = []
    used = 0
    for column in every:
        if parts and used + len(GAP) + column.width <= room:
            parts[-1].append(column)
            used += len(GAP) + column.width
        else:
            parts.append([column])
            used = column.width
    return parts


def _body(keys: list[list[str]], widths: list[int], part: list[_Column], style: Style) -> list[str]:
    """Rows with repeated labels left blank, and an empty line around a first-axis value that has several rows."""
    firsts = [key[0] if key else "" for key in keys]
    counts = Counter(firsts)
    several = {first for first, number in counts.items() if number > 1 and len(counts) > 1}
    lines: list[str] = []
    above: list[str] = []
    for at, key in enumerate(keys):
        if above and above[0] != key[0] and {above[0], key[0]} & several:
            lines.append("")
        labels = [
            " " * w if above[: n + 1] == key[: n + 1] else pad(cut(text, w), w)
            for n, (text, w) in enumerate(zip(key, widths, strict=True))
        ]
        lines.append(GAP.join([*labels, *(column.paint(at, style) for column in part)]).rstrip())
        above = key
    return lines
