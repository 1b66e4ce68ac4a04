"""The history of one cell on a terminal: its results in time order, and what they say."""

from __future__ import annotations

from collections.abc import Sequence

from runner.records import Seen
from runner.report.paint import Style
from runner.report.text import clean, columns, count, cut, pad, short_digest, short_seconds, wrap
from runner.report.vocabulary import LOOKS, Tone
from runner.triage import Class, Judgement

MOST_RUNS = 60
"""Latest results that are listed; the line of letters has all."""

_TONES = {
    Class.STABLE: Tone.GOOD,
    Class.FIXED: Tone.GOOD,
    Class.UNSURE: Tone.DOUBT,
    Class.FLAKY: Tone.DOUBT,
    Class.REGRESSION: Tone.BAD,
    Class.BROKEN: Tone.BAD,
    Class.HOST_BOUND: Tone.HOST,
}
_LETTERS = "P passed, F failed, f failed and passed in one run, I host fault or stop, - no result"


def history_text(
    cell: str,
    seen: Sequence[Seen],
    judgement: Judgement,
    *,
    earlier: int = 0,
    unread: Sequence[str] = (),
    color: bool = False,
    width: int = 100,
    plain: bool = False,
) -> str:
    """The history as text; ends with a newline.

    ``seen`` are results of one test definition in time order. ``earlier`` counts those of others, ``unread`` says which
    run folders could not be read.
    """
    style = Style(color, max(60, width), plain)
    lines = [style.bold(clean(cell)), *wrap("".join(one.result for one in seen), style.width)]
    lines += [style.dim(line) for line in wrap(_LETTERS, style.width)]
    lines.append("")
    lines += [_row(one, style) for one in seen[-MOST_RUNS:]]
    if len(seen) > MOST_RUNS:
        lines.append(f"showing {MOST_RUNS} of {len(seen):,} results")
    lines.append("")
    lines += [
        style.bold(style.tone(line, _TONES[judgement.kind])) for line in wrap(judgement.text, style.width)
    ]
    if earlier:
        lines += wrap(
            f"{count(earlier, 'earlier result')} of other tests or another model not counted", style.width
        )
    lines += [line for text in unread for line in wrap(f"not read: {clean(text)}", style.width)]
    return "\n".join(lines) + "\n"


def _row(one: Seen, style: Style) -> str:
    look = LOOKS.get(one.outcome)
    face = style.face(one.outcome) if look else clean(one.outcome)
    time = short_seconds(one.seconds) if one.seconds else ""
    candidate = short_digest(clean(one.candidate)).rpartition(":")[2]
    head = f"{clean(one.run_id)}  "
    tail = f"  {time:>6}  {candidate:<12}  {cut(clean(one.host), 16):<16}"
    room = style.width - columns(head) - 14 - columns(tail) - 2
    why = cut(clean(one.cause), room) if room > 12 else ""
    shown = style.tone(pad(cut(face, 14), 14), look.tone) if look else pad(cut(face, 14), 14)
    return f"{head}{shown}{tail}  {why}".rstrip()
