"""Kinds of collections in a file; records are dataclasses whose fields are made with :func:`key`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Generic, TypeVar, cast

from runner.strictyaml.mistakes import Mistakes, Unreadable, meant, visible
from runner.strictyaml.nodes import Leaf, Listing, Node, Table
from runner.strictyaml.scalars import Kind, Schema, Text, Word

T = TypeVar("T")


def table(node: Node, what: str, mistakes: Mistakes) -> Table:
    """The node as a mapping."""
    if isinstance(node, Table):
        return node
    if isinstance(node, Leaf) and node.null:
        raise mistakes.refuse(node.mark, f"{what} is empty", "give it keys, or remove it")
    shape = "a list" if isinstance(node, Listing) else "a single value"
    raise mistakes.refuse(node.mark, f"{what} must be a mapping (key: value), not {shape}")


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """A list; ``single`` also takes one value for a list of one, ``least`` is how many items it must have."""

    item: Kind[T]
    single: bool = False
    least: int = 0

    def read(self, node: Node, what: str, mistakes: Mistakes) -> tuple[T, ...]:
        """The items that can be read; the others are noted."""
        if not isinstance(node, Listing):
            if self.single and isinstance(node, Leaf):
                return (self.item.read(node, what, mistakes),)
            fix = f"write [{visible(node.text)}]" if isinstance(node, Leaf) and node.text else "write [a, b]"
            raise mistakes.refuse(node.mark, f"{what} must be a list", fix)
        if len(node.items) < self.least:
            raise mistakes.refuse(node.mark, f"{what} is empty", "write at least one item, or remove the key")
        found = []
        for number, item in enumerate(node.items):
            try:
                found.append(self.item.read(item, f"{what}[{number}]", mistakes))
            except Unreadable:
                continue
        return tuple(found)

    def schema(self) -> Schema:
        """An array."""
        array: Schema = {"type": "array", "items": self.item.schema()}
        if self.least:
            array["minItems"] = self.least
        return {"anyOf": [self.item.schema(), array]} if self.single else array


@dataclass(frozen=True, slots=True)
class MapOf(Generic[T]):
    """A mapping with free names. ``key`` says what a name may be."""

    key: Text
    value: Kind[T]

    def read(self, node: Node, what: str, mistakes: Mistakes) -> dict[str, T]:
        """The entries that can be read; the others are noted."""
        return {key.text: value for key, value in self.items(node, what, mistakes)}

    def items(self, node: Node, what: str, mistakes: Mistakes) -> list[tuple[Word, T]]:
        """The entries that can be read, with the places of their keys."""
        found = []
        for key, value in table(node, what, mistakes).entries:
            wrong = self.key.wrong(key.text)
            if wrong:
                mistakes.add(key.mark, f"{what}: the name {wrong[0]}", wrong[1])
            try:
                read = self.value.read(value, f"{what}.{visible(key.text)}", mistakes)
            except Unreadable:
                continue
            if not wrong:
                found.append((Word(key.text, key.mark), read))
        return found

    def schema(self) -> Schema:
        """An object with names that fit the pattern."""
        found: Schema = {"type": "object", "additionalProperties": self.value.schema()}
        if self.key.words:
            found["propertyNames"] = {"enum": list(self.key.words)}
        elif self.key.pattern:
            found["propertyNames"] = {"pattern": f"^({self.key.pattern})$"}
        return found


@dataclass(frozen=True, slots=True)
class PlacedMapOf(Generic[T]):
    """As :class:`MapOf`, but every key keeps its place."""

    inner: MapOf[T]

    def read(self, node: Node, what: str, mistakes: Mistakes) -> tuple[tuple[Word, T], ...]:
        """The entries with the places of their keys."""
        return tuple(self.inner.items(node, what, mistakes))

    def schema(self) -> Schema:
        """The same object."""
        return self.inner.schema()


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A mapping with known keys: the fields of a dataclass that are made with :func:`key`.

    A field ``mark`` gets the place of the mapping, a field ``marks`` the place of each key that is given.
    """

    cls: type[T]

    def read(self, node: Node, what: str, mistakes: Mistakes) -> T:
        """The dataclass, with defaults for what cannot be read; without a required key there is none."""
        kinds = keys_of(self.cls)
        found = table(node, what, mistakes)
        given = {key.text: (key, value) for key, value in found.entries}
        for name, (key, _) in given.items():
            if name not in kinds and not (name.startswith("x-") and what == ""):
                _unknown(key, what, tuple(kinds), mistakes)
        values: dict[str, Any] = {"mark": found.mark} if _has(self.cls, "mark") else {}
        if _has(self.cls, "marks"):
            values["marks"] = {name: key.mark for name, (key, _) in given.items()}
        broken = False
        for name, made in kinds.items():
            path = f"{what}.{name}".lstrip(".")
            if name in given:
                try:
                    values[name] = made.metadata["kind"].read(given[name][1], path, mistakes)
                except Unreadable:
                    broken = broken or not made.metadata["goes_on"]
            elif made.metadata["required"]:
                mistakes.add(found.mark, f"{_in(what)}the key {name!r} is missing", made.metadata["doc"])
                broken = broken or not made.metadata["goes_on"]
        if broken:
            raise Unreadable
        return self.cls(**values)

    def schema(self) -> Schema:
        """An object with these keys and no others, by reference."""
        return {"$ref": f"#/$defs/{self.cls.__name__}"}


def _unknown(key: Leaf, what: str, names: tuple[str, ...], mistakes: Mistakes) -> None:
    fix = meant(key.text, names)
    if what == "" and not fix.startswith("did"):
        fix += "; a key of your own, to hold anchors, begins with x-"
    mistakes.add(key.mark, f"{_in(what)}the key {visible(key.text)!r} is not known", fix)


def _in(what: str) -> str:
    return f"{what}: " if what else ""


def _has(cls: type[Any], name: str) -> bool:
    return any(each.name == name for each in fields(cls))


def keys_of(cls: type[Any]) -> Mapping[str, Field[Any]]:
    """The fields of a record that stand in the file."""
    return {each.name: each for each in fields(cls) if "kind" in each.metadata}


_REQUIRED: Any = object()


def key(
    kind: Kind[T], doc: str, default: Any = _REQUIRED, *, required: bool = False, vital: bool = False
) -> T:
    """A key of a record: its kind, what it is for, and its default; required where none is given.

    With ``required`` and a default, a missing key is a mistake and reading goes on with the default, so that the
    mistakes behind it are found too. A ``vital`` key that cannot be read takes its record with it.
    """
    needed = required or default is _REQUIRED
    metadata = {
        "kind": kind,
        "doc": doc,
        "required": needed,
        "goes_on": default is not _REQUIRED and not vital,
    }
    made: Any = field(default_factory=lambda: None if default is _REQUIRED else default, metadata=metadata)
    return cast("T", made)
