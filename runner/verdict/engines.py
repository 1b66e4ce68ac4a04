"""What the engines of a cell say of themselves. A suite may start several: each must be as asked, so they must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SHOWN_VALUES, SHOWN_CHARS = 3, 60
"""So many values of one field are told apart, and so much of each is shown."""
_NOTHING = "nothing"


def with_commit(version: str, commit: str) -> str:
    """A version with the commit it was built from in its local part (PEP 440), also beside another one (``+cpu``)."""
    public, _, local = version.partition("+")
    known = commit.removeprefix("g")
    parts = [part.removeprefix("g") for part in local.split(".") if part]
    if not public or not known or any(part.startswith(known) or known.startswith(part) for part in parts):
        return version
    return f"{public}+{local}{'.' * bool(local)}g{known}"


@dataclass(slots=True)
class Engines:
    """The ``engine`` events so far: what the last engine said, and every value that any of them gave, in order."""

    count: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    before: dict[str, list[str]] = field(default_factory=dict)

    def take(self, said: Mapping[str, Any]) -> None:
        """Take an event's values by field; it is of another engine where it names one, else more of the last one."""
        if said.get("engine") or not self.count:
            self._close()
            self.count += 1
            self.last = {}
        self.last |= {name: value for name, value in said.items() if value is not None and value != ""}

    def _close(self) -> None:
        if not self.count:
            return
        for name in [*self.before, *(name for name in self.last if name not in self.before)]:
            values = self.before.setdefault(name, [_NOTHING] if self.count > 1 else [])
            value = str(self.last.get(name, _NOTHING))[:SHOWN_CHARS]
            if value not in values and len(values) < SHOWN_VALUES:
                values.append(value)

    def conflicts(self) -> tuple[str, ...]:
        """Each field in which the engines differ, with its values; nothing for one engine and for equal ones."""
        if self.count < 2:
            return ()
        self._close()
        return tuple(
            f"{self.count} engines: {name.removeprefix('engine_').replace('_', ' ')} {' and '.join(values)}"
            for name, values in self.before.items()
            if len(values) > 1
        )
