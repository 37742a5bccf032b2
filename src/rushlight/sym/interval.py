"""Numeric intervals of expressions. None stands for no bound. Divisors are taken to be at least 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from rushlight.sym.expr import (
    FLOORDIV,
    LEAF,
    MINIMUM,
    PRODUCT,
    SUM,
    SYMBOL,
    Size,
    SizeExpr,
    below,
    constant_of,
    set_memo_bounds,
    terms,
)

Interval = tuple[int | None, int | None]
Lookup = Callable[[Size], Interval]
EVERYTHING: Interval = (None, None)


def declared_bounds(e: Size) -> Interval:
    """The interval that follows from what symbols are born with; it never changes."""
    if isinstance(e, int):
        return (e, e)
    try:
        return e.memo_bounds
    except AttributeError:
        return fold_bounds(e, _remembered, set_memo_bounds, declared_symbol_bounds)


def _remembered(e: Size) -> Interval:
    if isinstance(e, int):
        return (e, e)
    try:
        return e.memo_bounds
    except AttributeError:
        raise LookupError from None


def declared_symbol_bounds(symbol: SizeExpr, of: Lookup) -> Interval:
    """The interval of a symbol; that of the size of an axis is looked up."""
    facts = symbol.facts
    if facts.size is None:
        return (facts.lower, facts.upper)
    upper = of(facts.size)[1]
    return (0, None if upper is None else max(upper - 1, 0))


def fold_bounds(
    e: SizeExpr,
    of: Lookup,
    learn: Callable[[SizeExpr, Interval], None],
    of_symbol: Callable[[SizeExpr, Lookup], Interval],
) -> Interval:
    """Computes the interval of `e` bottom-up; passes each new term's interval to `learn`.

    `of` gives the interval of a size, or LookupError.
    """
    stack = [e]
    while stack:
        node = stack[-1]
        try:
            interval = of_symbol(node, of) if node.op is SYMBOL else _interval_of_node(node, of)
        except LookupError:
            stack.extend(_needed(node))
            continue
        learn(node, interval)
        stack.pop()
    return of(e)


def _needed(e: SizeExpr) -> Iterable[SizeExpr]:
    if e.op is SYMBOL:
        size = e.facts.size
        return (size,) if isinstance(size, SizeExpr) else ()
    return below(e)


def _interval_of_node(e: SizeExpr, of: Lookup) -> Interval:
    if e.op is SUM:
        return _interval_of_sum(e, of)
    if e.op is PRODUCT:
        result = of(e.operands[0])
        for operand in e.operands[1:]:
            result = times(result, of(operand))
        return result
    if e.op is FLOORDIV:
        return _quotient(of(e.operands[0]), of(e.operands[1]))
    parts = [of(operand) for operand in e.operands]
    lowers = [lower for lower, _ in parts if lower is not None]
    uppers = [upper for _, upper in parts if upper is not None]
    if e.op is MINIMUM:
        return (min(lowers) if len(lowers) == len(parts) else None, min(uppers, default=None))
    return (max(lowers, default=None), max(uppers) if len(uppers) == len(parts) else None)


def _interval_of_sum(e: SizeExpr, of: Lookup) -> Interval:
    if e.count > LEAF:
        return plus(plus(of(e.operands[0]), of(e.operands[1])), (constant_of(e), constant_of(e)))
    constant = constant_of(e)
    plain = interval_of_parts(terms(e), constant, of)
    if FLOORDIV not in [product.op for product in e.operands]:
        return plain
    return meet(plain, _interval_with_remainders(dict(terms(e)), constant, of))


def interval_of_parts(parts: Iterable[tuple[SizeExpr, int]], constant: int, of: Lookup) -> Interval:
    """The interval of the constant plus coefficient x product over all parts."""
    low: int | None = constant
    high: int | None = constant
    for product, coefficient in parts:
        lower, upper = of(product)
        if coefficient < 0:
            lower, upper = upper, lower
        low = None if low is None or lower is None else low + coefficient * lower
        high = None if high is None or upper is None else high + coefficient * upper
    return low, high


def _interval_with_remainders(table: dict[SizeExpr, int], constant: int, of: Lookup) -> Interval:
    """The sum's interval, reading x - n*(x//n) as a remainder, which lies in [0, n-1]."""
    slack: Interval = (0, 0)
    for quotient in [product for product in table if product.op is FLOORDIV]:
        dividend, divisor = quotient.operands
        weight = table.get(quotient, 0)
        if not isinstance(divisor, int) or weight % divisor:
            continue
        weight //= divisor  # weight * divisor * quotient = weight * dividend - weight * (dividend % divisor)
        trial = dict(table)
        del trial[quotient]
        for product, coefficient in terms(dividend):
            trial[product] = trial.get(product, 0) + weight * coefficient
            if not trial[product]:
                del trial[product]
        if len(trial) < len(table) - 1 or isinstance(dividend, int):
            table, constant = trial, constant + weight * constant_of(dividend)
            slack = plus(slack, scaled((0, divisor - 1), -weight))
    return plus(interval_of_parts(table.items(), constant, of), slack)


def plus(a: Interval, b: Interval) -> Interval:
    """The interval of x + y."""
    return (
        None if a[0] is None or b[0] is None else a[0] + b[0],
        None if a[1] is None or b[1] is None else a[1] + b[1],
    )


def scaled(a: Interval, factor: int) -> Interval:
    """The interval of factor * x."""
    lower, upper = a if factor >= 0 else (a[1], a[0])
    return (None if lower is None else factor * lower, None if upper is None else factor * upper)


def times(a: Interval, b: Interval) -> Interval:
    """The interval of x * y."""
    if a == (0, 0) or b == (0, 0):
        return (0, 0)
    if (low := a[0]) is not None and (other := b[0]) is not None and low >= 0 and other >= 0:
        return (low * other, None if a[1] is None or b[1] is None else a[1] * b[1])
    corners = [_corner(x, x_sign, y, y_sign) for x, x_sign in _ends(a) for y, y_sign in _ends(b)]
    finite = [value for value, _ in corners if value is not None]
    signs = {sign for value, sign in corners if value is None}
    return (None if -1 in signs else min(finite), None if 1 in signs else max(finite))


def _ends(a: Interval) -> tuple[tuple[int | None, int], tuple[int | None, int]]:
    return ((a[0], -1), (a[1], 1))


def _corner(x: int | None, x_sign: int, y: int | None, y_sign: int) -> tuple[int | None, int]:
    """The product of two ends; (None, sign) if it is infinite. Zero times infinity is zero."""
    if x is not None and y is not None:
        return x * y, 0
    if x == 0 or y == 0:
        return 0, 0
    signs = [sign if end is None else (1 if end > 0 else -1) for end, sign in ((x, x_sign), (y, y_sign))]
    return None, prod(signs)


def meet(a: Interval, b: Interval) -> Interval:
    """What both intervals allow."""
    lowers = [lower for lower in (a[0], b[0]) if lower is not None]
    uppers = [upper for upper in (a[1], b[1]) if upper is not None]
    return (max(lowers, default=None), min(uppers, default=None))


def _quotient(a: Interval, b: Interval) -> Interval:
    """The interval of x // y for y >= 1."""
    least, most = max(b[0] or 1, 1), b[1]
    low, high = a
    if low is not None:
        low = low // least if low < 0 else (0 if most is None else low // max(most, 1))
    if high is not None:
        high = high // least if high >= 0 else (-1 if most is None else high // max(most, 1))
    return (low, high)
