"""Making symbols and loop axes."""

from __future__ import annotations

import itertools
from typing import TypeGuard

from rushlight.sym.expr import SYMBOL, Size, SizeExpr, SymbolFacts, need_size, set_facts

_axis_numbers = itertools.count()


def new_symbol(facts: SymbolFacts) -> SizeExpr:
    """A symbol like no other, with these facts."""
    symbol = SizeExpr(SYMBOL, (), (("name", facts.name),), int)
    set_facts(symbol, facts)
    return symbol


def axis_symbol(size: Size, name: str | None = None) -> SizeExpr:
    """A fresh loop axis: 0 <= axis < `size`.

    That the loop runs at all, and so size >= 1, is assumed wherever the axis is used. Axes belong to no scope; they
    have no facts but their range.
    """
    return new_symbol(SymbolFacts(name or f"a{next(_axis_numbers)}", size=need_size(size)))


def size_of_code(name: str, optimization_hint: int | None = None) -> SizeExpr:
    """A size of generated code, such as a tile's: at least 0. No scope learns of it."""
    return new_symbol(SymbolFacts(name, preferred=optimization_hint))


def is_symbol(e: object) -> TypeGuard[SizeExpr]:
    """Whether `e` is a symbol."""
    return isinstance(e, SizeExpr) and e.op is SYMBOL


def is_axis(e: object) -> TypeGuard[SizeExpr]:
    """Whether `e` is a loop axis."""
    return isinstance(e, SizeExpr) and e.op is SYMBOL and e.facts.size is not None


def axis_size(axis: SizeExpr) -> Size:
    """The size that the axis runs over."""
    size = axis.facts.size if axis.op is SYMBOL else None
    if size is None:
        raise TypeError(f"{axis!r} is no axis")
    return size
