"""What data expects of a platform against what an image's probe says: both directions of a difference are news. Pure.

The table ships with the suite: its ``probe.py`` prints it beside what it found in the image, under ``support``. A suite whose
probe prints none has no news. ``tests/moe/probe.py`` takes it from ``tests/moe/methods.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runner.model import Cell, Culprit, PlanEntry, Proof, Status
from runner.records import Notice, NoticeKind, Run


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
    argument: str = ""
    """The engine argument ``quantization`` by which it is asked for, where there is one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of news about one method on one platform."""

    method: str
    platform: str
    news: News
    text: str

    @property
    def line(self) -> str:
        """``my_int8 on cuda is newly unsupported: this engine registers none of my_int8``."""
        return f"{self.method} on {self.platform} is {self.news}: {self.text}"


def expected(probe: Mapping[str, Any]) -> tuple[tuple[Expected, ...], frozenset[str]]:
    """The support table of a probe, and all names that are no news. What is of a wrong type is left out."""
    table = _mapping(_mapping(probe.get("support")).get("methods"))
    methods = tuple(
        Expected(
            name,
            _texts(record.get("words")),
            {str(p): str(why) for p, why in _mapping(record.get("never")).items()},
            str(record.get("argument") or ""),
        )
        for name, record in table.items()
        if isinstance(record, Mapping)
    )
    return methods, frozenset(_texts(_mapping(probe.get("support")).get("known")))


def compare(
    table: Iterable[Expected],
    platform: str,
    *,
    registered: Iterable[str],
    allowed: Iterable[str],
    passed: Iterable[str] = (),
    no_news: Iterable[str] = (),
) -> tuple[Difference, ...]:
    """What is news on ``platform``.

    ``registered`` are the engine's method names and ``allowed`` the platform's own list (the probe's
    ``quantization_methods`` and ``supported_quantization``; an empty list means that every method is allowed). ``passed``
    names methods whose cell on this platform passed with proof: one the table says can never run is news as well.
    ``no_news`` are names beside those of the table that an engine may register.
    """
    known, listed, proven = set(registered), set(allowed), set(passed)
    found: list[Difference] = []
    named: set[str] = set(no_news)
    for method in table:
        named.update(method.words)
        present = not method.words or bool(known & set(method.words))
        permitted = present and (not listed or not method.words or bool(listed & set(method.words)))
        why = method.never.get(platform)
        if method.name in proven and why is not None:
            text = f"its cell passed, though the table says: {why}"
            found.append(Difference(method.name, platform, News.GAINED, text))
        elif why is None and not present:
            text = f"this engine registers none of {', '.join(method.words)}"
            found.append(Difference(method.name, platform, News.LOST, text))
        elif why is None and not permitted:
            text = f"none of {', '.join(method.words)} is on the platform's list"
            found.append(Difference(method.name, platform, News.LOST, text))
        elif why is not None and "list" in why and permitted:
            text = f"now listed; the table says: {why}"
            found.append(Difference(method.name, platform, News.GAINED, text))
    text = "the engine registers a method the table does not know"
    found.extend(Difference(word, platform, News.UNKNOWN, text) for word in sorted(known - named))
    return tuple(found)


def news(probe: Mapping[str, Any], platform: str, passed: Iterable[str] = ()) -> tuple[Difference, ...]:
    """What is news in the probe of an image for ``platform``. Nothing where it brings no table, or could not ask."""
    table, no_news = expected(probe)
    registered = _texts(probe.get("quantization_methods"))
    if not table or not registered:
        return ()
    allowed = _texts(probe.get("supported_quantization"))
    return compare(table, platform, registered=registered, allowed=allowed, passed=passed, no_news=no_news)


def notices(run: Run) -> tuple[Notice, ...]:
    """The news of every probed image, per platform, once the cells that passed are known.

    A method newly unsupported is red where a cell of the run asks for it that no rule excludes and no selection leaves out,
    whether this host could run it or not: `unsupported` is expected only where the table says so.
    """
    used: dict[tuple[str, str], list[PlanEntry]] = {}
    for entry in run.plan.entries:
        if entry.status in (Status.PLANNED, Status.NOT_RUNNABLE):
            used.setdefault((entry.cell.get("platform"), entry.settings.image), []).append(entry)
    passed = {record.cell for record in run.records if record.verdict.green}
    found: dict[Notice, None] = {}
    for (platform, image), entries in used.items():
        probe = run.prepared.probes.get(image, {})
        table, _ = expected(probe)
        asking = {method.name: tuple(e for e in entries if _asks(e, method)) for method in table}
        proven = [name for name, some in asking.items() if any(_proven(e, passed) for e in some)]
        differences = news(probe, platform, proven)
        engine = f" ({image}, {probe.get('engine', 'engine')} {probe.get('version', 'of unknown version')})"
        for one in differences:
            if one.news is not News.UNKNOWN:
                cells = tuple(e.cell for e in asking.get(one.method, ()))
                found.setdefault(_notice(one, cells, engine))
        unknown = [one.method for one in differences if one.news is News.UNKNOWN]
        if unknown:
            text = f"the engine on {platform} registers what the support table does not know: {', '.join(unknown)}{engine}"
            found.setdefault(Notice(kind=NoticeKind.SUPPORT, text=text))
    return tuple(found)


def _notice(one: Difference, cells: tuple[Cell, ...], engine: str) -> Notice:
    red = one.news is News.LOST and bool(cells)
    return Notice(
        kind=NoticeKind.SUPPORT,
        text=one.line + engine,
        red=red,
        culprit=Culprit.PRODUCT if red else Culprit.NONE,
        cells=cells,
    )


def _asks(entry: PlanEntry, method: Expected) -> bool:
    """Whether a cell is of a method: by the name of its axis value, or by the engine argument."""
    argument = str(entry.settings.engine_args.get("quantization") or "")
    return entry.cell.get("quantization") == method.name or (bool(argument) and argument == method.argument)


def _proven(entry: PlanEntry, passed: set[Cell]) -> bool:
    return entry.cell in passed and entry.settings.suite.proof is Proof.ENGINE


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
