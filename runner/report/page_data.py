"""What the page's script needs of every cell, small enough for 10,000 cells: repeated parts are kept once, in pools.

Shape (keys are short because each is written once per cell; ``page.js`` is the only reader)::

    axes, looks, rerun, order, pools{reasons, ranks, files, expect, phases, changes}, cells[]
    cell:    a axis values, s slug, w word, r reasons*, d seconds, c culprit, u cause, n no engine proof, e expect*,
             q rerun line where it is not plain, f failing tests, F how many failed, x log context, t attempts,
             b change against the baseline*
    attempt: n number, w word, c culprit, u cause, z remarks, d seconds, x exit code, m message, y stop or fault,
             t tally, b started at, v devices, h caches, f files*, p proof          (* an index, or indices, into a pool)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any

from runner.facts import Evidence, RankFacts
from runner.model import Cell, Expectation
from runner.records import Attempt, CacheUse
from runner.report.groups import reason_text
from runner.report.rerun import rerun_line
from runner.report.text import clean, clean_block, cut_lines
from runner.report.view import CellView, RunView
from runner.report.vocabulary import LOOKS
from runner.triage import Compared

MOST_TESTS = 20
"""Failing tests of a cell with their messages; the rest is in the cell's junit.xml."""

MESSAGE_CHARS = 2_000


class Budget:
    """Characters that long texts (messages, log context) may still take in the whole page."""

    def __init__(self, chars: int) -> None:
        self._left = chars

    def take(self, text: str) -> str:
        """The text, or nothing where it no longer fits."""
        if len(text) > self._left:
            return ""
        self._left -= len(text)
        return text


class _Pool:
    """Values kept once; :meth:`at` gives the index of one."""

    def __init__(self) -> None:
        self._index: dict[Hashable, int] = {}
        self.values: list[Any] = []

    def at(self, key: Hashable, make: Callable[[], Any]) -> int:
        """The index of what ``make`` gives for this key; it is asked once a key."""
        if key not in self._index:
            self._index[key] = len(self.values)
            self.values.append(make())
        return self._index[key]


def page_data(
    shown: RunView,
    contexts: Mapping[str, str],
    budget: Budget,
    changes: Mapping[str, Compared] | None = None,
) -> dict[str, Any]:
    """The whole table of cells. ``contexts`` are log excerpts by slug, for cells that have no card on the page."""
    changes = changes or {}
    pools = {name: _Pool() for name in ("reasons", "ranks", "files", "expect", "phases", "changes")}
    names: dict[str, None] = {}
    for view in shown.cells:
        names.update(dict.fromkeys(name for name, _ in view.entry.cell.axes))
    prefix, suffix = _rerun_frame(shown)
    cells = []
    for view in shown.cells:
        made = _cell(view, list(names), pools, budget)
        if view.planned:
            line = rerun_line(shown.run, view.entry.cell)
            if line != prefix + view.id + suffix:
                made["q"] = line
        if context := contexts.get(view.slug):
            made["x"] = budget.take(context)
        if change := changes.get(view.entry.cell.id):
            before = LOOKS[change.before].label if change.before in LOOKS else change.before
            key = (change.change, before, change.why)
            made["b"] = pools["changes"].at(key, partial(list, map(clean, key)))
        cells.append(_full(made))
    return {
        "axes": [clean(name) for name in names],
        "looks": {w: [look.symbol, look.label, look.tone, look.meaning] for w, look in LOOKS.items()},
        "rerun": [prefix, suffix],
        "order": [[clean(value) for value in shown.run.plan.axes.get(name, ())] for name in names],
        "pools": {name: pool.values for name, pool in pools.items()},
        "cells": cells,
    }


def script_json(value: Any) -> str:
    """JSON that can stand inside a ``script`` element: no ``<``, ``>``, ``&`` and no line separator of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _rerun_frame(shown: RunView) -> tuple[str, str]:
    """What stands before and after the id in every rerun line whose id needs no quoting."""
    probe = "platform=x"
    prefix, _, suffix = rerun_line(shown.run, Cell((("platform", "x"),))).partition(probe)
    return prefix, suffix


def _full(value: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty; 0 stays, for it is the index of a pool."""
    return {key: part for key, part in value.items() if part or (part == 0 and part is not False)}


