"""Kinds that only a matrix file has: axes, conditions, requirements, a model for each platform; and its names."""

# ruff: noqa: RUF009 - key() is dataclasses.field with metadata; the defaults it makes are fresh for every value

from __future__ import annotations

from dataclasses import dataclass

from runner import reference
from runner.expr import ORDER_OPS, is_number
from runner.matrix.commands import command_wrong
from runner.model import HostFolder
from runner.strictyaml.kinds import ListOf, MapOf, Record, key, table
from runner.strictyaml.mistakes import Mark, Mistakes, Unreadable, visible
from runner.strictyaml.nodes import Leaf, Listing, Node, Table
from runner.strictyaml.scalars import Schema, Text, Word, leaf
from runner.vendors import PLATFORMS, VENDORS

MAX_NAME = 120
TAKEN_PATHS = ("/out", "/cell", "/suite", "/models", "/matrix", "/caches", "/tools", "/tmp")  # noqa: S108
"""Where a cell sees what the runner gives it."""
_RESERVED = ("and", "or", "not", "in")
_FROM_AXES = {"dtype": "dtype", "tensor_parallel_size": "tp", "tp": "tp"}
_FROM_MODELS = ("model", "model_tag")
_OWNED = {
    variable: vendor.name
    for vendor in VENDORS.values()
    for variable in (*vendor.visible_env, *vendor.hidden_env, vendor.rank_cores_env)
    if variable
}


def _value_wrong(text: str) -> tuple[str, str] | None:
    if text != text.strip():
        return f"{text!r} begins or ends with a space", "remove it"
    bad = next((char for char in text if char in ",="), None)
    if bad:
        return (
            f"{visible(text)!r} holds {bad!r}, which separates the parts of a cell id",
            "use another character",
        )
    if text[0] in "<>!":
        return f"{visible(text)!r} begins with {text[0]!r}, which means a comparison", "use another word"
    return (f"a value of {len(text)} characters", f"use at most {MAX_NAME}") if len(text) > MAX_NAME else None


def _axis_wrong(text: str) -> tuple[str, str] | None:
    return (f"{text!r} is a word of expressions", "use another name") if text in _RESERVED else None


def _arg_wrong(text: str) -> tuple[str, str] | None:
    if text in _FROM_AXES:
        return f"{text!r} is what the axis {_FROM_AXES[text]} says", f"use the axis {_FROM_AXES[text]}"
    return (f"{text!r} is no engine argument here", "use the key model") if text in _FROM_MODELS else None


def _env_wrong(text: str) -> tuple[str, str] | None:
    if text in _OWNED:
        return f"{text!r} is set by the runner from the devices that a cell leases", "remove it"
    return None


def _image_wrong(text: str) -> tuple[str, str] | None:
    # Not quoted: what a message shows is kept in logs.
    return (reference.HOLDS_CREDENTIALS, reference.LOG_IN) if reference.credentials(text) else None


