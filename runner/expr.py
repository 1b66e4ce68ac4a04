"""Expressions over named facts: ``-k "platform=cpu and tp<=2"``, ``requires: amx_int8 or zen``, ``when: dtype=float16``.

::

    expression := all ("or" all)*
    all        := one ("and" one)*
    one        := "not" one | "(" expression ")" | NAME | NAME OP VALUE | NAME ["not"] "in" "(" VALUE ("," VALUE)* ")"
    OP         := "=" | "==" | "!=" | "<" | "<=" | ">" | ">="

A bare name asks whether the fact is there and true. A comparison with a fact that is not there is false, ``!=`` too.
``=`` compares texts; order compares numbers, dotted ones as versions (``9.0`` < ``10.0``, ``12.1`` < ``12.10``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from runner.errors import UsageError

MAX_LENGTH = 2000
MAX_DEPTH = 40
MAX_NAMES = 500
"""Names that are compared with a mistyped one; more take seconds."""
ORDER_OPS = ("<=", ">=", "<", ">")
OPERATORS = ("!=", *ORDER_OPS, "==", "=")

_NUMBER = re.compile(r"-?\d+(\.\d+)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<op>!=|<=|>=|==|=|<|>)|(?P<mark>[(),])"
    r"|\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<word>[^\s()=<>!,\"']+)"
)


def nearest(name: str, names: Collection[str]) -> str | None:
    """The valid name that a mistyped one most likely means, or None."""
    from difflib import get_close_matches

    lowered = {known.lower(): known for known in names if len(names) <= MAX_NAMES or known[:1] == name[:1]}
    if len(lowered) > MAX_NAMES:
        return None
    close = get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def is_number(text: str) -> bool:
    """Whether a text can be put in order: an integer or a dotted number."""
    return _NUMBER.fullmatch(text) is not None


def holds(fact: object, op: str, value: str) -> bool:
    """Whether ``fact op value`` is true.

    A fact that is None is not known: false. A collection equals each of its members. Raises :class:`UsageError`
    where an order is asked of something that is no number.
    """
    if fact is None:
        return False
    if op in ORDER_OPS:
        return _ordered(fact, op, value)
    return _same(fact, value) is (op != "!=")


def _same(fact: object, value: str) -> bool:
    if isinstance(fact, bool):
        return value == ("true" if fact else "false")
    if isinstance(fact, int | float):
        return is_number(value) and value.count(".") < 2 and float(value) == fact
    if isinstance(fact, tuple | list | set | frozenset):
        return any(_same(each, value) for each in fact)
    return str(fact) == value


def _ordered(fact: object, op: str, value: str) -> bool:
    number = isinstance(fact, int | float) or is_number(str(fact))
    if isinstance(fact, bool) or not number or not is_number(value):
        msg = f"{fact!s} {op} {value} cannot be decided: both sides must be numbers (use = or != for texts)"
        raise UsageError(msg)
    sign = _sign(fact, value)
    return {"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op]


def _sign(fact: object, value: str) -> int:
    if isinstance(fact, int | float) and value.count(".") < 2:
        return (fact > float(value)) - (fact < float(value))
    left, right = _version(str(fact)), _version(value)
    width = max(len(left), len(right))
    left += (0,) * (width - len(left))
    right += (0,) * (width - len(right))
    return (left > right) - (left < right)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


Term = Callable[[Mapping[str, object]], bool]


def _has(name: str) -> Term:
    return lambda facts: bool(facts.get(name)) and facts[name] not in ("false", "0")


def _compare(name: str, op: str, values: tuple[str, ...]) -> Term:
    every = all if op == "!=" else any
    return lambda facts: every(holds(facts.get(name), op, value) for value in values)


def _not(term: Term) -> Term:
    return lambda facts: not term(facts)


def _join(terms: list[Term], every: Callable[[Iterable[bool]], bool]) -> Term:
    return terms[0] if len(terms) == 1 else lambda facts: every(term(facts) for term in terms)


@dataclass(frozen=True, slots=True)
class Expr:
    """A parsed expression. ``names`` are the facts it asks for."""

    text: str
    root: Term
    names: frozenset[str]

    def matches(self, facts: Mapping[str, object]) -> bool:
        """Whether the facts satisfy it. Raises :class:`UsageError` where texts are put in order."""
        return self.root(facts)


def parse(
    text: str,
    *,
    names: Collection[str] | None = None,
    values: Mapping[str, Collection[str]] | None = None,
) -> Expr:
    """Read an expression.

    With ``names`` an unknown name is an error, with ``values`` (the values of each name) an unknown value too.
    Raises :class:`UsageError` that says the column and the nearest valid word.
    """
    return _Parser(text, names if names is not None else values, values or {}).whole()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


class _Parser:
    def __init__(
        self, text: str, names: Collection[str] | None, values: Mapping[str, Collection[str]]
    ) -> None:
        self.text = text
        self.names = names
        self.values = values
        self.asked: set[str] = set()
        self.depth = 0
        if len(text) > MAX_LENGTH:
            msg = f"the expression has {len(text)} characters, the limit is {MAX_LENGTH}"
            raise UsageError(msg)
        self.tokens = self._split()
        self.at = 0

    def _fail(self, column: int, what: str) -> NoReturn:
        here = f"{self.text[: column - 1]}^{self.text[column - 1 :]}"
        msg = f"expression, column {column}: {what}: {here}"
        raise UsageError(msg)

    def _split(self) -> list[_Token]:
        tokens = []
        position = 0
        while position < len(self.text):
            found = _TOKEN.match(self.text, position)
            if found is None:
                what = (
                    "a quote is not closed"
                    if self.text[position] in "\"'"
                    else "this character has no meaning"
                )
                self._fail(position + 1, what)
            kind = str(found.lastgroup)
            if kind != "space":
                kind, text = ("quoted" if kind in {"double", "single"} else kind), str(found[kind])
                tokens.append(_Token(kind, text, position + 1))
            position = found.end()
        return [*tokens, _Token("end", "", len(self.text) + 1)]

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _take(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _eat(self, kind: str, text: str) -> bool:
        if self._next.kind == kind and self._next.text == text:
            self.at += 1
            return True
        return False

    def whole(self) -> Expr:
        root = self._some()
        if self._next.kind != "end":
            self._fail(self._next.column, f"expected 'and' or 'or' before {self._next.text!r}")
        return Expr(self.text, root, frozenset(self.asked))

    def _some(self) -> Term:
        terms = [self._all()]
        while self._eat("word", "or"):
            terms.append(self._all())
        return _join(terms, any)

    def _all(self) -> Term:
        terms = [self._one()]
        while self._eat("word", "and"):
            terms.append(self._one())
        return _join(terms, all)

    def _one(self) -> Term:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(self._next.column, f"nested deeper than {MAX_DEPTH}")
        try:
            if self._eat("word", "not"):
                return _not(self._one())
            if self._eat("mark", "("):
                inner = self._some()
                self._close()
                return inner
            return self._comparison()
        finally:
            self.depth -= 1

    def _close(self) -> None:
        if not self._eat("mark", ")"):
            self._fail(self._next.column, "expected ')'")

    def _comparison(self) -> Term:
        name = self._name()
        if self._next.kind == "op":
            op = self._take()
            value = self._value(name)
            if op.text in ORDER_OPS and not is_number(value):
                self._fail(op.column, f"{op.text} needs a number, {value!r} is none")
            return _compare(name, "=" if op.text == "==" else op.text, (value,))
        negated = (
            self._next.text == "not" and self.tokens[self.at + 1].text == "in" and self._eat("word", "not")
        )
        if self._eat("word", "in"):
            return _compare(name, "!=" if negated else "=", self._values(name))
        return _has(name)

    def _values(self, name: str) -> tuple[str, ...]:
        if not self._eat("mark", "("):
            self._fail(self._next.column, "expected '(' after in")
        found = [self._value(name)]
        while self._eat("mark", ","):
            found.append(self._value(name))
        self._close()
        return tuple(found)

    def _name(self) -> str:
        token = self._take()
        if token.kind != "word" or token.text in {"and", "or", "in"} or not _NAME.fullmatch(token.text):
            shown = "the end" if token.kind == "end" else repr(token.text)
            self._fail(token.column, f"expected a name, found {shown}")
        if self.names is not None and token.text not in self.names:
            self._fail(token.column, f"{token.text!r} is not known, {_meant(token.text, self.names)}")
        self.asked.add(token.text)
        return token.text

    def _value(self, name: str) -> str:
        token = self._take()
        if token.kind not in {"word", "quoted"}:
            self._fail(token.column, f"expected a value for {name}")
        known = self.values.get(name)
        previous = self.tokens[self.at - 2]
        if known is not None and token.text not in known and previous.text not in ORDER_OPS:
            self._fail(token.column, f"{name} has no value {token.text!r}, {_meant(token.text, known)}")
        return token.text


def _meant(name: str, names: Collection[str]) -> str:
    close = nearest(name, names)
    return f"did you mean {close}?" if close else f"known: {', '.join(sorted(names))}"
