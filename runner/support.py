"""What data expects of a platform against what an image's probe says: both directions of a difference are news. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class News(StrEnum):
    """How a method's support differs from what was expected."""

    LOST = "newly unsupported"
    GAINED = "newly working"
    UNKNOWN = "not in the table"


@dataclass(frozen=True, slots=True)
class Expected:
    """One method of the support table: what it is asked for by, and where the data says it can be asked for at all."""

    name: str
    words: tuple[str, ...]
    """Names under which the engine lists the method; empty: it needs none (unquantized)."""
    never: Mapping[str, str]
    """Platform -> why the data says it cannot run there."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of news about one method on one platform."""

    method: str
    platform: str
    news: News
    text: str


def expected(table: Mapping[str, Any]) -> tuple[Expected, ...]:
    """The support table from the content of ``tests/moe/methods.yaml``.

    Raises:
        KeyError: a record lacks ``ask``, ``resolves_to`` or ``requires``.

    """
    out = []
    for name, record in table["methods"].items():
        words = {w for w in (record["ask"].get("engine"), *record["resolves_to"]) if w}
        if record["ask"].get("checkpoint"):
            words.add(record["ask"]["checkpoint"])
        demands = record["requires"].items()
        never = {p: str(d["never"]) for p, d in demands if isinstance(d, Mapping) and "never" in d}
        out.append(Expected(name, tuple(sorted(words)), never))
    return tuple(out)


def compare(
    table: Iterable[Expected],
    platform: str,
    *,
    registered: Iterable[str],
    allowed: Iterable[str],
    passed: Iterable[str] = (),
) -> tuple[Difference, ...]:
    """What is news on ``platform``.

    ``registered`` are the engine's method names and ``allowed`` the platform's own list (the probe's
    ``quantization_methods`` and ``supported_quantization``; an empty list means that every method is allowed). ``passed``
    names methods whose cell on this platform passed with proof: one the table says can never run is news as well.
    """
    known, listed, proven = set(registered), set(allowed), set(passed)
    found: list[Difference] = []
    named: set[str] = set()
    for method in table:
        named.update(method.words)
        present = not method.words or bool(known & set(method.words))
        permitted = present and (not listed or not method.words or bool(listed & set(method.words)))
        why = method.never.get(platform)
        if method.name in proven and why is not None:
            found.append(_news(method.name, platform, News.GAINED, f"passed, though the table says: {why}"))
        elif why is None and not present:
            text = f"this engine registers none of {', '.join(method.words)}"
            found.append(_news(method.name, platform, News.LOST, text))
        elif why is None and not permitted:
            text = f"none of {', '.join(method.words)} is on the platform's list"
            found.append(_news(method.name, platform, News.LOST, text))
        elif why is not None and "list" in why and permitted:
            found.append(_news(method.name, platform, News.GAINED, f"now listed; the table says: {why}"))
    text = "the engine registers a method the table does not know"
    found.extend(_news(word, platform, News.UNKNOWN, text) for word in sorted(known - named))
    return tuple(found)


def _news(method: str, platform: str, news: News, text: str) -> Difference:
    return Difference(method, platform, news, text)
