"""JSON lines that a cell writes while it runs: evidence of the engine, and the streamed test log.

Both survive a kill, so both are read tolerantly: a cut last line, a line that is no JSON object or a field of a wrong
type is counted and left out, never repaired. The writers are ``runner/incell`` and ``tests/moe``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.facts import Evidence, RankFacts, TestProgress
from runner.verdict.control import read_control
from runner.verdict.sight import read_sight

LINE_CHARS = 1 << 20
"""A longer line is bad: nothing a cell reports needs a megabyte."""

INT_DIGITS = 18
"""A longer whole number is read as a float: no count or identity that a cell reports has more digits."""

INTERRUPTED = 2
"""pytest's exit status for a session that a signal ended (``pytest.ExitCode.INTERRUPTED``)."""

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
    methods: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
    backends: set[str] = field(default_factory=set)
    schemes: set[str] = field(default_factory=set)
    device: str = ""
    visible: int | None = None


@dataclass(slots=True)
class _Reader:
    """The evidence so far. ``values`` are the fields of :class:`Evidence` that an event gave."""

    values: dict[str, Any] = field(default_factory=dict)
    ranks: dict[int, _Rank] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    excess: float | None = None
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
        version, commit = _text(event.get("version")), _text(event.get("commit"))
        if version and commit and "+" not in version:
            version = f"{version}+g{commit.removeprefix('g')}"
        self._set("engine", _text(event.get("name")))
        self._set("engine_version", version)
        self._set("platform", _text(event.get("platform")))
        self._set("device_type", _text(event.get("device_type")))
        self._set("dtype", plain_dtype(_text(event.get("dtype"))))
        self._set("quantization", _text(event.get("quantization")))
        self._set("tp", _whole(event.get("tp")))

    def rank(self, event: Event) -> None:
        number, world, layers = (
            _whole(event.get("rank")),
            _whole(event.get("world_size")),
            event.get("layers"),
        )
        if number is None or world is None:
            self.bad += 1
            return
        rank = self.ranks.setdefault(number, _Rank(world))
        rank.world_size = world
        for layer in layers if isinstance(layers, list) else []:
            if isinstance(layer, dict):
                rank.methods.add(_text(layer.get("moe_method")))
                rank.dtypes.add(plain_dtype(_text(layer.get("expert_weight_dtype"))))
                rank.backends.add(_text(layer.get("backend")))
        schemes = event.get("linear_schemes")
        rank.schemes.update(map(str, schemes) if isinstance(schemes, (dict, list)) else ())
        rank.device = _text(event.get("device")) or rank.device
        rank.visible = _count_devices(event.get("visible_devices"))

    def agreement(self, event: Event) -> None:
        equal = event.get("tokens_equal")
        # Of several comparisons the worst one counts, and one that is not a number is the worst.
        if isinstance(equal, bool):
            self.values["tokens_equal"] = equal and self.values.get("tokens_equal", True)
        difference, bound = _number(event.get("max_abs_diff")), _number(event.get("bound"))
        if difference is None:
            return
        excess = difference - bound if bound is not None else -math.inf
        if math.isnan(excess) or math.isnan(difference):
            excess = math.inf
        if self.excess is None or excess > self.excess:
            self.excess = excess
            self.values["max_abs_logprob_diff"], self.values["logprob_bound"] = difference, bound

    def control(self, event: Event) -> None:
        found = read_control(event)
        self.bad += found is None
        self._set("control", found)

    def shutdown(self, event: Event) -> None:
        self._set("children_left", _whole(event.get("children_left")))

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
                device=rank.device,
                visible_devices=rank.visible,
            )
            for number, rank in sorted(self.ranks.items())
        )
        return Evidence(ranks=ranks, phases=dict(self.phases), bad_lines=self.bad, **self.values)


def _sorted(words: set[str]) -> tuple[str, ...]:
    return tuple(sorted(words - {""}))


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
            known(reader, event)
    return reader.result()


def read_progress(lines: Iterable[str]) -> TestProgress:
    """How far the tests came, from the lines of the streamed test log. Never raises.

    A test is finished when its call (or a setup that did not pass) has a result. ``running`` is the test that began
    last and whose teardown has no result, unless the session itself finished and was not stopped in that test.
    """
    finished: set[str] = set()
    passed: set[str] = set()
    failed: set[str] = set()
    running, session_finished, interrupted = "", False, False
    for event in read_objects(lines):
        if event is None:
            continue
        node, when, outcome = (
            _text(event.get("nodeid")),
            _text(event.get("when")),
            _text(event.get("outcome")),
        )
        if event["event"] == "begin":
            running = node
        elif event["event"] == "result" and node:
            if when != "setup" or outcome != "passed":
                finished.add(node)
            if when == "call" and outcome == "passed":
                passed.add(node)
            if outcome in {"failed", "error"}:
                failed.add(node)
            if when == "teardown" and node == running:
                running = ""
        elif event["event"] == "collect_error":
            failed.add(node)
        elif event["event"] == "session_finish":
            session_finished = True
            interrupted = event.get("exitstatus") == INTERRUPTED
    return TestProgress(
        finished=len(finished),
        passed=len(passed - failed),
        failed=len(failed),
        running="" if session_finished and not interrupted else running,
        session_finished=session_finished,
    )
