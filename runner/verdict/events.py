"""JSON lines that a cell writes while it runs: its evidence of the engine. :mod:`runner.verdict.progress` has its test log.

Both survive a kill, so both are read tolerantly: a cut last line, a line that is no JSON object or a field of a wrong
type is counted and left out, never repaired. The writers are ``runner/incell`` and ``tests/moe``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.facts import Evidence, RankFacts
from runner.verdict.compared import Comparisons
from runner.verdict.control import read_control
from runner.verdict.engines import Engines, with_commit
from runner.verdict.lives import Lives
from runner.verdict.sight import read_sight

LINE_CHARS = 1 << 20
"""A longer line is bad: nothing a cell reports needs a megabyte."""

INT_DIGITS = 18
"""A longer whole number is read as a float: no count or identity that a cell reports has more digits."""

NOT_TOLD = "nothing"
"""Stands among the words of a rank's layers where some layers say nothing of theirs."""

MOST_DEVICES = 3
"""So many devices of one rank are told apart."""

LEFT, LEFT_CHARS = 20, 300
"""So many things that an engine left behind are kept, and so much of each."""

Event = Mapping[str, Any]


def read_objects(lines: Iterable[str]) -> Iterator[Event | None]:
    """Every line as an object with a text ``event``; None for a line that is not one. Blank lines are left out."""
    for line in lines:
        text = line.strip()
        if not text:
            continue
        try:
            value = _load(text) if len(text) <= LINE_CHARS else None
        except (ValueError, RecursionError):
            value = None
        yield value if isinstance(value, dict) and isinstance(value.get("event"), str) else None


def _load(text: str) -> Any:
    """A line as values that a record can hold: no half of a surrogate pair in a text, and no whole number beyond a float."""
    value = json.loads(text, parse_int=_bounded)
    if "\\ud" in text.lower():
        mended = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        value = json.loads(mended, parse_int=_bounded)
    return value


def _bounded(digits: str) -> float:
    return int(digits) if len(digits) <= INT_DIGITS else float(digits)


def plain_dtype(text: str) -> str:
    """``torch.int8`` and ``int8`` are one word."""
    return text.removeprefix("torch.")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count_devices(value: object) -> int | None:
    """How many devices a rank sees, from a number, a list, or the text of a visible-devices variable."""
    if isinstance(value, str):
        return len([part for part in value.split(",") if part.strip()])
    return len(value) if isinstance(value, list) else _whole(value)


@dataclass(slots=True)
class _Rank:
    """What one rank said so far. Several engines of one cell add up: each must be as the cell says."""

    world_size: int
    worlds: set[int] = field(default_factory=set)
    counted: set[int] = field(default_factory=set)
    reports: int = 0
    told_methods: int = 0
    methods: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    backends: set[str] = field(default_factory=set)
    schemes: set[str] = field(default_factory=set)
    devices: list[str] = field(default_factory=list)
    visible: int | None = None


