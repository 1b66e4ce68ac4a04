"""What this room refuses and what it cuts. A report comes out of a container that ran untrusted test code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Bounds of reading one report. Over a bound of the first five the file is refused, over the others it is cut.

    ``file_bytes``: size of the file. ``depth``: nested elements. ``token_bytes``: what the parser may hold back as
    one unfinished tag (expat before 2.6 rescans it at every feed: a 20 MB attribute would cost 20 s).
    ``names``: different names of elements and attributes, which the parser keeps to its end (looked at once a piece of
    256 KiB). ``cases``: testcase elements. ``kept_all``: so many first cases are kept whatever their result; after them only
    those that failed, broke or are flaky, up to ``kept_bad``. ``message_chars``: of one message, its beginning and
    end; ``messages``: of one case; ``text_chars``: of the whole report, after which messages keep 200 characters.
    ``name_chars``: of a name as shown; identity always uses the whole name.
    """

    file_bytes: int = 256 << 20
    depth: int = 100
    token_bytes: int = 4 << 20
    names: int = 10_000
    cases: int = 2_000_000
    kept_all: int = 10_000
    kept_bad: int = 20_000
    messages: int = 20
    message_chars: int = 4_000
    text_chars: int = 32 << 20
    name_chars: int = 2_000


CAPS = Caps()
COUNT_ONLY = Caps(kept_all=0, kept_bad=0)
"""For totals alone: nothing is kept but one 8-byte key for each case."""
