"""Conditions on sizes: a canonical expression compared with 0, and what decides it without the facts of a scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import NoReturn

from rushlight.support.errors import fail
from rushlight.sym.arithmetic import add, multiply, subtract
from rushlight.sym.division import declared_multiple
from rushlight.sym.expr import (
    SYMBOL,
    Size,
    SizeExpr,
    atoms_of,
    constant_of,
    need_size,
    newest_coefficient,
    sum_of_table,
    terms,
    with_constant,
)
from rushlight.sym.interval import Interval, declared_bounds
from rushlight.sym.prover import proves_nonnegative
from rushlight.sym.query import evaluate, substitute
from rushlight.sym.text import format_size, natural_order

_NEGATED = {"==": "!=", "!=": "==", "<=": ">=", ">=": "<="}
_FLIPPED = {"==": "==", "!=": "!=", "<=": ">=", ">=": "<="}


class Condition:
    """A relation (`==`, `!=`, `<=` or `>=`) of an expression to 0 that does not decide itself.

    Two conditions with the same canonical form are equal. It has no truth value: ask `guard` or its siblings.
    """

    __slots__ = ("expr", "relation")

    relation: str
    expr: SizeExpr  # the coefficient of its youngest product is positive, and only 1 divides all coefficients

    def __init__(self, relation: str, expr: SizeExpr) -> None:
        self.relation = relation
        self.expr = expr

    def negate(self) -> Condition:
        """The condition that holds where this one does not."""
        if self.relation in ("==", "!="):
            return Condition(_NEGATED[self.relation], self.expr)
        shifted = with_constant(self.expr, constant_of(self.expr) + (1 if self.relation == ">=" else -1))
        return Condition(_NEGATED[self.relation], _expression(shifted))

    def holds(self, values: Mapping[SizeExpr, int]) -> bool:
        """Whether it holds when the symbols have these values."""
        return compares(self.relation, evaluate(self.expr, values))

    def of(self, images: Mapping[SizeExpr, Size]) -> bool | Condition:
        """The condition with symbols replaced."""
        return compare(self.relation, substitute(self.expr, images), 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.expr is other.expr and self.relation == other.relation

    def __hash__(self) -> int:
        return hash((self.relation, self.expr))

    def __bool__(self) -> NoReturn:
        fail("X001", f"sym: the condition {self} has no truth value; ask guard() or one of its siblings")

    def __repr__(self) -> str:
        return format_condition(self)


def _expression(size: Size) -> SizeExpr:
    if isinstance(size, int):
        fail("X001", "sym: a condition lost its expression", size=size)
    return size


def compares(relation: str, value: int) -> bool:
    """Whether `value relation 0`."""
    if relation == "==":
        return value == 0
    if relation == "!=":
        return value != 0
    return value >= 0 if relation == ">=" else value <= 0


def eq(a: Size, b: Size) -> bool | Condition:
    """a == b, decided if it is the same for all values of the symbols."""
    a, b = need_size(a), need_size(b)
    return a is b or compare("==", a, b)


def ne(a: Size, b: Size) -> bool | Condition:
    """a != b, decided if it is the same for all values of the symbols."""
    return compare("!=", need_size(a), need_size(b))


def lt(a: Size, b: Size) -> bool | Condition:
    """a < b, decided if it is the same for all values of the symbols."""
    return compare("<=", need_size(a), need_size(b), 1)


def le(a: Size, b: Size) -> bool | Condition:
    """a <= b, decided if it is the same for all values of the symbols."""
    return compare("<=", need_size(a), need_size(b))


def gt(a: Size, b: Size) -> bool | Condition:
    """a > b, decided if it is the same for all values of the symbols."""
    return compare(">=", need_size(a), need_size(b), -1)


def ge(a: Size, b: Size) -> bool | Condition:
    """a >= b, decided if it is the same for all values of the symbols."""
    return compare(">=", need_size(a), need_size(b))


def compare(relation: str, a: Size, b: Size, shift: int = 0) -> bool | Condition:
    """`a - b + shift` compared with 0. The shorter side is taken from the longer one, which is much cheaper."""
    if not isinstance(b, int) and (isinstance(a, int) or b.count > a.count):
        return condition(_FLIPPED[relation], subtract(subtract(b, a), shift))
    difference = subtract(a, b)
    return condition(relation, difference + shift if shift else difference)


def condition(relation: str, e: Size) -> bool | Condition:
    """`e relation 0` in canonical form, decided if it is the same for all values of the symbols."""
    simple = normalized(relation, e)
    if isinstance(simple, bool):
        return simple
    proves = None if is_linear_in_sizes(simple.expr) else proves_nonnegative
    answer = decide(simple, declared_bounds(simple.expr), declared_multiple, proves)
    return simple if answer is None else answer


def normalized(relation: str, e: Size) -> bool | Condition:
    """The canonical form, decided only where no symbol is left."""
    if isinstance(e, int):
        return compares(relation, e)
    constant = constant_of(e)
    number = content(e)
    if number > 1 and constant % number and relation in ("==", "!="):
        return relation == "!="
    if newest_coefficient(e) < 0:
        e, relation, constant = multiply(-1, e), _FLIPPED[relation], -constant
    if number > 1:
        constant = -(-constant // number) if relation == "<=" else constant // number
        e = sum_of_table({product: coefficient // number for product, coefficient in terms(e)}, constant)
    return Condition(relation, _expression(e))


def content(e: SizeExpr) -> int:
    """The greatest common divisor of the coefficients."""
    number = 0
    for _, coefficient in terms(e):
        number = gcd(number, coefficient)
        if number == 1:
            break
    return number


def decide(
    asked: Condition,
    interval: Interval,
    multiple: Callable[[SizeExpr], int],
    proves: Callable[[Size], bool] | None,
) -> bool | None:
    """Whether the condition is true or false for all values in the interval, or None.

    `multiple` knows divisors of expressions, and `proves` whether they are never negative; without it the interval
    is all that is looked at.
    """
    e, relation = asked.expr, asked.relation
    step = multiple(_expression(with_constant(e, 0)))
    lower, upper = _tightened(interval, constant_of(e), step)
    if relation in ("==", "!="):
        equal = False if step > 1 and constant_of(e) % step else _decide_equal(e, lower, upper, proves)
        return equal if equal is None or relation == "==" else not equal
    if relation == "<=":
        lower, upper = _minus(upper), _minus(lower)
    if lower is not None and lower >= 0:
        return True
    if upper is not None and upper < 0:
        return False
    if proves is None:
        return None
    sign = 1 if relation == ">=" else -1
    if proves(multiply(sign, e)):
        return True
    return False if proves(subtract(multiply(-sign, e), 1)) else None


def _minus(bound: int | None) -> int | None:
    return None if bound is None else -bound


def _decide_equal(
    e: SizeExpr, lower: int | None, upper: int | None, proves: Callable[[Size], bool] | None
) -> bool | None:
    if (lower is not None and lower > 0) or (upper is not None and upper < 0):
        return False
    if lower == 0 and upper == 0:
        return True
    if lower is not None and upper is not None and lower > upper:
        return False
    if proves is None:
        return None
    minus = multiply(-1, e)
    if proves(e):
        return False if proves(subtract(e, 1)) else (True if proves(minus) else None)
    return False if proves(minus) and proves(subtract(minus, 1)) else None


def is_linear_in_sizes(e: SizeExpr) -> bool:
    """Whether the interval at birth is all there is to know. Long sums are taken for such."""
    return e.count > 32 or all(product.op is SYMBOL and product.facts.size is None for product, _ in terms(e))


def _tightened(interval: Interval, constant: int, step: int) -> Interval:
    """The interval, moved inwards to the nearest values that are a multiple of `step` plus the constant."""
    lower, upper = interval
    if step <= 1:
        return interval
    return (
        None if lower is None else lower + (constant - lower) % step,
        None if upper is None else upper - (upper - constant) % step,
    )


def format_condition(asked: Condition, names: Mapping[SizeExpr, str] | None = None) -> str:
    """Text such as `s0 == s1`, `s0 < 1024`, `2*s0 >= s1 + 3`, `s0%4 == 0`. `names` overrides those of symbols."""
    form = with_constant(asked.expr, 0)
    for sign in (1, -1):
        whole, relation, constant = (
            format_size(multiply(sign, form), names),
            asked.relation,
            sign * constant_of(asked.expr),
        )
        relation = relation if sign == 1 else _FLIPPED[relation]
        if "-" not in whole:
            return f"{whole} < {1 - constant}" if relation == "<=" else f"{whole} {relation} {-constant}"
    relation, constant = asked.relation, constant_of(asked.expr)
    left: dict[SizeExpr, int] = {}
    right: dict[SizeExpr, int] = {}
    for product, coefficient in terms(asked.expr):
        (left if coefficient > 0 else right)[product] = abs(coefficient)
    a, b = (sum_of_table(side, 0) for side in (left, right))
    if natural_order(format_size(b, names)) < natural_order(format_size(a, names)):
        a, b, constant, relation = b, a, -constant, _FLIPPED[relation]
    if (relation, constant) in (("<=", 1), (">=", -1)):
        relation, constant = relation[0], 0
    a, b = (add(a, constant), b) if constant > 0 else (a, subtract(b, constant))
    return f"{format_size(a, names)} {relation} {format_size(b, names)}"


def first_scoped_symbol(e: Size) -> SizeExpr | None:
    """Some symbol of `e` that belongs to a scope, found without visiting all of a long sum."""
    if isinstance(e, int):
        return None
    seen: set[SizeExpr] = set()
    stack: list[SizeExpr] = [e]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is SYMBOL:
            if node.facts.scope is not None:
                return node
            size = node.facts.size
            if isinstance(size, SizeExpr):
                stack.append(size)
            continue
        stack.extend([operand for operand in node.operands if isinstance(operand, SizeExpr)])
    return None


def lone_symbols(e: SizeExpr) -> list[tuple[SizeExpr, int]]:
    """The symbols that stand alone in a part of the sum with coefficient 1 or -1, and in no other part."""
    alone = {product: scale for product, scale in terms(e) if product.op is SYMBOL and scale in (1, -1)}
    if not alone:
        return []
    stack = [atom for product, _ in terms(e) if product not in alone for atom in atoms_of(product)]
    seen: set[SizeExpr] = set()
    while stack and alone:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        alone.pop(node, None)
        stack.extend([operand for operand in node.operands if isinstance(operand, SizeExpr)])
    return list(alone.items())
