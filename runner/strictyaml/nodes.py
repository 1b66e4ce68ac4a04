"""From text to nodes: every value keeps its text, its line and its column, and nothing is guessed about its type.

Built from PyYAML's parser events, not from its loader or composer: those turn ``no`` into False and ``3.10`` into
3.1, keep the last of two equal keys and recurse once per level. Tags are refused, aliases are bounded by what they
expand to, and merge keys (``<<``, yaml.org/type/merge.html) are resolved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.strictyaml.mistakes import TOP, Mark, Mistakes, Unreadable, visible

if TYPE_CHECKING:
    import yaml

MAX_VALUES = 200_000
"""Values of a file with its aliases written out."""
MAX_DEPTH = 32
"""Levels of nesting; the deepest part of a matrix has six."""


_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar as written. ``plain``: without quotes, so that ``~``, ``true`` and ``3`` may mean more than text."""

    mark: Mark
    text: str
    plain: bool
    size: int = 1
    block: bool = False

    @property
    def null(self) -> bool:
        """Whether YAML reads it as null."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Listing:
    """A sequence."""

    mark: Mark
    items: tuple[Node, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping; keys are unique texts, merges are resolved."""

    mark: Mark
    entries: tuple[tuple[Leaf, Node], ...]
    size: int


Node = Leaf | Listing | Table


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been read."""

    mark: Mark
    anchor: str | None
    table: bool
    where: str
    items: list[Node] = field(default_factory=list)
    entries: list[tuple[Leaf, Node]] = field(default_factory=list)
    merges: list[Node] = field(default_factory=list)
    seen: dict[str, Mark] = field(default_factory=dict)
    key: Leaf | None = None
    skip: bool = False
    size: int = 1


def read_nodes(text: str, mistakes: Mistakes) -> Node:
    """The one document of a text. Raises ``Unreadable`` after noting what is no YAML, or none that is taken here."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        raise mistakes.refuse(TOP, f"this is no YAML: {error.reason}: U+{error.character:04X}") from None
    try:
        return _Builder(mistakes).document(_events(loader))
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text, mistakes) from None
    except (ValueError, OverflowError):  # PyYAML 6.0: chr() of an escape such as "\\UFFFFFFFF"
        place = loader.get_mark()
        mark = Mark(place.line + 1, place.column + 1)
        raise mistakes.refuse(mark, "this is no YAML: an escape names no character", "write it out") from None
    finally:
        loader.dispose()


def _events(loader: yaml.SafeLoader) -> Iterator[Any]:
    while loader.check_event():
        yield loader.get_event()  # type: ignore[no-untyped-call]  # types-PyYAML leaves this one out


def _syntax(error: yaml.MarkedYAMLError, text: str, mistakes: Mistakes) -> Unreadable:
    place = error.problem_mark or error.context_mark
    if place is None:
        return mistakes.refuse(TOP, f"this is no YAML: {error.problem}")
    mark = Mark(place.line + 1, place.column + 1)
    here = text[place.index : place.index + 1]
    if here == "\t":
        return mistakes.refuse(mark, "a tab (U+0009) cannot indent YAML", "use spaces")
    if error.context == "while scanning a tag" and error.context_mark:
        mark, here = Mark(error.context_mark.line + 1, error.context_mark.column + 1), "!"
    if here == "!" or "cannot start any token" in str(error.problem):
        return mistakes.refuse(
            mark, f"a plain value cannot begin with {here}", 'put the value in quotes: "..."'
        )
    context = f" {error.context}" if error.context else ""
    return mistakes.refuse(mark, f"this is no YAML:{context} {error.problem}".replace(":  ", ": "))


def _mark(event: Any) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


