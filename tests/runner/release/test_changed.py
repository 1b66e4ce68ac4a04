"""Times that contradict the attempts, and what was laid beside them: each turns a green run red, for the right reason."""

from __future__ import annotations

import shutil
from datetime import date
from typing import Any

import pytest

from runner.codec import sha256
from runner.release import Because
from tests.runner.release.factory import Gated, days
from tests.runner.release.test_mutations import Change, edit, forge, said


def times(gated: Gated, **changes: str) -> None:
    edit(gated.folder / "run.json", lambda data: data.update(changes))


MUTATIONS: dict[str, tuple[Change, Because, str]] = {
    "no time": (
        lambda g: times(g, ended_at="soon"),
        Because.FOLDER,
        "run.json: it does not say when the run ended",
    ),
    "ended before it began": (
        lambda g: times(g, ended_at="2026-01-01T00:00:00Z"),
        Because.FOLDER,
        "before it began at",
    ),
    "ended days after its last attempt": (
        lambda g: times(g, ended_at=f"{days(3)}T00:00:00Z"),
        Because.FOLDER,
        "long after its last attempt did at",
    ),
    "ended before an attempt did": (
        lambda g: forge(g, lambda r: r["attempts"][0]["exit"].update(duration_s=86400.0)),
        Because.FOLDER,
        "after the run did at",
    ),
    "an attempt of another day": (
        lambda g: forge(g, lambda r: r["attempts"][0].update(started_at="2026-01-01T00:00:00Z")),
        Because.FOLDER,
        "attempt 1 began at 2026-01-01T00:00:00Z, before the run did",
    ),
    "an attempt without a time": (
        lambda g: forge(g, lambda r: r["attempts"][0].update(started_at="soon")),
        Because.FOLDER,
        "attempt 1 does not say when it ran",
    ),
    "add an attempt": (
        lambda g: shutil.copytree(g.attempt(), g.attempt().with_name("attempt-2")),
        Because.FOLDER,
        "/attempt-2: not in the record; it was added later",
    ),
    "add an empty attempt": (
        lambda g: g.attempt().with_name("attempt-01").mkdir(),
        Because.FOLDER,
        "/attempt-01: not in the record; it was added later",
    ),
    "add a file beside the attempts": (
        lambda g: g.attempt().with_name("note.txt").write_text("x"),
        Because.FOLDER,
        "/note.txt: not in the record; it was added later",
    ),
    "add a file beside the cells": (
        lambda g: (g.folder / "cells" / "junit.xml").write_text("x"),
        Because.FOLDER,
        "cells/junit.xml: no planned cell",
    ),
}


@pytest.mark.parametrize(("change", "kind", "text"), MUTATIONS.values(), ids=MUTATIONS)
def test_each_mutation_is_refused_for_the_right_reason(
    green: Gated, change: Change, kind: Because, text: str
) -> None:
    change(green)
    assert text in said(green, kind)


def test_a_run_that_is_too_old_is_refused(green: Gated) -> None:
    assert green.gate(today=days(30)).green
    old = green.gate(today=days(31)).decision.reasons
    assert [reason.kind for reason in old] == [Because.AGE]
    assert "31 days ago; the policy takes 30" in old[0].text
    future = green.gate(today=days(-1)).decision.reasons
    assert "after the day of this decision" in future[0].text


def test_an_old_run_stays_old_whatever_it_says_of_its_end(green: Gated) -> None:
    times(green, ended_at=f"{days(31)}T00:00:00Z")
    assert "31 days ago; the policy takes 30" in said_on(green, days(31), Because.AGE)


def test_a_run_is_as_old_as_its_oldest_pass(green: Gated) -> None:
    """A cell that passed long ago, in a run that was resumed today."""
    old = f"{days(-40)}T12:00:00+00:00"
    for name in ("plan.json", "run.json"):
        edit(green.folder / name, lambda data: data.update(started_at=old))
    edit(green.folder / "run.json", lambda data: data["hashes"].update({"plan.json": plan_hash(green)}))
    forge(green, lambda record: record["attempts"][0].update(started_at=old))
    (reason,) = green.gate().decision.reasons
    ended = f"the oldest of its passed cells ended on {days(-40)}, 40 days ago; the policy takes 30"
    assert (reason.kind, reason.text) == (Because.AGE, ended)


def plan_hash(gated: Gated) -> str:
    return sha256(gated.folder / "plan.json")


def said_on(gated: Gated, day: date, kind: Because) -> str:
    return "\n".join(reason.text for reason in gated.gate(today=day).decision.reasons if reason.kind is kind)


def test_what_a_killed_runner_left_is_no_change(green: Gated) -> None:
    cell = green.attempt().parent

    def later(record: dict[str, Any]) -> None:
        attempt = record["attempts"][0]
        attempt["number"] = 2
        attempt["files"] = {name.replace("-1/", "-2/"): digest for name, digest in attempt["files"].items()}

    shutil.copytree(green.attempt(), cell / "attempt-2")
    forge(green, later)
    (cell / ".cell.json.4242.tmp").write_text("{")
    assert green.gate().green