@dataclass(slots=True)
class _Reader:
    """The evidence so far. ``values`` are the fields of :class:`Evidence` that an event gave."""

    values: dict[str, Any] = field(default_factory=dict)
    ranks: dict[int, _Rank] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    engines: Engines = field(default_factory=Engines)
    comparisons: Comparisons = field(default_factory=Comparisons)
    lives: Lives = field(default_factory=Lives)
    bad: int = 0

    def start(self, event: Event) -> None:
        self.values["started"] = True
        self._set("sight", read_sight(event.get("sees")))

    def end(self, _event: Event) -> None:
        self.values["ended"] = True

    def phase(self, event: Event) -> None:
        name, seconds = _text(event.get("phase")), _number(event.get("seconds"))
        if not name:
            self.bad += 1
        elif event.get("state") == "end" and seconds is not None:
            total = self.phases.get(name, 0.0) + seconds
            if math.isfinite(total):
                self.phases[name] = total
            else:
                self.bad += 1
        self._set("phase", name)

    def heartbeat(self, event: Event) -> None:
        # Between phases the heartbeat says "none"; the last phase that began says more.
        name = _text(event.get("phase"))
        self._set("phase", "" if name == "none" else name)

    def engine(self, event: Event) -> None:
        said: dict[str, Any] = {
            name: _text(event.get(name)) for name in ("platform", "device_type", "quantization")
        }
        said["engine"] = _text(event.get("name"))
        said["engine_version"] = with_commit(_text(event.get("version")), _text(event.get("commit")))
        said |= {"dtype": plain_dtype(_text(event.get("dtype"))), "tp": _whole(event.get("tp"))}
        self.bad += said["tp"] is None and event.get("tp") is not None
        self.engines.take(said)
        for name, value in said.items():
            self._set(name, value)

    def rank(self, event: Event) -> None:
        number, world, layers = (
            _whole(event.get("rank")),
            _whole(event.get("world_size")),
            event.get("layers"),
        )
        wrong = layers is not None and not isinstance(layers, list)
        if number is None or world is None or wrong:
            self.bad += 1
            return
        rank = self.ranks.setdefault(number, _Rank(world))
        rank.world_size = world
        rank.worlds.add(world)
        rank.reports += 1
        for layer in layers or ():
            said = layer if isinstance(layer, dict) else {}
            rank.methods.add(_text(said.get("moe_method")))
            rank.dtypes.add(plain_dtype(_text(said.get("expert_weight_dtype"))))
            rank.backends.add(_text(said.get("backend")))
        rank.told_methods += layers is not None and bool(layers)
        schemes = event.get("linear_schemes")
        rank.schemes.update(map(str, schemes) if isinstance(schemes, (dict, list)) else ())
        device = _text(event.get("device"))
        if device and device not in rank.devices and len(rank.devices) < MOST_DEVICES:
            rank.devices.append(device)
        rank.visible = _count_devices(event.get("visible_devices"))
        rank.counted.update(() if rank.visible is None else (rank.visible,))

    def agreement(self, event: Event) -> None:
        self.comparisons.take(event)

    def control(self, event: Event) -> None:
        found = read_control(event)
        self.bad += found is None
        self._set("control", found)

    def shutdown(self, event: Event) -> None:
        self._set("children_left", _whole(event.get("children_left")))
        left = event.get("left")
        if isinstance(left, list):
            self._set(
                "memory_left", tuple(text[:LEFT_CHARS] for text in left[:LEFT] if isinstance(text, str))
            )

    def _set(self, name: str, value: object) -> None:
        if value is not None and value != "":
            self.values[name] = value

    def result(self) -> Evidence:
        ranks = tuple(
            RankFacts(
                rank=number,
                world_size=rank.world_size,
                moe_methods=_sorted(rank.methods),
                expert_weight_dtypes=_sorted(rank.dtypes),
                backends=_sorted(rank.backends),
                linear_schemes=_sorted(rank.schemes),
                device=" and ".join(rank.devices),
                visible_devices=rank.visible,
            )
            for number, rank in sorted(self.ranks.items())
        )
        return Evidence(
            ranks=ranks,
            phases=dict(self.phases),
            bad_lines=self.bad,
            tokens_equal=self.comparisons.equal,
            max_abs_logprob_diff=self.comparisons.difference,
            logprob_bound=self.comparisons.bound,
            conflicts=(
                *self.lives.conflicts(),
                *self.engines.conflicts(),
                *self._rank_conflicts(),
                *self.comparisons.conflicts,
            ),
            **self.values,
        )

    def _rank_conflicts(self) -> Iterator[str]:
        for number, rank in sorted(self.ranks.items()):
            for what, seen in (("world sizes", rank.worlds), ("numbers of visible devices", rank.counted)):
                if len(seen) > 1:
                    yield f"rank {number} reports {what} {' and '.join(map(str, sorted(seen)[:3]))}"
            if rank.reports < self.engines.count:
                yield f"{self.engines.count} engines, but rank {number} reports itself {rank.reports} times"
            elif 0 < rank.told_methods < self.engines.count:
                yield f"{self.engines.count} engines, but rank {number} tells the layers of {rank.told_methods}"


def _sorted(words: set[str]) -> tuple[str, ...]:
    """Every word; one more for layers that say nothing beside others that do."""
    told = sorted(words - {""})
    return (*told, NOT_TOLD) if told and "" in words else tuple(told)


_EVENTS: Mapping[str, Callable[[_Reader, Event], None]] = {
    "start": _Reader.start,
    "phase": _Reader.phase,
    "engine": _Reader.engine,
    "rank": _Reader.rank,
    "agreement": _Reader.agreement,
    "control": _Reader.control,
    "heartbeat": _Reader.heartbeat,
    "shutdown": _Reader.shutdown,
    "end": _Reader.end,
}


def read_evidence(lines: Iterable[str]) -> Evidence:
    """The evidence of one cell from the lines of its ``evidence.jsonl``. Never raises; bad lines are counted.

    Events of a name that this version does not know are left out, so that a newer suite can still be read.
    """
    reader = _Reader()
    for event in read_objects(lines):
        if event is None:
            reader.bad += 1
            continue
        at = _number(event.get("t"))
        if at is not None and math.isfinite(at):
            reader.values.setdefault("first_event_at", at)
            reader.values["last_event_at"] = at
        if known := _EVENTS.get(event["event"]):
            reader.lives.take(event)
            known(reader, event)
    return reader.result()
