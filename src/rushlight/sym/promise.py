"""What users write so that a condition on sizes is known."""

from __future__ import annotations

import re

from rushlight.sym.condition import Condition, format_condition
from rushlight.sym.expr import SYMBOL, SizeExpr, constant_of, with_constant
from rushlight.sym.origin import OriginKind
from rushlight.sym.query import free_symbols

_CHOICES = r"\b(min|max)\("  # Python's own would ask which of the sizes it is


def promise(condition: Condition) -> str:
    """The text that makes a condition known: `rl.check(x.shape[0] >= 2), or min=2 in mark_unbacked`."""
    symbols = free_symbols(condition.expr)
    if all(_is(OriginKind.SPECIFIED, symbol) for symbol in symbols):
        return f"{condition} in the specification"
    text = re.sub(_CHOICES, r"rl.sym_\1(", as_written(condition))
    check = f"rl.check({text})"
    bound = _bound(condition)
    return f"{check}, or {bound} in mark_unbacked" if bound and is_marked(symbols[0]) else check


def as_written(condition: Condition) -> str:
    """A condition as users write it: `x.shape[0] >= 2`."""
    return format_condition(condition, _names(free_symbols(condition.expr)))


def is_marked(symbol: SizeExpr) -> bool:
    """Whether a symbol is the size of a dim that was marked unbacked."""
    return _is(OriginKind.MARKED, symbol)


def _is(kind: OriginKind, symbol: SizeExpr) -> bool:
    origin = symbol.facts.source
    return origin is not None and origin.kind is kind


def _names(symbols: tuple[SizeExpr, ...]) -> dict[SizeExpr, str]:
    named = {symbol: symbol.facts.source.name for symbol in symbols if symbol.facts.source is not None}
    return {symbol: name for symbol, name in named.items() if name is not None}


def _bound(condition: Condition) -> str | None:
    """A condition as an argument of a mark; None where it is no bound of one symbol."""
    form, constant = with_constant(condition.expr, 0), constant_of(condition.expr)
    if isinstance(form, int) or form.op is not SYMBOL or condition.relation not in ("<=", ">="):
        return None
    return f"{'min' if condition.relation == '>=' else 'max'}={-constant}"
