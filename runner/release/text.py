"""The decision for a terminal: plain text, every reason with its cells and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from runner.release.values import Decision, Refusal, Seen, WaiverReport
from runner.release.waiving import Waiving
from runner.release.words import HEADINGS, MAX_CELLS, about, accounts, headline, news, plain


def text(decision: Decision, width: int = 100) -> str:
    """What ``gate`` prints; ends with a newline."""
    return "".join(line + "\n" for line in _lines(decision, max(40, width)))


def _lines(decision: Decision, width: int) -> Iterator[str]:
    yield from _wrapped(headline(decision), width)
    if decision.ledger:
        yield from _wrapped(
            f"run {decision.run_id}, decided on {decision.decided_on}: {accounts(decision)}", width
        )
    for number, reason in enumerate(decision.reasons, 1):
        yield from _reason(number, reason, width)
    if decision.waived:
        yield ""
        yield "waived:"
        for each in decision.waived:
            waiver = each.waiver
            yield from _wrapped(
                f"{each.cell.id}: {each.outcome.value}: {plain(each.cause)} "
                f"({waiver.source}, {plain(waiver.bug)}, owner {plain(waiver.owner)}, until {waiver.expires})",
                width,
                "  ",
            )
    yield from _reports(news(decision), width)
    if decision.coverage:
        yield ""
        parts = (f"{each.axis}={each.value} {each.passed} of {each.wanted}" for each in decision.coverage)
        yield from _wrapped(f"coverage: {', '.join(parts)}", width)
    if decision.suites:
        yield ""
        yield from (f"suite {plain(name)}: {digest}" for name, digest in decision.suites.items())
    if decision.also_red:
        yield ""
        yield "not blocking, but not passed:"
        yield from _cells(decision.also_red, width)


def _reason(number: int, reason: Refusal, width: int) -> Iterator[str]:
    yield ""
    yield from _wrapped(f"{number}. {HEADINGS[reason.kind]}: {plain(reason.text)}", width)
    for detail in reason.details[:MAX_CELLS]:
        yield from _wrapped(f"- {plain(detail)}", width, "   ")
    if len(reason.details) > MAX_CELLS:
        yield f"   and {len(reason.details) - MAX_CELLS} more"
    yield from _cells(reason.cells, width)
    if reason.fix:
        yield from _wrapped(f"-> {plain(reason.fix)}", width, "   ")


def _cells(cells: Sequence[Seen], width: int) -> Iterator[str]:
    for each in cells[:MAX_CELLS]:
        said = f": {plain(each.text)}" if each.text else ""
        yield from _wrapped(f"- {each.cell.id}{said}", width, "   ")
    if len(cells) > MAX_CELLS:
        yield f"   and {len(cells) - MAX_CELLS} more"


def _reports(reports: Sequence[WaiverReport], width: int) -> Iterator[str]:
    if reports:
        yield ""
        yield "waivers to look at:"
    for report in reports:
        yield from _wrapped(about(report), width, "  ")
        yield from (f"     {cell.id}" for cell in report.cells[:MAX_CELLS])


def waiver_text(waiving: Waiving, width: int = 100) -> str:
    """What ``run --waivers`` prints after its grid: waived cells, and waivers to look at; empty without waivers."""
    lines: list[str] = []
    for each in waiving.waived:
        line = f"waived: {each.cell.id}: {each.outcome.value} ({each.waiver.source}, until {each.waiver.expires})"
        lines += _wrapped(line, max(40, width))
    for report in waiving.reports:
        if report.state.value != "used":
            lines += _wrapped(f"waiver: {about(report)}", max(40, width))
    return "".join(line + "\n" for line in lines)


def _wrapped(line: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most ``width`` characters, but for words that are longer: an id must stay whole to be copied."""
    return textwrap.wrap(
        line,
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
