"""Image references: what a registry would take, and credentials that somebody wrote into one.

The grammar is that of ``reference/regexp.go`` in distribution/reference 0.6, with the rule of its ``normalize.go`` for
which first part is a host.
"""

from __future__ import annotations

import re

HOLDS_CREDENTIALS = (
    "what stands before the @ of an image would be credentials, which plan, report and log show"
)
LOG_IN = "leave it out, docker login REGISTRY keeps credentials; a digest is NAME@sha256:DIGEST"

_DIGEST = re.compile(r"@sha(?:256|384|512):[^@]*$")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_REST = re.compile(rf"{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII)
_ID = re.compile(r"sha256:[0-9a-f]{64}")


def credentials(text: str) -> str:
    """What stands before a registry and an ``@``; "" where nothing does. A path may hold an ``@`` of its own."""
    if text.startswith(("/", "./", "../")):
        return ""
    before, at, _ = _DIGEST.sub("", text).rpartition("@")
    return before if at else ""


def without_credentials(text: str) -> str:
    """A text for a message."""
    platform, equals, image = text.partition("=")
    if not platform.isidentifier() or "=" in image:
        platform, equals, image = "", "", text
    found = credentials(image)
    return f"{platform}{equals}***{image[len(found) :]}" if found else text


def is_reference(text: str) -> bool:
    """Whether an engine would ask a registry for it, or know it by its id."""
    if _ID.fullmatch(text):
        return True
    first, slash, rest = text.partition("/")
    hosted = slash and (first != first.lower() or first == "localhost" or any(char in first for char in ".:"))
    if hosted and not _HOST.fullmatch(first):
        return False
    return _REST.fullmatch(rest if hosted else text) is not None
