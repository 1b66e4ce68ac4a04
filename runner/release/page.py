"""The decision as one page of Markdown: for a pull request, a release ticket, a CI annotation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runner.records import Run
from runner.release.candidate import image_lines
from runner.release.values import Decision, Seen
from runner.release.words import HEADINGS, MAX_CELLS, about, accounts, headline, news, plain


def page(decision: Decision, run: Run | None = None) -> str:
    """One page: the answer, what was qualified, every reason with its cells, waivers, coverage."""
    return "\n".join(_lines(decision, run)) + "\n"


def _lines(decision: Decision, run: Run | None) -> Iterator[str]:
    yield f"# Release gate: {'green' if decision.green else 'red'}"
    yield ""
    yield f"{code(headline(decision))}"
    yield ""
    yield f"- run {code(decision.run_id)}, decided on {decision.decided_on}"
    if decision.ledger:
        yield f"- {accounts(decision)}"
    if decision.engines:
        yield f"- engine {', '.join(map(code, decision.engines))}"
    yield from (f"- suite {code(f'{name} {digest}')}" for name, digest in decision.suites.items())
    if run is not None:
        yield from (f"- image {code(line)}" for line in image_lines(run))
        yield f"- runtime {code(run.runtime_detail or run.runtime)} on {code(run.inventory.hostname)}"
    yield from _reasons(decision)
    yield from _waivers(decision)
    if decision.coverage:
        yield from ("", "## Coverage", "", "| axis value | passed | wanted |", "| --- | --- | --- |")
        for each in decision.coverage:
            yield f"| {code(f'{each.axis}={each.value}', table=True)} | {each.passed} | {each.wanted} |"
    if decision.also_red:
        yield from ("", "## Not blocking, but not passed", "")
        yield from _cells(decision.also_red)


def _reasons(decision: Decision) -> Iterator[str]:
    shown = None
    for reason in decision.reasons:
        if reason.kind is not shown:
            yield from ("", f"## {HEADINGS[reason.kind]}", "")
            shown = reason.kind
        yield f"- {code(reason.text)}" + (f". To do: {code(reason.fix)}" if reason.fix else "")
        yield from (f"  - {code(detail)}" for detail in reason.details[:MAX_CELLS])
        if len(reason.details) > MAX_CELLS:
            yield f"  - and {len(reason.details) - MAX_CELLS} more"
        yield from _cells(reason.cells, "  ")


def _waivers(decision: Decision) -> Iterator[str]:
    if decision.waived:
        yield from ("", "## Waived cells", "")
    for each in decision.waived:
        waiver = each.waiver
        yield (
            f"- {code(each.cell.id)}: {each.outcome.value}: {code(each.cause)}; {code(waiver.bug)}, "
            f"owner {code(waiver.owner)}, until {waiver.expires} ({code(waiver.source)})"
        )
    reports = news(decision)
    if reports:
        yield from ("", "## Waivers to look at", "")
        yield from (f"- {code(about(each))}" for each in reports)


def _cells(cells: Sequence[Seen], indent: str = "") -> Iterator[str]:
    for each in cells[:MAX_CELLS]:
        yield f"{indent}- {code(each.cell.id)}" + (f": {code(each.text)}" if each.text else "")
    if len(cells) > MAX_CELLS:
        yield f"{indent}- and {len(cells) - MAX_CELLS} more"


def code(text: str, *, table: bool = False) -> str:
    """Text of others as a code span (CommonMark 0.31, 6.1): nothing in it is markup."""
    shown = plain(text) or "-"
    fence = "`" * (1 + max(map(len, re.findall(r"`+", shown)), default=0))
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    span = f"{fence}{pad}{shown}{pad}{fence}"
    return span.replace("|", "\\|") if table else span
