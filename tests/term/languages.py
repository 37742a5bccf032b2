"""A small language of terms for the tests: numbers, names, pairs of sizes as attributes, and two ops that fold."""

from __future__ import annotations

import re
from typing import Any

from rushlight.term import Op, Reader, Term, TermSyntaxError, interned

OPS = {name: Op(name) for name in ("leaf", "add", "mul", "neg", "call")}
_WIDTH = re.compile(r"[fi](8|16|32|64)")


class Width:
    """A type: `f32`, `i8`."""

    known: dict[str, Width] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def width(name: str) -> Width:
    return Width.known.setdefault(name, Width(name))


class Toy:
    """The adapter that the printer and the parser ask."""

    def format_atom(self, value: Any) -> str | None:
        return value.name if isinstance(value, Width) else None

    def parse_atom(self, word: str, reader: Reader) -> Any:
        if _WIDTH.fullmatch(word):
            return width(word)
        raise TermSyntaxError(f"unknown word {word!r}")

    def make(self, op: str, operands: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...], type: Any) -> Term:
        if op not in OPS:
            raise TermSyntaxError(f"unknown op {op!r}")
        return interned(Term, OPS[op], operands, attrs, type)


TOY = Toy()
F32 = width("f32")


def leaf(value: Any) -> Term:
    return interned(Term, OPS["leaf"], (), (("value", value),), F32)


def apply(op: str, *operands: Term, **attrs: Any) -> Term:
    return interned(Term, OPS[op], operands, tuple(attrs.items()), F32)


def rebuild(term: Term, operands: tuple[Term, ...]) -> Term:
    return interned(Term, term.op, operands, term.attrs, term.type)
