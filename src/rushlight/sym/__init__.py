"""Integers that are not known yet: size expressions, their facts, and the ways to ask about them."""

from rushlight.sym.arithmetic import maximum, minimum, product, total
from rushlight.sym.condition import Condition, eq, ge, gt, le, lt, ne
from rushlight.sym.division import ceildiv, floordiv, mod
from rushlight.sym.expr import Size, SizeExpr, SymbolFacts
from rushlight.sym.origin import Origin, OriginKind
from rushlight.sym.promise import promise
from rushlight.sym.query import coefficient, depends_on, evaluate, free_symbols, parts, substitute
from rushlight.sym.required import required
from rushlight.sym.scope import (
    MEETING,
    Branch,
    Guard,
    RuntimeAssert,
    Scope,
    Undecided,
    bounds,
    broadcast_sizes,
    check,
    divides,
    guard,
    guard_or_false,
    guard_or_true,
    guarding_hint_or_throw,
    has_example,
    is_nonnegative,
    optimization_hint,
    scope_of,
    scopes_of,
    statically_known,
)
from rushlight.sym.simplify import simplify
from rushlight.sym.symbols import axis_size, axis_symbol, is_axis, is_symbol
from rushlight.sym.text import format_size, parse_size, to_python

__all__ = [
    "MEETING",
    "Branch",
    "Condition",
    "Guard",
    "Origin",
    "OriginKind",
    "RuntimeAssert",
    "Scope",
    "Size",
    "SizeExpr",
    "SymbolFacts",
    "Undecided",
    "axis_size",
    "axis_symbol",
    "bounds",
    "broadcast_sizes",
    "ceildiv",
    "check",
    "coefficient",
    "depends_on",
    "divides",
    "eq",
    "evaluate",
    "floordiv",
    "format_size",
    "free_symbols",
    "ge",
    "gt",
    "guard",
    "guard_or_false",
    "guard_or_true",
    "guarding_hint_or_throw",
    "has_example",
    "is_axis",
    "is_nonnegative",
    "is_symbol",
    "le",
    "lt",
    "maximum",
    "minimum",
    "mod",
    "ne",
    "optimization_hint",
    "parse_size",
    "parts",
    "product",
    "promise",
    "required",
    "scope_of",
    "scopes_of",
    "simplify",
    "statically_known",
    "substitute",
    "to_python",
    "total",
]
