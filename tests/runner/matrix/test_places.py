"""Bounds that a total ends first, and the places that notes of a plan name."""

from __future__ import annotations

from typing import Any

import pytest

HEAD = "version: 1\naxes: {platform: [cpu], case: [a, b]}\nsuite: {proof: tests}\n"


@pytest.mark.parametrize(
    ("limits", "mistakes"),
    [
        ("{start: 2h, total: 30m}", ["4:10: limits.start 2h is never reached: limits.total 30m ends the cell first"]),
        ("{idle: 90s, total: 1m}", ["4:10: limits.idle 1m30s is never reached: limits.total 1m ends the cell first"]),
        (
            "{total: 1h, phases: {load: 2h, ready: 3m}}",
            ["4:21: limits.phases.load 2h is never reached: limits.total 1h ends the cell first"],
        ),
        ("{start: 30m, idle: 30m, total: 30m}", []),
        ("{total: 1h, phases: {prepare: 2h}}", []),  # bounds the wait for devices, before the cell starts
        ("{total: 10s}", []),  # the defaults of start and idle are more, and nobody wrote them
    ],
)  # fmt: skip
def test_a_bound_beside_a_total_that_is_reached_first_is_a_mistake(
    load: Any, wrong: Any, limits: str, mistakes: list[str]
) -> None:
    text = f"{HEAD}limits: {limits}\n"
    if mistakes:
        assert wrong(text) == [f"{line} (raise total, or lower it)" for line in mistakes]
    else:
        assert load(text).remarks == ()


def test_a_bound_of_one_layer_and_a_total_of_another_are_a_note(load: Any) -> None:
    text = HEAD + "limits: {start: 20m}\noverrides:\n  - {when: case=a, limits: {total: 10m}}\n"
    assert load(text).remarks == (
        "matrix.yaml:4:10: limits.start 20m is never reached in cells whose limits.total is 10m",
    )


def test_places_of_what_only_a_host_can_judge(load: Any) -> None:
    text = """\
version: 1
axes: {platform: [cpu]}
suite: {path: s, proof: tests, tests: [a.py]}
secrets: [ONE]
platforms: {cpu: {image: i, secrets: [ONE, TWO], mounts: [/opt], engine_digest: [/e]}}
models: {m: {recipe: r}}
"""
    assert load(text).places == {
        "suite": "matrix.yaml:3:15",
        "test a.py": "matrix.yaml:3:40",
        "secret ONE": "matrix.yaml:4:11",
        "secret TWO": "matrix.yaml:5:44",
        "image i": "matrix.yaml:5:26",
        "host path /opt": "matrix.yaml:5:50",
        "host path /e": "matrix.yaml:5:82",
        "model m": "matrix.yaml:6:13",
    }
