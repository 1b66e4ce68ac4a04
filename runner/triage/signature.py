"""A cause without what differs by chance, so that one cause over many cells is one cause."""

from __future__ import annotations

import re

# Order matters: paths before numbers, so that a path with a number in it is one mark.
_CHANCE = (
    (re.compile(r"(?:(?<=[\s'\"(=\[])|^)/[^\s'\":,)\]]+"), "<path>"),
    (re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(r"\b(GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]*"), r"\1-<id>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b"), "<hash>"),
    (re.compile(r"(?i)\bpid\s*[=:]?\s*\d+"), "pid <n>"),
    (re.compile(r"(?i)(?<![a-z])rank\s*[=:_-]?\s*\d+"), "rank <n>"),
    (re.compile(r"(?i)(?<=[_\W])(tp|pp|dp|ep|worker|gpu|device)[ _-]?\d+\b"), r"\1<n>"),
    (re.compile(r"(?i)\b(worker)[ _-]?(tp)?\d+\b"), r"\1<n>"),
    (re.compile(r"(?<![A-Za-z_.])\d+(?:\.\d+)*(?:e[-+]?\d+)?"), "<n>"),
)


def signature(cause: str) -> str:
    """A cause without numbers, addresses, hashes, paths, ranks and process ids. ``int8`` and ``int4`` stay apart."""
    for pattern, mark in _CHANCE:
        cause = pattern.sub(mark, cause)
    return cause