def _cell(view: CellView, names: list[str], pools: Mapping[str, _Pool], budget: Budget) -> dict[str, Any]:
    cell, record = view.entry.cell, view.record
    values = dict(cell.axes)
    made: dict[str, Any] = {
        "a": [clean(values[name]) if name in values else None for name in names],
        "s": view.slug,
        "w": str(view.word),
    }
    if not view.planned:
        made["r"] = [
            pools["reasons"].at(reason, partial(reason_text, reason)) for reason in view.entry.reasons
        ]
        return made
    expect = view.entry.settings.expect
    made |= {
        "n": view.proven_by_tests_only,
        "e": pools["expect"].at(expect, partial(_expect, expect)),
        "c": str(view.culprit) if view.red else "",
        "u": view.cause,
        "F": view.failing_total or None,
    }
    if record:
        made["d"] = _tenths(record.ran_s)
        made["t"] = [_attempt(attempt, pools) for attempt in record.attempts]
        made["k"] = record.refused
    made["f"] = [
        [*_test(case.classname, case.name), budget.take(message(case.messages))]
        for case in view.failing[:MOST_TESTS]
    ]
    return made


def message(parts: tuple[str, ...]) -> str:
    """The messages of a test, safe and cut."""
    return cut_lines(clean_block("\n".join(parts)), lines=40, chars=MESSAGE_CHARS)


def _test(classname: str, name: str) -> tuple[str, str]:
    return clean(classname)[:300], clean(name)[:300]


def _expect(expect: Expectation) -> list[str | None]:
    return [expect.moe_method, expect.expert_weight_dtype, expect.moe_backend, expect.linear_scheme]


def _attempt(attempt: Attempt, pools: Mapping[str, _Pool]) -> dict[str, Any]:
    verdict, end, tally = attempt.verdict, attempt.exit, attempt.tally
    made: dict[str, Any] = {
        "n": attempt.number,
        "w": str(verdict.outcome),
        "c": "" if verdict.green else str(verdict.culprit),
        "u": clean(verdict.cause),
        "z": [clean(remark) for remark in verdict.remarks],
        "b": clean(attempt.started_at),
        "v": [clean(device) for device in attempt.device_ids],
        "h": _cache(attempt.cache) if attempt.cache else "",
        "f": [pools["files"].at(name, partial(clean, name)) for name in attempt.files],
    }
    if end:
        stop = "out of memory event" if end.oom_killed else str(end.stopped or end.fault or "")
        made |= {
            "d": _tenths(end.duration_s),
            "x": str(end.exit_code),
            "m": clean(end.message)[:300],
            "y": stop,
        }
    if tally:
        made["t"] = [
            tally.total,
            tally.passed,
            tally.failed,
            tally.errors,
            tally.skipped,
            tally.xfailed,
            tally.flaky,
        ]
    if attempt.evidence:
        made["p"] = _proof(attempt.evidence, pools)
    return _full(made)


def _cache(use: CacheUse) -> str:
    """What an attempt had from compile caches and gave back, in words."""
    given = f"with {use.files_in} files, {use.bytes_in / 1e6:.1f} MB ({use.layer[:19]})"
    given = given if use.files_in else "cold"
    added = f"added {use.files_out} files, {use.bytes_out / 1e6:.1f} MB" if use.kept else ""
    return "; ".join(filter(None, (f"started {given}", added, clean(use.note))))


def _proof(evidence: Evidence, pools: Mapping[str, _Pool]) -> list[Any]:
    """Engine, version, platform, device, dtype, tp, method, same tokens, distance, bound, left, memory, ranks*, phases*, s, cut."""
    names = tuple(evidence.phases)
    return [
        *map(
            clean,
            (
                evidence.engine,
                evidence.engine_version,
                evidence.platform,
                evidence.device_type,
                evidence.dtype,
            ),
        ),
        evidence.tp,
        clean(evidence.quantization),
        evidence.tokens_equal,
        _number(evidence.max_abs_logprob_diff),
        _number(evidence.logprob_bound),
        evidence.children_left,
        None if evidence.memory_left is None else clean("; ".join(evidence.memory_left)),
        pools["ranks"].at(evidence.ranks, partial(_ranks, evidence.ranks)),
        pools["phases"].at(names, partial(list, map(clean, names))),
        [_tenths(value) for value in evidence.phases.values()],
        "" if evidence.ended else clean(evidence.phase),
    ]


def _ranks(ranks: tuple[RankFacts, ...]) -> list[list[Any]]:
    """Rank, world size, MoE methods, weight dtypes, backends, linear schemes, device, visible devices."""
    return [
        [
            rank.rank,
            rank.world_size,
            *(" ".join(map(clean, part)) for part in (rank.moe_methods, rank.expert_weight_dtypes)),
            *(" ".join(map(clean, part)) for part in (rank.backends, rank.linear_schemes)),
            clean(rank.device),
            rank.visible_devices,
        ]
        for rank in ranks
    ]


def _tenths(value: float) -> float:
    """Seconds with one decimal; what a cell wrote may be no number, which JSON cannot hold: 0 then."""
    return round(value, 1) if math.isfinite(value) else 0.0


def _number(value: float | None) -> str | None:
    """A number as text: NaN and infinity are no JSON."""
    return None if value is None else f"{value:.3g}"
