"""The one line with which a person runs a single cell again, as it was run here."""

from __future__ import annotations

import shlex
from functools import lru_cache

from runner.model import Cell
from runner.records import Run

_KEPT = {"--image": True, "--no-rules": False, "--no-caches": False, "--max-cells": True}
"""Options of the original command without which the line would be refused or run something else, and whether each
takes a value."""


def rerun_line(run: Run, cell: Cell) -> str:
    """A shell line (POSIX quoting, bash's ``$'..'`` for control characters) that runs this cell alone."""
    words = ["python", "-m", "runner", run.plan.matrix, "--cell", cell.id]
    if run.runtime in {"docker", "process"}:
        words += ["--runtime", run.runtime]
    if run.expect_engine:
        words += ["--expect-engine", run.expect_engine]
    return " ".join([*map(_quote, words), *_kept(run.command)])


@lru_cache(maxsize=8)
def _kept(command: str) -> tuple[str, ...]:
    """Options to carry over, quoted; a run has one command and thousands of cells, so it is read once."""
    try:
        words = iter(shlex.split(command))
    except ValueError:  # the command was cut or written by hand: nothing to carry over
        return ()
    kept = []
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in _KEPT:
            continue
        kept.append(word)
        if _KEPT[name] and not equals and (value := next(words, None)) is not None:
            kept.append(value)
    return tuple(map(_quote, kept))


def _quote(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _octets(c) for c in escaped) + "'"


def _octets(char: str) -> str:
    return "".join(f"\\x{octet:02x}" for octet in char.encode("utf-8", "surrogateescape"))
