"""Text of tests inside Markdown: nothing in it may become markup, a link, a mention or an open block.

Rules are CommonMark 0.31: a code span holds text as it is (6.1); an HTML block that starts with ``<details`` takes its
lines as HTML up to a blank line (4.6, condition 6), one that starts with ``<pre`` up to ``</pre>`` (condition 1). The
GitHub extensions (autolinks of addresses, mentions, issue numbers) look into neither code spans nor HTML blocks' code.
"""

from __future__ import annotations

import html
import re

from runner.report.text import clean, clean_block

_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~@&\"'$]|:(?=\S)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=www)\.")
_IN_PRE = re.compile(r"[&<>\"`~|@#]|^[-+=*]", re.MULTILINE)


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match.group())};"


def inline(text: str) -> str:
    """One line of plain text in which no character is markup; not for the beginning of a line."""
    return _SPECIAL.sub(_entity, clean(text))


def code(text: str, *, in_table: bool = False) -> str:
    """One line as a code span; in a table, bars are escaped as GitHub's tables ask."""
    shown = clean(text)
    if not shown:
        return ""
    longest = max(map(len, re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    span = f"{fence}{pad}{shown}{pad}{fence}"
    return span.replace("|", "\\|") if in_table else span


def raw_code(text: str) -> str:
    """One line in a ``code`` element, for a place where Markdown is not read (inside ``summary``)."""
    return f"<code>{html.escape(clean(text))}</code>"


def block(text: str) -> str:
    """Several lines in a ``pre`` element that starts its own HTML block; no line in it is blank.

    A blank line would end the block in renderers that do not know the rule for ``pre``; it is written as an entity.
    """
    safe = _IN_PRE.sub(_entity, clean_block(text).strip("\n"))
    lines = [line if line.strip() else "&#32;" for line in safe.split("\n")]
    return "\n<pre>" + "\n".join(lines) + "</pre>\n"


def fold_out(summary: str, text: str) -> str:
    """A closed ``details`` block: ``summary`` is HTML, ``text`` anything."""
    return f"<details><summary>{summary}</summary>\n{block(text)}\n</details>\n\n"


def cut_bytes(text: str, size: int) -> str:
    """The longest beginning of a text that takes at most ``size`` bytes of UTF-8; never half a character."""
    return text.encode("utf-8", "replace")[: max(0, size)].decode("utf-8", "ignore")
