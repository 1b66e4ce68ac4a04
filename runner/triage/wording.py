"""One line that is true of several: the causes of cells that fail alike, with what differs among them shown as such."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(.*?)((?:(?<!\w)-)?(?<!\d)(?<!\d\.)\d+(?:\.\d+)?(?:e[-+]?\d+)?)(\D*)", re.DOTALL)
"""A word with one number at its end or before a unit, with its sign and power of ten; a version is none."""


def joined(lines: Sequence[str]) -> str:
    """The words that all lines share; numbers that differ as ``least..most``, other words that differ as ``...``.

    Lines of unlike length are not joined word by word: the first is shown, and that there are others.
    """
    different = list(dict.fromkeys(lines))
    if len(different) < 2:
        return different[0] if different else ""
    split = [re.split(r"(\s+)", line) for line in different]
    if len({len(words) for words in split}) > 1:
        return f"{different[0]} (and {len(different) - 1} wordings like it)"
    return "".join(map(_word, zip(*split, strict=True)))


def _word(words: tuple[str, ...]) -> str:
    if len(set(words)) == 1:
        return words[0]
    parts = [_NUMBER.fullmatch(word) for word in words]
    found = [part.groups() for part in parts if part is not None]
    if len(found) == len(words) and len({(before, after) for before, _, after in found}) == 1:
        ordered = sorted((number for _, number, _ in found), key=float)
        return f"{found[0][0]}{ordered[0]}..{ordered[-1]}{found[0][2]}"
    return "..."
