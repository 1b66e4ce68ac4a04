"""The two files of this room: a release policy and a list of waivers, read strictly, all mistakes together."""

# ruff: noqa: RUF009 - key() is dataclasses.field with metadata; the defaults it makes are fresh for every value

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

from runner.errors import PolicyError, UsageError
from runner.expr import parse
from runner.model import Outcome, Proof
from runner.release import patterns
from runner.release.values import WAIVABLE, Minimum, Policy, Severity, Waiver
from runner.strictyaml.document import read_record
from runner.strictyaml.kinds import ListOf, MapOf, PlacedMapOf, Record, key
from runner.strictyaml.mistakes import TOP, Mark, Mistakes, TooMany, Unreadable, visible
from runner.strictyaml.scalars import Count, OneOf, Text, Word
from runner.vendors import PLATFORMS

T = TypeVar("T")

MAX_WAIVERS = 1000
_VERSION = "write version: 1; a file of another version needs another version of this program"


def _expression(text: str) -> tuple[str, str] | None:
    try:
        parse(text)
    except UsageError as error:
        return str(error), "such as platform=cpu and tp>1"
    return None


def _day(text: str) -> tuple[str, str] | None:
    try:
        good = date.fromisoformat(text).isoformat() == text
    except ValueError:
        good = False
    return None if good else (f"{visible(text)!r} is no day", "write it as YYYY-MM-DD, such as 2027-03-31")


def _outcome(text: str) -> tuple[str, str] | None:
    if text in tuple(WAIVABLE):
        return None
    if text in tuple(Outcome):
        return f"{text} cannot be waived", f"one of {', '.join(WAIVABLE)}"
    return Text(words=tuple(WAIVABLE)).wrong(text)


_line = Text()
_axis = Text(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an axis, such as quantization")
_digest = Text(r"sha256:[0-9a-f]{64}", "write sha256: and 64 hex digits")
_hash = Text(r"[0-9a-f]{64}", "copy the matrix hash that `plan` shows")
_COVERAGE = PlacedMapOf(MapOf(_axis, PlacedMapOf(MapOf(_line, Count(1, 100_000)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverRules:
    """How long waivers may hold, and what is made of those that do not fit."""

    max_days: int = key(Count(1, 3660), "days that a waiver may still have to go", 180)
    unmatched: Severity = key(OneOf(Severity), "one whose scope is no cell of the product", Severity.REFUSE)
    passing: Severity = key(OneOf(Severity), "one whose cells all pass", Severity.REPORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """What must be known of a run before a release is qualified by it."""

    version: int = key(Count(1, 1, _VERSION), "begin the file with: version: 1", 1, required=True)
    blocking: Word | None = key(
        Text(check=_expression),
        "the cells that must pass, such as platform=cpu; every cell if not said",
        None,
    )
    coverage: tuple[tuple[Word, tuple[tuple[Word, int], ...]], ...] = key(
        _COVERAGE, "for axis values: how many cells must have passed", ()
    )
    runtime: tuple[Word, ...] = key(
        ListOf(Text(words=("docker", "process")), single=True), "what may have run the cells", ()
    )
    proof: Proof = key(
        OneOf(Proof), "engine: a pass needs evidence of the engine; tests: it does not", Proof.ENGINE
    )
    engine_version: Word | None = key(
        _line, "version every cell must report; any; if not said, the one the run was told to expect", None
    )
    images: Mapping[str, Word] = key(
        MapOf(Text(words=PLATFORMS), _digest), "digest of each platform's image", {}
    )
    suites: tuple[tuple[Word, Word], ...] = key(
        PlacedMapOf(MapOf(_line, _digest)), "content of each suite by its path, as `gate` shows it", ()
    )
    matrix: Word | None = key(_hash, "hash of the matrix that the run must have, as `plan` shows it", None)
    max_age_days: int = key(Count(0, 3660), "days since the run ended", 30)
    waivers: WaiverRules = key(Record(WaiverRules), "rules for waivers", WaiverRules())


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverSpec:
    """One waiver."""

    mark: Mark
    scope: Word = key(
        Text(check=_expression), "give the cells as an expression, such as platform=cpu and tp=2"
    )
    outcome: tuple[Word, ...] = key(
        ListOf(Text(check=_outcome), single=True), "give the outcome that is expected"
    )
    cause: Word = key(Text(check=patterns.wrong), "give a pattern that the cause must contain")
    owner: Word = key(_line, "give who answers for it")
    bug: Word = key(_line, "give where the bug is tracked")
    expires: Word = key(Text(check=_day), "give the last day on which it holds, as YYYY-MM-DD")
    reason: Word = key(_line, "give the reason that is shown", Word("", TOP))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiversFile:
    """Signed-off expectations that some cells do not pass."""

    version: int = key(Count(1, 1, _VERSION), "begin the file with: version: 1", 1, required=True)
    waivers: tuple[WaiverSpec, ...] = key(ListOf(Record(WaiverSpec)), "give a list; [] for none")


def load_policy(path: Path) -> Policy:
    """Read a release policy. Raises :class:`runner.errors.PolicyError` with all mistakes."""
    file = _read(path, PolicyFile, "policy")
    where = path.name
    return Policy(
        source=str(path),
        digest="sha256:" + hashlib.sha256(path.read_bytes()).hexdigest(),
        blocking=file.blocking.text if file.blocking else "",
        blocking_source=f"{where}:{file.blocking.mark.line}" if file.blocking else where,
        coverage=tuple(
            Minimum(axis=axis.text, value=value.text, passed=passed, source=f"{where}:{value.mark.line}")
            for axis, values in file.coverage
            for value, passed in values
        ),
        runtimes=tuple(word.text for word in file.runtime) or ("docker",),
        proof=file.proof,
        engine_version=file.engine_version.text if file.engine_version else None,
        images={platform: word.text for platform, word in file.images.items()},
        suites={path.text: digest.text for path, digest in file.suites},
        matrix_hash=file.matrix.text if file.matrix else "",
        max_age_days=file.max_age_days,
        max_waiver_days=file.waivers.max_days,
        unmatched_waiver=file.waivers.unmatched,
        passing_waiver=file.waivers.passing,
    )


def load_waivers(path: Path) -> tuple[Waiver, ...]:
    """Read a file of waivers, in its order. Raises :class:`runner.errors.PolicyError` with all mistakes."""
    file = _read(path, WaiversFile, "waiver")
    return tuple(
        Waiver(
            scope=each.scope.text,
            outcomes=tuple(Outcome(word.text) for word in each.outcome),
            cause=each.cause.text,
            owner=each.owner.text,
            bug=each.bug.text,
            expires=date.fromisoformat(each.expires.text),
            reason=each.reason.text,
            source=f"{path.name}:{each.mark.line}",
        )
        for each in file.waivers
    )


def _read(path: Path, cls: type[T], noun: str) -> T:
    mistakes = Mistakes(visible(str(path), 4096), noun, PolicyError)
    try:
        file = read_record(path, cls, mistakes)
        if isinstance(file, WaiversFile):
            _check_waivers(file, mistakes)
    except (Unreadable, TooMany):
        mistakes.settle()
        raise
    mistakes.settle()
    return file


def _check_waivers(file: WaiversFile, mistakes: Mistakes) -> None:
    if len(file.waivers) > MAX_WAIVERS:
        mistakes.add(TOP, f"the file has {len(file.waivers)} waivers, the limit is {MAX_WAIVERS}")
    for each in file.waivers:
        if not each.outcome:
            mistakes.add(each.mark, "outcome: the list is empty", "name the outcome that is expected")
