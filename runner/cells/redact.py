"""Keeps secrets out of everything that a run leaves: logs, reports, evidence, messages, in every usual spelling.

A secret is a value that the runner took from its environment because a cell names it. What is replaced is the value
itself, its URL-encoded forms, its forms inside JSON and XML, and base64 of any text that contains it, at each of the
three offsets that it can have there. A streaming reader keeps back as much as a secret could still be the start of.
"""

from __future__ import annotations

import base64
import filecmp
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

LEAST_CHARS = 4
"""A shorter value is no secret: replacing it would spoil every text that happens to hold it."""
_CHUNK = 1 << 20
_LEAST_BASE64 = 6

T = TypeVar("T")


class Redactor:
    """Replaces secrets by ``[secret NAME]``. Without secrets it does nothing and costs nothing."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        names: dict[bytes, str] = {}
        for name, value in secrets.items():
            for form in _forms(value) if len(value) >= LEAST_CHARS else ():
                names.setdefault(form, name)
        self._names = names
        self._longest = max(map(len, names), default=0)
        # Longest first: a secret that begins like another one is replaced whole.
        ordered = sorted(names, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def clean(self, data: bytes) -> bytes:
        """The data with every secret replaced."""
        return self._pattern.sub(self._mark, data) if self._pattern else data

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        if not self._pattern:
            return text
        return self.clean(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def stream(self) -> Stream | None:
        """A filter for data that comes in pieces; None where there is nothing to look for."""
        return Stream(self) if self._pattern else None

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """The part that is certain, replaced, and the end that could be the start of a secret, as it is."""
        if not self._pattern:
            return data, b""
        edge = len(data) - self._begun(data)
        done, at = [], 0
        for found in self._pattern.finditer(data):
            if found.start() >= edge:
                break
            done += [data[at : found.start()], self._mark(found)]
            at = found.end()
        edge = max(at, edge)
        return b"".join((*done, data[at:edge])), data[edge:]

    def _begun(self, data: bytes) -> int:
        for size in range(min(len(data), self._longest - 1), 0, -1):
            tail = data[-size:]
            if any(form.startswith(tail) for form in self._names):
                return size
        return 0

    def file(self, path: Path) -> bool:
        """Rewrite a plain file without secrets; whether it held one. Raises OSError."""
        if not self._pattern:
            return False
        beside = path.with_name(f".{path.name}.redacting")
        changed = False
        try:
            with path.open("rb") as source, beside.open("wb") as target:
                stream = Stream(self)
                while piece := source.read(_CHUNK):
                    target.write(stream.feed(piece))
                target.write(stream.close())
            changed = not filecmp.cmp(path, beside, shallow=False)
            if changed:
                beside.chmod(path.stat().st_mode & 0o777)
                beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        return changed

    def folder(self, folder: Path) -> tuple[str, ...]:
        """Rewrite every plain file below a folder, names included; the names of those that held a secret."""
        if not self._pattern:
            return ()
        held = []
        for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder before the folder
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                continue
            changed = path.is_file() and self.file(path)
            name = self.text(path.name)
            if name != path.name:
                name = re.sub(r"[^\w.-]+", "_", name)
                path.rename(path.with_name(name))
            if changed or name != path.name:
                held.append(self.text(path.with_name(name).relative_to(folder).as_posix()))
        return tuple(held)

    def value(self, value: T) -> T:
        """A value of the vocabulary with every text in it redacted."""
        return cast("T", self._value(value)) if self._pattern else value

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

    def _mark(self, found: re.Match[bytes]) -> bytes:
        return f"[secret {self._names[found[0]]}]".encode()


class Stream:
    """One flow of data without secrets: no more is kept back than what a secret could still begin with."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece; what is certain so far."""
        clean, self._kept = self._redactor.split(self._kept + data)
        return clean

    def close(self) -> bytes:
        """The rest."""
        kept, self._kept = self._kept, b""
        return self._redactor.clean(kept)


def chosen(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The named variables that are set; a cell that names one that is not set goes without it."""
    return {name: environ[name] for name in names if environ.get(name)}


def _forms(value: str) -> Iterator[bytes]:
    texts = {value, value.strip()}
    texts |= {quote(value, safe=""), quote(value), quote_plus(value)}
    texts |= {re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), each) for each in tuple(texts)}
    texts |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    texts |= {html.escape(value), html.escape(value, quote=False)}
    for text in texts:
        raw = text.encode("utf-8", "surrogateescape")
        if len(raw) >= LEAST_CHARS:
            yield raw
    for raw in {value.encode("utf-8", "surrogateescape"), value.strip().encode("utf-8", "surrogateescape")}:
        yield from _base64(raw)


def _base64(raw: bytes) -> Iterator[bytes]:
    """What base64 of any text that contains ``raw`` holds for certain: the characters that depend on it alone."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw)
        first = -(-before * 8 // 6)  # the first character without a bit of what stands before
        last = (before + len(raw)) * 8 // 6  # behind the last one without a bit of what follows
        part = encoded[first:last]
        if len(part) >= _LEAST_BASE64:
            yield part
            yield part.replace(b"+", b"-").replace(b"/", b"_")
            yield quote(part.decode(), safe="").encode()
