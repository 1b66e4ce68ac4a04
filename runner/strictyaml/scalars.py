"""Kinds of single values: each reads a node and describes itself as JSON Schema, from one definition."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, cast

from runner.model import Scalar
from runner.strictyaml.mistakes import Mark, Mistakes, invisible, meant, visible
from runner.strictyaml.nodes import Leaf, Listing, Node

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Schema = dict[str, Any]
_ANY_SCALAR: Schema = {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class Word:
    """A text and where it stands."""

    text: str
    mark: Mark

    def __str__(self) -> str:
        return self.text


class Kind(Protocol[T_co]):
    """A kind of value. ``read`` notes what is wrong and raises ``Unreadable`` where nothing is left to use."""

    def read(self, node: Node, what: str, mistakes: Mistakes) -> T_co:
        """The value of a node; ``what`` names it in messages."""
        ...

    def schema(self) -> Schema:
        """The same kind as JSON Schema."""
        ...


def leaf(node: Node, what: str, mistakes: Mistakes, fix: str = "write a value, or remove it") -> Leaf:
    """The node as a single value that is not null. ``fix`` is the advice where it is."""
    if not isinstance(node, Leaf):
        shape = "a list" if isinstance(node, Listing) else "a mapping"
        raise mistakes.refuse(node.mark, f"{what} must be one value, not {shape}")
    if node.null:
        shown = f" ({node.text})" if node.text else ""
        raise mistakes.refuse(node.mark, f"{what} has no value{shown}", fix)
    return node


_OR_EMPTY = 'write a value, or "" for an empty text'


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text, as written. ``check`` returns what is wrong with it and the fix, or None."""

    pattern: str = ""
    rule: str = ""
    words: tuple[str, ...] = ()
    check: Callable[[str], tuple[str, str] | None] | None = None

    def read(self, node: Node, what: str, mistakes: Mistakes) -> Word:
        """The text and its place."""
        value = leaf(node, what, mistakes)
        wrong = self.wrong(value.text)
        if wrong:
            raise mistakes.refuse(value.mark, f"{what}: {wrong[0]}", wrong[1])
        return Word(value.text, value.mark)

    def wrong(self, text: str) -> tuple[str, str] | None:
        """What is wrong with a text, and the fix."""
        hidden = next((char for char in text if invisible(char)), None)
        if hidden:
            return f"{visible(text)!r} holds the invisible character U+{ord(hidden):04X}", "remove it"
        if self.words and text not in self.words:
            return f"{visible(text)!r} is not known", meant(text, self.words)
        if not text.strip():
            return f"{text!r} is empty", "write a value"
        if self.pattern and not re.fullmatch(self.pattern, text):
            return f"{visible(text)!r} does not fit", self.rule
        return self.check(text) if self.check else None

    def schema(self) -> Schema:
        """A string; numbers and booleans too, since unquoted values keep their text."""
        if self.words:
            return {"enum": list(self.words)}
        found: Schema = dict(_ANY_SCALAR)
        if self.pattern:
            found["pattern"] = f"^({self.pattern})$"
        return found


@dataclass(frozen=True, slots=True)
class OneOf(Generic[T]):
    """A member of an enum, by its value."""

    enum: type[StrEnum]

    def read(self, node: Node, what: str, mistakes: Mistakes) -> T:
        """The member."""
        word = Text(words=tuple(member.value for member in self.enum)).read(node, what, mistakes)
        return cast("T", self.enum(word.text))

    def schema(self) -> Schema:
        """An enumeration."""
        return {"enum": [member.value for member in self.enum]}


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number within bounds. ``fix`` is the advice for any other value."""

    least: int
    most: int
    fix: str = ""

    def read(self, node: Node, what: str, mistakes: Mistakes) -> int:
        """The number."""
        value = leaf(node, what, mistakes)
        if re.fullmatch(r"0|[1-9][0-9]{0,8}", value.text) and self.least <= int(value.text) <= self.most:
            return int(value.text)
        bounds = (
            f"no whole number from {self.least} to {self.most}" if self.least < self.most else "not known"
        )
        raise mistakes.refuse(value.mark, f"{what}: {visible(value.text)!r} is {bounds}", self.fix)

    def schema(self) -> Schema:
        """An integer within bounds."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Duration:
    """A time such as ``90s``, ``10m`` or ``1h30m``; in seconds."""

    pattern = r"(?=[0-9])([0-9]{1,4}h)?([0-9]{1,6}m)?([0-9]{1,8}s)?"
    shape = r"-?(?=[0-9])([0-9]+h)?([0-9]+m)?([0-9]+s)?"

    def read(self, node: Node, what: str, mistakes: Mistakes) -> float:
        """The seconds."""
        value = leaf(node, what, mistakes)
        found = re.fullmatch(self.pattern, value.text)
        seconds = 0
        if found:
            seconds = sum(
                int((part or "0s")[:-1]) * unit
                for part, unit in zip(found.groups(), (3600, 60, 1), strict=True)
            )
        if seconds <= 0:
            wrong, fix = "no time", "write it with units: 90s, 10m, 1h30m"
            if re.fullmatch(self.shape, value.text):
                wrong, fix = _out_of_bounds(value.text, "1s", "9999h")
            raise mistakes.refuse(value.mark, f"{what}: {visible(value.text)!r} is {wrong}", fix)
        return float(seconds)

    def schema(self) -> Schema:
        """A string with units."""
        return {"type": "string", "pattern": f"^{self.pattern}$"}


