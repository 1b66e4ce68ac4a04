"""Stable, flaky, regression, broken, fixed or bound to a host: what a cell's results over runs say, or "unsure".

Results that a host fault or a stop made are left out. The latest :data:`BUDGET` others are read in time order, and the
first of these that holds decides:

1. Fewer than :data:`FEWEST` results: unsure.
2. Failures on some hosts only and there always, while the others always pass, at least 3 results on either side and
   the hosts taking turns: host-bound.
3. All passed but for one unbroken end, or all failed but for one: a lasting change. It is believed where the chance
   that the same results, in any order, fall so is at most :data:`ALPHA` (1 / C(n, failures)): regression or fixed,
   with the first run of the new kind.
4. A result that failed and passed within one run, or one candidate that passed and failed (the strongest sign): flaky.
5. Every result failed: broken.
6. Wald's sequential probability ratio test over pass and fail: H0 says a share of at most P0 of results fails, H1 at
   least P1; errors ALPHA and BETA. H1 accepted: flaky; H0: stable. After a decision the test starts anew, so a flaky
   cell needs at least :data:`STREAK` passes in a row to be stable again, and one failure makes a stable cell unsure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runner.records import Seen

ALPHA, BETA = 0.05, 0.05
P0, P1 = 0.01, 0.3
FEWEST = 5
BUDGET = 50

_UPPER = math.log((1 - BETA) / ALPHA)
_LOWER = math.log(BETA / (1 - ALPHA))
_FAIL, _PASS = math.log(P1 / P0), math.log((1 - P1) / (1 - P0))
STREAK = math.ceil(_LOWER / _PASS)
"""Passes in a row that make a cell stable: 9."""


class Class(StrEnum):
    """What the results of a cell say."""

    STABLE = "stable"
    FLAKY = "flaky"
    REGRESSION = "regression"
    BROKEN = "broken"
    FIXED = "fixed"
    HOST_BOUND = "host-bound"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A class with its reason. ``since`` is the first run of a lasting change, ``more`` how many passes would settle."""

    kind: Class
    why: str
    since: str = ""
    more: int = 0

    @property
    def text(self) -> str:
        """One line."""
        return f"{self.kind}{f' since {self.since}' if self.since else ''}: {self.why}"


def judge(seen: Sequence[Seen]) -> Judgement:
    """Judge results in time order, all of one test definition."""
    used = [one for one in seen if one.result in "PFf"][-BUDGET:]
    if len(used) < FEWEST:
        why = f"only {len(used)} of the results count, {FEWEST} are the least"
        return Judgement(kind=Class.UNSURE, why=why, more=FEWEST - len(used))
    return _host_bound(used) or _lasting(used) or _at_once(used) or _broken(used) or _sequential(used)


def _host_bound(used: Sequence[Seen]) -> Judgement | None:
    bad = {one.host for one in used if one.result == "F"}
    good = {one.host for one in used if one.result != "F"}
    failed = sum(one.result == "F" for one in used)
    if not bad or not good or bad & good or min(failed, len(used) - failed) < 3 or "" in bad | good:
        return None
    if any(one.result == "f" for one in used) or _changes(used) < 2:
        return None
    hosts = ", ".join(sorted(bad))
    return Judgement(kind=Class.HOST_BOUND, why=f"all {failed} results on {hosts} fail, all others pass")


def _changes(used: Sequence[Seen]) -> int:
    return sum(a.result != b.result for a, b in itertools.pairwise(used))


def _lasting(used: Sequence[Seen]) -> Judgement | None:
    if any(one.result == "f" for one in used) or _changes(used) != 1:
        return None
    failed = sum(one.result == "F" for one in used)
    chance = 1 / math.comb(len(used), failed)
    at = next(n for n in range(1, len(used)) if used[n].result != used[n - 1].result)
    if chance > ALPHA:
        return None
    kind = Class.REGRESSION if used[-1].result == "F" else Class.FIXED
    word = "fail" if kind is Class.REGRESSION else "pass"
    why = f"all {len(used) - at} results from then on {word}, all {at} before did not"
    return Judgement(kind=kind, why=why, since=used[at].run_id)


def _at_once(used: Sequence[Seen]) -> Judgement | None:
    retried = [one.run_id for one in used if one.result == "f"]
    if retried:
        return Judgement(kind=Class.FLAKY, why=f"failed and passed within one run: {_few(retried)}")
    results: dict[str, set[str]] = {}
    for one in used:
        if one.candidate:
            results.setdefault(one.candidate, set()).add(one.result)
    both = [candidate for candidate, found in results.items() if len(found) > 1]
    return Judgement(kind=Class.FLAKY, why=f"one candidate passed and failed: {_few(both)}") if both else None


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _broken(used: Sequence[Seen]) -> Judgement | None:
    if any(one.result != "F" for one in used):
        return None
    return Judgement(kind=Class.BROKEN, why=f"all {len(used)} results fail", since=used[0].run_id)


def _sequential(used: Sequence[Seen]) -> Judgement:
    level, decided = 0.0, Class.UNSURE
    for one in used:
        level += _FAIL if one.result == "F" else _PASS
        if one.result == "F" and decided is Class.STABLE:
            decided = Class.UNSURE
        if level >= _UPPER or level <= _LOWER:
            decided = Class.FLAKY if level >= _UPPER else Class.STABLE
            level = 0.0
    failed = sum(one.result == "F" for one in used)
    counts = f"{failed} of {len(used)} results fail" if failed else f"all {len(used)} results pass"
    more = max(1, math.ceil((_LOWER - level) / _PASS))
    if decided is Class.UNSURE:
        return Judgement(
            kind=Class.UNSURE, why=f"{counts}; {more} more passes in a row would settle it", more=more
        )
    return Judgement(kind=decided, why=f"{counts} (sequential test, errors {ALPHA:.0%} and {BETA:.0%})")


def since(seen: Sequence[Seen]) -> str:
    """Id of the first run of the failing that lasts to the end, over results that say nothing; empty where it passed."""
    first = ""
    for one in seen:
        if one.result == "P":
            first = ""
        elif one.result in "Ff":
            first = first or one.run_id
    return first
