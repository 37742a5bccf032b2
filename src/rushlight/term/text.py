"""One printer and one parser for all languages of terms.

A program of terms is a list of lines, one per term, operands first:

    %0 = load(%x) {index=[i, j]} : float32
    %1 = exp(%0) : float32

Names are canonical (numbered in postorder), so equal programs print equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from rushlight.support import lazy
from rushlight.term.term import Attrs, Term
from rushlight.term.walk import postorder


class TermSyntaxError(ValueError):
    """Text that is no program of terms."""


class FormatsAtoms(Protocol):
    """Prints the values of a language."""

    def format_atom(self, value: object) -> str | None:
        """Text of an attribute value or a type that is not a plain literal; None if unknown.

        The text starts with a letter.
        """
        ...


class ReadsAtoms(Protocol):
    """Reads the values of a language."""

    def parse_atom(self, word: str, reader: Reader) -> object:
        """The value of the atom that starts with `word`; may read on from `reader`."""
        ...


class Language(FormatsAtoms, ReadsAtoms, Protocol):
    """A language for the printer and the parser of whole terms."""

    def make(self, op: str, operands: tuple[Term, ...], attrs: Attrs, type: object) -> Term:
        """The term of op `op`."""
        ...


_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<size>`[^`]*`)|(?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+))"
    r"|(?P<ref>%[\w.]+)|(?P<word>[A-Za-z_][\w.]*)|(?P<mark>->|[-(){}\[\],:=<>|?*+/&!@]))"
)


class Reader:
    """A cursor over tokens of one text."""

    def __init__(self, text: str, language: ReadsAtoms) -> None:
        self.language = language
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise TermSyntaxError(f"unexpected text: {text[position : position + 30]!r}")
            self.tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
            position = match.end()
        self.position = 0

    def peek(self) -> str:
        """The next token's text, or the empty string at the end."""
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def peek_kind(self) -> str:
        """The next token's kind: string, size, number, ref, word, mark, or empty at the end."""
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def next(self) -> str:
        """Takes the next token."""
        token = self.peek()
        if not token:
            raise TermSyntaxError("text ends too early")
        self.position += 1
        return token

    def accept(self, token: str) -> bool:
        """Takes the next token if it is `token`."""
        if self.peek() != token:
            return False
        self.position += 1
        return True

    def expect(self, token: str) -> None:
        """Takes the next token, which must be `token`."""
        if not self.accept(token):
            raise TermSyntaxError(f"expected {token!r}, found {self.peek()!r}")

    def value(self) -> Any:
        """One attribute value or type."""
        kind, token = self.peek_kind(), self.next()
        if kind == "number":
            return float(token) if any(mark in token for mark in ".e") else int(token)
        if kind == "string":
            return lazy.json.loads(token)
        if kind == "size":
            return self.language.parse_atom(token, self)
        if token == "[":
            return self._items("]")
        if token == "-":
            return -self.value()
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if kind == "word" or token == "@":
            return self.language.parse_atom(token, self)
        raise TermSyntaxError(f"expected a value, found {token!r}")

    def _items(self, close: str) -> tuple[object, ...]:
        items: list[object] = []
        while not self.accept(close):
            items.append(self.value())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(items)


_CONSTANTS: dict[str, object] = {"none": None, "true": True, "false": False, "inf": math.inf, "nan": math.nan}


def format_value(value: object, language: FormatsAtoms) -> str:
    """Text of an attribute value that `Reader.value` reads back equal."""
    if value is None:
        return "none"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return lazy.json.dumps(value)
    if isinstance(value, tuple):
        return f"[{', '.join([format_value(element, language) for element in value])}]"
    text = language.format_atom(value)
    if text is None:
        raise TypeError(f"cannot print {value!r} of type {type(value).__name__}")
    return text


def format_line(term: Term, name: str, operands: Iterable[str], language: Language) -> str:
    """One term's line."""
    attrs = ", ".join([f"{key}={format_value(value, language)}" for key, value in term.attrs])
    body = f" {{{attrs}}}" if attrs else ""
    return f"{name} = {term.op.name}({', '.join(operands)}){body} : {format_value(term.type, language)}"


def format_terms(roots: Iterable[Term], language: Language, names: Mapping[Term, str] | None = None) -> list[str]:
    """The lines of all terms below the roots, then `return %a, %b`. Terms in `names` are given, not printed."""
    roots = list(roots)
    given = {id(term): name for term, name in (names or {}).items()}
    valid: dict[int, str] = dict(given)
    lines: list[str] = []
    for term in postorder(roots, lambda term: () if id(term) in given else term.operands):
        if id(term) in valid:
            continue
        name = valid[id(term)] = f"%{len(lines)}"
        lines.append(format_line(term, name, [valid[id(operand)] for operand in term.operands], language))
    lines.append("return " + ", ".join([valid[id(root)] for root in roots]))
    return lines


def parse_line(line: str, names: Mapping[str, Term], language: Language) -> tuple[str, Term]:
    """The name and the term of one line."""
    reader = Reader(line, language)
    name = reader.next()
    reader.expect("=")
    op = reader.next()
    reader.expect("(")
    operands: list[Term] = []
    while not reader.accept(")"):
        ref = reader.next()
        if ref not in names:
            raise TermSyntaxError(f"{ref} is used before it is defined, in: {line.strip()}")
        operands.append(names[ref])
        reader.accept(",")
    attrs: list[tuple[str, object]] = []
    if reader.accept("{"):
        while not reader.accept("}"):
            key = reader.next()
            reader.expect("=")
            attrs.append((key, reader.value()))
            reader.accept(",")
    reader.expect(":")
    kind = reader.value()
    if reader.peek():
        raise TermSyntaxError(f"unexpected {reader.peek()!r} after the type, in: {line.strip()}")
    return name, language.make(op, tuple(operands), tuple(attrs), kind)


def parse_terms(
    lines: Iterable[str],
    language: Language,
    names: Mapping[str, Term] | None = None,
    seen: Callable[[Term], None] | None = None,
) -> list[Term]:
    """The roots that the lines' `return` names; `seen` is called with each term in order."""
    terms: dict[str, Term] = dict(names or {})
    for line in lines:
        text = line.strip()
        if not text:
            continue
        if text.startswith("return"):
            refs = text.removeprefix("return").replace(",", " ").split()
            for ref in refs:
                if ref not in terms:
                    raise TermSyntaxError(f"{ref} is returned but not defined")
            return [terms[ref] for ref in refs]
        name, term = parse_line(text, terms, language)
        terms[name] = term
        if seen is not None:
            seen(term)
    raise TermSyntaxError("a program of terms ends with `return`")