@dataclass(frozen=True, slots=True)
class Size:
    """An amount of memory such as ``512m`` or ``4g`` (powers of 1024, as Docker reads them); in bytes."""

    pattern = r"[1-9][0-9]{0,8}[kmg]"
    shape = r"-?[0-9]+[kmg]"

    def read(self, node: Node, what: str, mistakes: Mistakes) -> int:
        """The bytes."""
        value = leaf(node, what, mistakes)
        if not re.fullmatch(self.pattern, value.text):
            wrong, fix = "no size", "write it with a unit: 64k, 512m, 4g"
            if re.fullmatch(self.shape, value.text):
                wrong, fix = _out_of_bounds(value.text, "1k", "999999999g")
            raise mistakes.refuse(value.mark, f"{what}: {visible(value.text)!r} is {wrong}", fix)
        return int(value.text[:-1]) << {"k": 10, "m": 20, "g": 30}[value.text[-1]]

    def schema(self) -> Schema:
        """A string with a unit."""
        return {"type": "string", "pattern": f"^{self.pattern}$"}


def _out_of_bounds(text: str, least: str, most: str) -> tuple[str, str]:
    """What is wrong with an amount that has its units, and the fix."""
    if text.startswith("-"):
        return "negative", f"write {least} or more"
    if not text.strip("0hmskg"):
        return "zero", f"write {least} or more; leave the key out for the default"
    if text.startswith("0"):
        return "written with a zero before it", "leave the zero out"
    return "too much", f"write {most} or less"


def _looks_like_a_number(text: str) -> bool:
    """Whether some YAML reader may take a text for a number; versions such as 1.10.0 are none to any."""
    if re.fullmatch(r"[-+]?\.(inf|nan)|0[xo][0-9a-f]+", text, re.IGNORECASE):
        return True
    shape = re.fullmatch(r"[-+]?[0-9._]+(e[-+]?[0-9]+)?", text, re.IGNORECASE)
    return shape is not None and text.count(".") < 2 and any(char.isdigit() for char in text)


@dataclass(frozen=True, slots=True)
class EngineValue:
    """A value for the engine: unquoted true, false and numbers are typed, everything else is text."""

    def read(self, node: Node, what: str, mistakes: Mistakes) -> Scalar:
        """The typed value."""
        value = leaf(node, what, mistakes, _OR_EMPTY)
        text = value.text
        if not value.plain:
            return text
        if text in ("true", "false"):
            return text == "true"
        if text.lower() in ("yes", "no", "on", "off", "true", "false"):
            raise mistakes.refuse(
                value.mark, f"{what}: {text} may mean a text or a truth", "write true or false, or quote it"
            )
        if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
            return int(text)
        if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,17}", text):
            return float(text)
        if _looks_like_a_number(text):
            raise mistakes.refuse(
                value.mark,
                f"{what}: {visible(text)} may mean a text or a number",
                "quote it, or write it plainly",
            )
        return text

    def schema(self) -> Schema:
        """A string, number or boolean."""
        return dict(_ANY_SCALAR)


@dataclass(frozen=True, slots=True)
class EnvValue:
    """The value of a variable: its text byte for byte, quoted or not."""

    def read(self, node: Node, what: str, mistakes: Mistakes) -> str:
        """The text."""
        value = leaf(node, what, mistakes, _OR_EMPTY)
        if "\0" in value.text:
            raise mistakes.refuse(value.mark, f"{what} holds a NUL, which no variable can", "remove it")
        return value.text

    def schema(self) -> Schema:
        """A string, number or boolean; none of them null."""
        return dict(_ANY_SCALAR)
