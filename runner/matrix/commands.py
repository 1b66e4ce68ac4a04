"""What the words of a suite's ``command`` may hold for the runner to fill in."""

from __future__ import annotations

import re

from runner.strictyaml.mistakes import visible

COMMAND_PLACES = ("{suite}", "{out}")
"""A cell's folders stand there when it starts."""


def command_wrong(text: str) -> tuple[str, str] | None:
    """What is wrong with a word of a command, and the fix. Braces of a script may be its own."""
    unknown = unknown_places(text)
    if not unknown or _is_script(text):
        return None
    return (
        f"{visible(text)!r} holds {unknown[0]}, which stands for nothing",
        f"known: {', '.join(COMMAND_PLACES)}",
    )


def unknown_places(text: str) -> list[str]:
    """What in a word looks as if the runner put something there, and it does not."""
    found = re.findall(r"(?<![${])\{[A-Za-z_]\w*\}(?!\})", text)
    return [each for each in found if each not in COMMAND_PLACES]


def _is_script(text: str) -> bool:
    return any(char.isspace() or char in "()'\";" for char in text)