line = Text()
image = Text(check=_image_wrong)
command_word = Text(check=command_wrong)
name = Text(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*", "use letters, digits, _ . -")
axis_name = Text(r"[A-Za-z_][A-Za-z0-9_]*", "use letters, digits and _, a letter first", check=_axis_wrong)
axis_value = Text(check=_value_wrong)
platform_name = Text(words=PLATFORMS)
engine_arg = Text(r"[A-Za-z_][A-Za-z0-9_]*", "write it as in Python, with _", check=_arg_wrong)
phase_name = Text(words=("prepare", "import", "load", "ready", "generate", "shutdown"))
absolute = Text(r"/[^:]*", "write a path that begins with /")
env_name = Text(r"[A-Za-z_][A-Za-z0-9_]*", "use letters, digits and _, a letter first", check=_env_wrong)
_VALUES = {
    "platform": platform_name,
    "tp": Text(r"[1-9][0-9]{0,4}", "write a whole number from 1", check=_value_wrong),
}


def value_kind(axis: str) -> Text:
    """What the values of an axis may be."""
    return _VALUES.get(axis, axis_value)


@dataclass(frozen=True, slots=True)
class AxisSpec:
    """An axis with its values in the order of the file. ``whole``: every value could be read."""

    name: Word
    values: tuple[Word, ...]
    whole: bool


class Axes:
    """The mapping of axes to lists of values."""

    def read(self, node: Node, what: str, mistakes: Mistakes) -> tuple[AxisSpec, ...]:
        """The axes in the order of the file."""
        found = []
        for axis, values in table(node, what, mistakes).entries:
            wrong = axis_name.wrong(axis.text)
            if wrong:
                mistakes.add(axis.mark, f"{what}: the name {wrong[0]}", wrong[1])
            found.append(self._axis(axis, values, f"axis {visible(axis.text)}", mistakes))
        if not found:
            raise mistakes.refuse(node.mark, "axes is empty", "give at least platform: [cpu]")
        if all(axis.name.text != "platform" for axis in found):
            mistakes.add(node.mark, "there is no axis platform", f"add platform: [{', '.join(PLATFORMS)}]")
        return tuple(found)

    def _axis(self, axis: Leaf, node: Node, what: str, mistakes: Mistakes) -> AxisSpec:
        word = Word(axis.text, axis.mark)
        if isinstance(node, Leaf) and not node.null:
            mistakes.add(node.mark, f"{what} must be a list", f"write [{visible(node.text)}]")
            return AxisSpec(word, (), whole=False)
        if not isinstance(node, Listing) or not node.items:
            mistakes.add(node.mark, f"{what} has no values", "write at least one, such as [a, b]")
            return AxisSpec(word, (), whole=False)
        first: dict[str, Word] = {}
        whole = True
        for item in node.items:
            try:
                value = self._value(axis.text, item, what, mistakes)
            except Unreadable:
                whole = False
                continue
            before = first.setdefault(value.text, value)
            if before is not value:
                text = f"{what} holds {value.text!r} twice: here and in line {before.mark.line}"
                mistakes.add(value.mark, text, "remove one")
        return AxisSpec(word, tuple(first.values()), whole)

    def _value(self, axis: str, item: Node, what: str, mistakes: Mistakes) -> Word:
        value = leaf(item, what, mistakes)
        if value.plain and value.text.lower().lstrip("+-") in (".nan", ".inf"):
            raise mistakes.refuse(
                value.mark, f"{what}: {value.text} is no value that can be compared", "use a word"
            )
        return value_kind(axis).read(item, what, mistakes)

    def schema(self) -> Schema:
        """An object of lists; platform is required."""
        kinds = {axis: value_kind(axis).schema() for axis in ("platform", "dtype", "tp", "quantization")}
        lists = {
            axis: {"type": "array", "items": kind, "minItems": 1, "uniqueItems": True}
            for axis, kind in kinds.items()
        }
        lists["tp"]["items"] = {"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]{0,4}$"}
        free = {"type": "array", "items": axis_value.schema(), "minItems": 1, "uniqueItems": True}
        names = {"pattern": f"^({axis_name.pattern})$"}
        return {
            "type": "object",
            "properties": lists,
            "additionalProperties": free,
            "propertyNames": names,
            "required": ["platform"],
        }


@dataclass(frozen=True, slots=True)
class Condition:
    """One alternative of a condition: ``op value``."""

    op: str
    value: str
    mark: Mark


class _ConditionKind:
    def read(self, node: Node, what: str, mistakes: Mistakes) -> Condition:
        value = leaf(node, what, mistakes)
        if value.block:
            raise mistakes.refuse(
                value.mark, f"{what}: an unquoted > begins a block of text", 'write ">2" in quotes'
            )
        op = next((op for op in ("!=", *ORDER_OPS) if value.text.startswith(op)), "")
        text = value.text[len(op) :].strip() if op else value.text
        wrong = axis_value.wrong(text)
        if wrong:
            raise mistakes.refuse(value.mark, f"{what}: {wrong[0]}", wrong[1])
        if op in ORDER_OPS and not is_number(text):
            raise mistakes.refuse(value.mark, f"{what}: {op} needs a number, {visible(text)!r} is none")
        return Condition(op or "=", text, value.mark)

    def schema(self) -> Schema:
        return axis_value.schema()


class Conditions:
    """Names with the values they must have: one, a list of alternatives, or a comparison such as ``">2"``."""

    _inner = MapOf(
        Text(r"[A-Za-z_][A-Za-z0-9_.]*", "write the name of an axis"), ListOf(_ConditionKind(), single=True)
    )

    def read(
        self, node: Node, what: str, mistakes: Mistakes
    ) -> tuple[tuple[Word, tuple[Condition, ...]], ...]:
        """Every name with its alternatives."""
        found = self._inner.items(node, what, mistakes)
        if isinstance(node, Table) and not node.entries:
            raise mistakes.refuse(node.mark, f"{what} names nothing", "name at least one, or remove it")
        for word, alternatives in found:
            if not alternatives:
                mistakes.add(word.mark, f"{what}.{word} has no values", "write at least one")
        return tuple(found)

    def schema(self) -> Schema:
        """An object of values or lists of values."""
        return {**self._inner.schema(), "minProperties": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedSpec:
    """A condition on host facts; one of needs and never."""

    mark: Mark
    needs: Word | None = key(line, "expression over host facts, such as capability >= 8.0", None, vital=True)
    never: Word | None = key(line, "why this can never run there", None, vital=True)
    reason: Word | None = key(line, "why, for the plan", None)


class Need:
    """An expression over host facts, the same with a reason, or never with a reason."""

    _record = Record(NeedSpec)

    def read(self, node: Node, what: str, mistakes: Mistakes) -> NeedSpec:
        """The requirement."""
        if isinstance(node, Leaf):
            value = leaf(node, what, mistakes)
            if value.plain and value.text.lower() in ("false", "no", "off", "never"):
                raise mistakes.refuse(value.mark, f"{what}: a reason is missing", "write {never: WHY}")
            return NeedSpec(mark=value.mark, needs=line.read(node, what, mistakes))
        need = self._record.read(node, what, mistakes)
        if (need.needs is None) == (need.never is None):
            raise mistakes.refuse(
                need.mark, f"{what} must have one of needs and never", "write {needs: EXPRESSION}"
            )
        return need

    def schema(self) -> Schema:
        """A string or an object."""
        return {"anyOf": [{"type": "string"}, self._record.schema()]}


class HostPath:
    """A path of the host, and after a colon where the cell sees it; the same path if not said."""

    _text = Text(r"/[^:]*(:/[^:]*)?", "write /PATH or /PATH:/PATH/IN/THE/CELL")

    def read(self, node: Node, what: str, mistakes: Mistakes) -> HostFolder:
        """Both paths."""
        word = self._text.read(node, what, mistakes)
        source, _, target = word.text.partition(":")
        shown = (target or source).rstrip("/")
        taken = next((own for own in TAKEN_PATHS if shown == own or own.startswith(shown + "/")), None)
        if taken:
            fix = "mount a folder below it" if shown in ("", *TAKEN_PATHS) else "choose another place"
            raise mistakes.refuse(word.mark, f"{what}: {shown or '/'} would hide {taken} of the cell", fix)
        return HostFolder(source=source.rstrip("/") or "/", target=shown)

    def schema(self) -> Schema:
        """A string."""
        return self._text.schema()


class ModelChoice:
    """The name of a model, or one for each platform; the platform of the former is empty."""

    _map = MapOf(platform_name, name)

    def read(self, node: Node, what: str, mistakes: Mistakes) -> tuple[tuple[Word, Word], ...]:
        """Pairs of platform and model."""
        if isinstance(node, Table):
            return tuple(self._map.items(node, what, mistakes))
        return ((Word("", node.mark), name.read(node, what, mistakes)),)

    def schema(self) -> Schema:
        """A name or an object of names."""
        return {"anyOf": [name.schema(), self._map.schema()]}
