"""Keeps secrets out of everything that a run leaves: logs, reports, evidence, messages, in every usual spelling.

A secret is a value that the runner took from its environment because a cell names it. What counts as a spelling of it
is in ``spellings.py``. A streaming reader keeps back as much as a secret could still be the start of.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from runner.cells.spellings import LEAST_CHARS, Piece, Plain, pieces, unfinished

_WORD = 8
_LEAST_ANCHOR = 2 * _WORD - 1
"""Bytes of a text that has a whole aligned word in it wherever it stands."""
_FEW = 8
"""As many texts are found faster one by one than by words."""
_SPELLED = 24
"""Bytes that a stream looks back for each byte of a secret's start: what an escaped character takes, and more."""
_MOST_KEPT = 1 << 20

T = TypeVar("T")


class Redactor:
    """Replaces secrets by ``[secret NAME]``. Without secrets it does nothing and costs nothing."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names: dict[bytes, str] = {}
        found: dict[bytes, list[Piece]] = {}
        for name, value in secrets.items():
            for piece in pieces(value):
                found.setdefault(piece.anchor, []).append(piece)
                for form in piece.forms:
                    self._names.setdefault(form, name)
        self._sorted = sorted(self._names)
        self._inner = {bytes((byte,)) for form in self._names for byte in form}
        self._longest = max(map(len, self._names), default=0)
        self._forms = {
            anchor: {form for piece in each for form in piece.forms} for anchor, each in found.items()
        }
        by_words = {anchor for anchor in found if len(anchor) >= _LEAST_ANCHOR}
        if len(by_words) <= _FEW:
            by_words = set()
        self._anchors = found.keys() - by_words
        self._words: dict[int, set[bytes]] = {}
        for anchor in by_words:
            for at in range(_WORD):
                word = int.from_bytes(anchor[at : at + _WORD], sys.byteorder)
                self._words.setdefault(word, set()).add(anchor)

    def __bool__(self) -> bool:
        return bool(self._names)

    def clean(self, data: bytes) -> bytes:
        """The data with every secret replaced."""
        return _replaced(data, self._spans(data)) if self._names else data

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        if not self._names:
            return text
        return self.clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def stream(self) -> Stream | None:
        """A filter for data that comes in pieces; None where there is nothing to look for."""
        return Stream(self) if self._names else None

    def split(self, data: bytes, *, last: bool = False, same_size: bool = False) -> tuple[bytes, bytes]:
        """The part that is certain, replaced, and the end that could be the start of a secret, as it is.

        Behind the ``last`` data nothing comes. With ``same_size`` a secret is replaced by as many stars.
        """
        if not self._names:
            return data, b""
        edge, spans = len(data) if last else self._edge(data), self._spans(data)
        for start, end, _ in reversed(spans):
            if start < edge < end:  # what follows may belong to it
                edge = start if len(data) - start <= _MOST_KEPT else end
        spans = [span for span in spans if span[1] <= edge]
        return _replaced(data[:edge], spans, same_size=same_size), data[edge:]

    def _spans(self, data: bytes) -> list[tuple[int, int, str]]:
        """Where secrets stand, in order: overlapping ones are one, under the name of the longest."""
        found: set[tuple[int, int, str]] = set()
        for first, last, forms in self._windows(data):
            part = data[first:last]
            plain = Plain(part)
            for form in forms:
                name, size = self._names[form], len(form)
                found.update((first + at, first + at + size, name) for at in _places(part, form))
                if plain.data is not part:
                    at_ends = ((plain.start(at), plain.end(at + size)) for at in _places(plain.data, form))
                    found.update((first + start, first + end, name) for start, end in at_ends)
        spans: list[tuple[int, int, str]] = []
        longest = 0
        for start, end, name in sorted(found):
            if spans and start < spans[-1][1]:
                before = spans[-1]
                named = name if end - start > longest else before[2]
                spans[-1] = (before[0], max(before[1], end), named)
                longest = max(longest, end - start)
            else:
                spans.append((start, end, name))
                longest = end - start
        return spans

    def _windows(self, data: bytes) -> Iterator[tuple[int, int, set[bytes]]]:
        """The parts of the data to look at, and what may be there: almost always none."""
        near: list[tuple[int, int, bytes]] = []
        for anchor in self._suspects(data):
            if len(anchor) < LEAST_CHARS:
                near.append((0, len(data), anchor))
                continue
            reach = _SPELLED * max(map(len, self._forms[anchor]))
            near += ((max(0, at - reach), at + len(anchor) + reach, anchor) for at in _places(data, anchor))
        first, last, forms = 0, -1, set[bytes]()
        for start, end, anchor in sorted(near):
            if start > last:
                if forms:
                    yield first, last, forms
                first, forms = start, set()
            last = max(last, end)
            forms |= self._forms[anchor]
        if forms:
            yield first, last, forms

    def _suspects(self, data: bytes) -> set[bytes]:
        """The anchors that may be in the data, found out fast."""
        suspects = {anchor for anchor in self._anchors if anchor in data}
        if self._words:
            words = memoryview(data)[: len(data) // _WORD * _WORD].cast("Q")
            suspects.update(*(self._words[word] for word in self._words.keys() & words))
        return suspects

    def _edge(self, data: bytes) -> int:
        """Where the first secret begins that the end of the data cuts."""
        open_end = 0 if data[-1:].isspace() else unfinished(data)
        far = max(0, len(data) - self._longest * _SPELLED)
        tail = data[far : len(data) - open_end]
        plain = Plain(tail)
        edge = len(data) - open_end
        if plain.data is not tail and (begun := self._begun(plain.data)):
            edge = min(edge, far + plain.start(len(plain.data) - begun))
        if open_end:  # or it is no escape, and the text goes on as it stands
            edge = min(edge, far + len(tail) - self._begun(tail))
        return min(edge, len(data) - self._begun(data))

    def _begun(self, data: bytes) -> int:
        if data[-1:] not in self._inner:
            return 0
        for size in range(min(len(data), self._longest - 1), 0, -1):
            tail = data[-size:]
            index = bisect_right(self._sorted, tail)
            if index < len(self._sorted) and self._sorted[index].startswith(tail):
                return size
        return 0

    def value(self, value: T) -> T:
        """A value of the vocabulary with every text in it redacted."""
        return cast("T", self._value(value)) if self._names else value

    def _value(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if isinstance(value, tuple):
            return tuple(map(self._value, value))
        if isinstance(value, dict):
            return {self._value(key): self._value(each) for key, each in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{each.name: self._value(getattr(value, each.name)) for each in fields(value)}
            )
        return value


class Stream:
    """One flow of data without secrets: no more is kept back than what a secret could still begin with."""

    def __init__(self, redactor: Redactor, *, same_size: bool = False) -> None:
        self._redactor = redactor
        self._same_size = same_size
        self._kept = b""

    @property
    def kept(self) -> int:
        """Bytes kept back so far."""
        return len(self._kept)

    def feed(self, data: bytes) -> bytes:
        """Take the next piece; what is certain so far."""
        clean, self._kept = self._redactor.split(self._kept + data, same_size=self._same_size)
        return clean

    def close(self) -> bytes:
        """The rest."""
        clean, self._kept = self._redactor.split(self._kept, last=True, same_size=self._same_size)
        return clean


def chosen(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The named variables that are set; a cell that names one that is not set goes without it."""
    return {name: environ[name] for name in names if environ.get(name)}


def _replaced(data: bytes, spans: list[tuple[int, int, str]], *, same_size: bool = False) -> bytes:
    if not spans:
        return data
    done: list[bytes] = []
    at = 0
    for start, end, name in spans:
        done += (data[at:start], b"*" * (end - start) if same_size else f"[secret {name}]".encode())
        at = end
    return b"".join((*done, data[at:]))


def _places(data: bytes, form: bytes) -> Iterator[int]:
    at = data.find(form)
    while at >= 0:
        yield at
        at = data.find(form, at + 1)
