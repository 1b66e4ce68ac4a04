"""From a path to the record that a file is."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from runner.strictyaml.kinds import Record
from runner.strictyaml.mistakes import TOP, Mistakes
from runner.strictyaml.nodes import Leaf, Listing, Node, Table, read_nodes
from runner.strictyaml.source import read_text

T = TypeVar("T")


def read_record(path: Path, cls: type[T], mistakes: Mistakes) -> T:
    """Read a file as a record whose fields are made with :func:`runner.strictyaml.kinds.key`.

    Raises ``Unreadable`` or ``TooMany`` after noting why there is none; ``mistakes.settle()`` then tells the user.
    """
    return Record(cls).read(_root(read_text(path, mistakes), mistakes), "", mistakes)


def _root(text: str, mistakes: Mistakes) -> Node:
    node = read_nodes(text, mistakes)
    if isinstance(node, Leaf) and node.null:
        raise mistakes.refuse(TOP, "the file holds nothing but comments", "begin with: version: 1")
    if not isinstance(node, Table):
        shape = "a list" if isinstance(node, Listing) else "a single value"
        raise mistakes.refuse(node.mark, f"the file is {shape}, not a mapping", "begin with: version: 1")
    return node