class _Builder:
    """A composer without recursion."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes
        self.stack: list[_Open] = []
        self.anchors: dict[str, Node] = {}
        self.root: Node | None = None
        self.merged = 0

    def document(self, events: Iterator[Any]) -> Node:
        import yaml

        documents = 0
        for event in events:
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        fix = f"keep one; for another {self.mistakes.noun} write another file"
                        raise self.mistakes.refuse(_mark(event), "the file holds a second YAML document", fix)
                case yaml.ScalarEvent():
                    self._tag(event)
                    self._check_characters(event)
                    plain = event.style is None
                    leaf = Leaf(_mark(event), event.value, plain, block=event.style in ("|", ">"))
                    self._done(leaf, event.anchor)
                case yaml.AliasEvent():
                    self._done(self._alias(event), None)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._tag(event)
                    self._open(event, table=isinstance(event, yaml.MappingStartEvent))
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self._close()
                case _:
                    pass
        if self.root is None:
            raise self.mistakes.refuse(TOP, "the file is empty", "begin with: version: 1")
        return self.root

    def _tag(self, event: Any) -> None:
        if event.tag not in (None, "!"):
            tag = visible(event.tag.replace("tag:yaml.org,2002:", "!!"))
            fix = "remove it" if tag.startswith("!!") else f'quote the value if it begins with !: "{tag}"'
            text = f"the tag {tag} is not taken: a {self.mistakes.noun} holds plain values only"
            self.mistakes.add(_mark(event), text, fix)

    def _check_characters(self, event: Any) -> None:
        bad = _HALF.search(event.value)
        if bad:
            text = f"the escape U+{ord(bad[0]):04X} is half of a character"
            self.mistakes.add(_mark(event), text, "write the character itself")

    def _alias(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is not None:
            return node
        if any(each.anchor == event.anchor for each in self.stack):
            text, fix = f"*{event.anchor} stands inside the value that it names", "write the value out"
        else:
            text, fix = f"*{event.anchor} has no anchor &{event.anchor} above it", ""
        raise self.mistakes.refuse(_mark(event), text, fix)

    def _open(self, event: Any, *, table: bool) -> None:
        where = ""
        if self.stack:
            above = self.stack[-1]
            step = above.key.text if above.key else f"[{len(above.items)}]" if not above.table else "?"
            where = f"{above.where}.{step}".replace(".[", "[").lstrip(".")
        if len(self.stack) >= MAX_DEPTH:
            raise self.mistakes.refuse(_mark(event), f"nested deeper than {MAX_DEPTH} levels")
        self.stack.append(_Open(_mark(event), event.anchor, table, where))

    def _close(self) -> None:
        done = self.stack.pop()
        if not done.table:
            self._done(Listing(done.mark, tuple(done.items), done.size), done.anchor)
            return
        entries = _merged(done, self.mistakes)
        self.merged += len(entries) - len(done.entries)
        if self.merged > MAX_VALUES:
            raise self.mistakes.refuse(
                done.mark, f"<< merges more than {MAX_VALUES} values", "use fewer merges"
            )
        size = 1 + sum(1 + value.size for _, value in entries)
        self._done(Table(done.mark, entries, size), done.anchor)

    def _done(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        above = self.stack[-1]
        above.size += node.size
        if above.size > MAX_VALUES:
            text = f"with its aliases written out this holds more than {MAX_VALUES} values"
            raise self.mistakes.refuse(above.mark, text, "use fewer aliases")
        if not above.table:
            above.items.append(node)
        elif above.key is None:
            self._key(above, node)
        else:
            self._value(above, above.key, node)
            above.key = None

    def _key(self, above: _Open, node: Node) -> None:
        if isinstance(node, Leaf):
            above.key, above.skip = node, False
        else:
            self.mistakes.add(
                node.mark, "a key must be a plain word", "in a flow list, put a comma or quotes"
            )
            above.key, above.skip = Leaf(node.mark, "?", plain=False), True
            return
        first = above.seen.get(node.text)
        above.seen.setdefault(node.text, node.mark)
        if first is not None:
            path = f"{above.where}.{node.text}".lstrip(".")
            text = f"{visible(path)} is given twice: here and in line {first.line}"
            self.mistakes.add(node.mark, text, "keep one of them")
            above.skip = True

    def _value(self, above: _Open, key: Leaf, node: Node) -> None:
        if above.skip:
            return
        if key.plain and key.text == "<<":
            above.merges.extend(node.items if isinstance(node, Listing) else (node,))
        else:
            above.entries.append((key, node))


def _merged(done: _Open, mistakes: Mistakes) -> tuple[tuple[Leaf, Node], ...]:
    """Own entries first, then what is merged in; the earlier of two merged tables wins."""
    entries = list(done.entries)
    taken = {key.text for key, _ in entries}
    for node in done.merges:
        if not isinstance(node, Table):
            mistakes.add(node.mark, "<< takes a mapping or a list of mappings", "write <<: *NAME")
            continue
        for key, value in node.entries:
            if key.text not in taken:
                taken.add(key.text)
                entries.append((key, value))
    return tuple(entries)
