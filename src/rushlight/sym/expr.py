"""Size expressions: canonical, interned terms over integers that are not known yet.

An expression is a symbol, a product of atoms (`s0*s1`), or a sum: an integer plus integer coefficients times products.
The atoms of products are symbols, floor divisions, minima and maxima. Equal expressions are the same object.

A sum of more than `LEAF` products is a balanced tree of smaller sums, split at the highest bit in which the serial
numbers of its products differ. That shape depends on nothing but the set of products, so trees are as canonical as
short sums are, and adding one product to a sum of n shares all but log(n) nodes with the old sum.
"""

from __future__ import annotations

import collections
import itertools
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from rushlight.support.errors import fail
from rushlight.sym.origin import Origin
from rushlight.term import Op, Term, interned_at, slot_setter

SYMBOL = Op("symbol")
PRODUCT = Op("product")
SUM = Op("sum")
FLOORDIV = Op("floordiv")
MINIMUM = Op("min")
MAXIMUM = Op("max")

LEAF = 16  # products in a flat sum; longer ones are trees of such sums

_serials = itertools.count()


def advance_serials(multiple: int) -> None:
    """Moves on to the serial number behind the next multiple.

    The trees of sums made from there on have the same shapes, whatever was made before.
    """
    collections.deque(itertools.takewhile(lambda serial: serial % multiple != 0, _serials), 0)


class Rules:
    """The rules behind the operators: the modules that have them need `SizeExpr`, and fill them in when imported."""

    add: Callable[[Size, Size], Size]
    subtract: Callable[[Size, Size], Size]
    multiply: Callable[[Size, Size], Size]
    floordiv: Callable[[Size, Size], Size]
    mod: Callable[[Size, Size], Size]
    text: Callable[[Size], str]


class SizeExpr(Term):
    """An integer expression over symbols, in canonical form: two expressions are equal if they are one object.

    `+ - * // %` with other sizes give sizes, and plain integers whenever the result is constant. Comparisons and
    `bool` are refused: a question about a size is asked through `eq`, `lt`, ... and `guard` or its siblings.
    """

    __slots__ = (
        "count",
        "facts",
        "highest",
        "lowest",
        "memo_bounds",
        "memo_hint",
        "memo_rank",
        "memo_symbols",
        "serial",
    )

    serial: int  # order of birth; operands are older than what is made of them
    count: int  # products in the sum; 1 for what is not a sum
    lowest: int  # the least and the greatest serial of the products
    highest: int
    facts: SymbolFacts  # of symbols only
    memo_bounds: tuple[int | None, int | None]
    memo_hint: int | None
    memo_rank: tuple[int, ...]
    memo_symbols: frozenset[SizeExpr]

    def __init__(self, op: Op, operands: tuple[Any, ...], attrs: tuple[tuple[str, Any], ...], type: Any) -> None:
        Term.__init__(self, op, operands, attrs, type)
        serial = next(_serials)
        _set_serial(self, serial)
        if op is not SUM:
            _set_count(self, 1)
            _set_lowest(self, serial)
            _set_highest(self, serial)
            return
        flat = operands[-1].op is not SUM and operands[0].op is not SUM
        _set_count(self, len(operands) if flat else operands[0].count + operands[1].count)
        _set_lowest(self, operands[0].lowest)
        _set_highest(self, operands[-1].highest)

    def __add__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.add(self, size)

    def __radd__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.add(size, self)

    def __sub__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.subtract(self, size)

    def __rsub__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.subtract(size, self)

    def __mul__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.multiply(self, size)

    def __rmul__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.multiply(size, self)

    def __floordiv__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.floordiv(self, size)

    def __rfloordiv__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.floordiv(size, self)

    def __mod__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.mod(self, size)

    def __rmod__(self, other: object) -> Size:
        size = as_size(other)
        return NotImplemented if size is None else Rules.mod(size, self)

    def __neg__(self) -> Size:
        return Rules.multiply(-1, self)

    def __pos__(self) -> Size:
        return self

    def __bool__(self) -> bool:
        self._refuse("has no truth value; ask guard(ne(size, 0)) or one of its siblings")

    def __int__(self) -> int:
        self._refuse("is not an int; ask guarding_hint_or_throw(size) or optimization_hint(size)")

    def __index__(self) -> int:
        self._refuse("is not an int; use it as a size, or ask for a hint")

    def _refuse(self, why: str) -> NoReturn:
        fail("X001", f"sym: the size {Rules.text(self)} {why}")

    def __repr__(self) -> str:
        return Rules.text(self)


_set_serial, _set_count = slot_setter(SizeExpr, "serial"), slot_setter(SizeExpr, "count")
_set_lowest, _set_highest = slot_setter(SizeExpr, "lowest"), slot_setter(SizeExpr, "highest")
set_facts = slot_setter(SizeExpr, "facts")
set_memo_bounds, set_memo_hint = slot_setter(SizeExpr, "memo_bounds"), slot_setter(SizeExpr, "memo_hint")
set_memo_rank, set_memo_symbols = slot_setter(SizeExpr, "memo_rank"), slot_setter(SizeExpr, "memo_symbols")

Size = int | SizeExpr


class SymbolOwner:
    """What symbols can belong to: a `Scope`."""

    __slots__ = ("__weakref__",)


class SymbolFacts(NamedTuple):
    """What is known of a symbol from its birth. It never changes, so canonical forms may use it.

    A symbol is a loop axis (`size` is not None) or belongs to a scope, whose facts are expressions of its symbols. So
    that both die at once with what uses them, a symbol does not keep its scope: a graph does, and what traces one.
    """

    name: str
    lower: int | None = 0
    upper: int | None = None  # inclusive
    multiple_of: int = 1
    hint: int | None = None  # None: unbacked
    preferred: int | None = None  # the optimization hint of an unbacked symbol, if someone gave one
    source: Origin | None = None
    size: Size | None = None  # of an axis: 0 <= axis < size
    scope: weakref.ref[SymbolOwner] | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether more is known than that it is a size."""
        return self.lower != 0 or self.upper is not None or self.multiple_of != 1

    def allow(self, value: int) -> bool:
        """Whether the symbol may have a value."""
        within = (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)
        return within and value % self.multiple_of == 0

    @property
    def numbers(self) -> tuple[int | None, int | None, int, int | None, int | None]:
        """Bounds, divisor, hint and preferred value: what makes the same symbol in another process."""
        return self.lower, self.upper, self.multiple_of, self.hint, self.preferred

    @property
    def suggested(self) -> int | None:
        """The value that someone gave to optimise for, or the example's; None where nobody gave one."""
        return self.hint if self.preferred is None else self.preferred


def as_size(value: object) -> Size | None:
    """`value` as a size (an exact int or a SizeExpr), or None if it is no integer."""
    kind = value.__class__
    if kind is int or kind is SizeExpr:
        return value  # pyright: ignore[reportReturnType] - narrowed by class identity, for speed
    if isinstance(value, SizeExpr):
        return value
    try:
        return int(operator.index(value))  # pyright: ignore[reportArgumentType] - a TypeError is the answer
    except TypeError:
        return None


def need_size(value: object) -> Size:
    """`value` as a size; a TypeError if it is no integer."""
    size = as_size(value)
    if size is None:
        raise TypeError(f"a size is an int or a size expression, not {type(value).__name__}: {value!r}")
    return size


def constant_of(e: Size) -> int:
    """The integer in the sum."""
    if isinstance(e, int):
        return e
    return e.attrs[0][1] if e.op is SUM else 0


def atoms_of(product: SizeExpr) -> tuple[SizeExpr, ...]:
    """The factors of a product or of a single atom, by serial, repeated as powers."""
    return product.operands if product.op is PRODUCT else (product,)


def terms(e: Size) -> Iterable[tuple[SizeExpr, int]]:
    """The (product, coefficient) pairs of the sum, by serial of the product, without the constant."""
    if isinstance(e, int):
        return ()
    if e.op is not SUM:
        return ((e, 1),)
    return zip(e.operands, e.attrs[1][1], strict=True) if e.count <= LEAF else _terms_of_tree(e)


def _terms_of_tree(e: SizeExpr) -> Iterator[tuple[SizeExpr, int]]:
    stack = [e]
    while stack:
        node = stack.pop()
        if node.op is not SUM:
            yield node, 1
        elif node.count <= LEAF:
            yield from zip(node.operands, node.attrs[1][1], strict=True)
        else:
            stack.extend(reversed(node.operands))


def newest_coefficient(e: SizeExpr) -> int:
    """The coefficient of the youngest product, found without visiting all of a long sum."""
    while e.op is SUM:
        if e.count <= LEAF:
            return e.attrs[1][1][-1]
        e = e.operands[-1]
    return 1


def _serial_of(pair: tuple[SizeExpr, int]) -> int:
    return pair[0].serial


def flat_sum(items: list[tuple[SizeExpr, int]], constant: int) -> Size:
    """The sum of at most `LEAF` (product, coefficient) pairs, distinct, in any order, coefficients not 0."""
    if not items:
        return constant
    if len(items) == 1:
        if items[0][1] == 1 and not constant:
            return items[0][0]
    else:
        items.sort(key=_serial_of)
    return sum_node(tuple([pair[0] for pair in items]), tuple([pair[1] for pair in items]), constant)


# Keys of the table tell operands apart by identity and do not keep them: a term does that as long as it lives. The
# facts of a scope are expressions of its symbols, so with keys that keep symbols the table would keep scopes for ever.


def sum_node(operands: tuple[SizeExpr, ...], coefficients: tuple[int, ...], constant: int) -> SizeExpr:
    """The interned sum node of these parts, as they are."""
    key = (SUM, constant, coefficients, tuple(map(id, operands)))
    return interned_at(key, SizeExpr, SUM, operands, (("constant", constant), ("coefficients", coefficients)), int)


def sum_of_table(table: dict[SizeExpr, int], constant: int) -> Size:
    """The sum of coefficient x product over a table of any length; zero coefficients are dropped."""
    items = [pair for pair in table.items() if pair[1]]
    if len(items) <= LEAF:
        return flat_sum(items, constant)
    items.sort(key=_serial_of)
    return _tree(items, constant)


def _tree(items: list[tuple[SizeExpr, int]], constant: int) -> Size:
    # The depth is bounded by the bits of a serial number, so recursion is safe here and below.
    if len(items) <= LEAF:
        return flat_sum(items, constant)
    pivot = split_point(items[0][0].serial, items[-1][0].serial)
    middle = next(index for index, pair in enumerate(items) if pair[0].serial >= pivot)
    return join(_tree(items[:middle], 0), _tree(items[middle:], 0), constant)


def split_point(lowest: int, highest: int) -> int:
    """The least number with `highest`'s bits down to the first that differs from `lowest`'s."""
    bit = (lowest ^ highest).bit_length() - 1
    return (highest >> bit) << bit


def join(left: Size, right: Size, constant: int) -> Size:
    """The sum of two sums without constants, all products of `left` being older than those of `right`."""
    if isinstance(left, int):
        return with_constant(right, constant)
    if isinstance(right, int):
        return with_constant(left, constant)
    if left.count + right.count <= LEAF:
        return flat_sum([*terms(left), *terms(right)], constant)
    return sum_node((left, right), (1, 1), constant)


def with_constant(e: Size, constant: int) -> Size:
    """The sum with its integer replaced."""
    if isinstance(e, int):
        return constant
    if e.op is not SUM:
        return e if not constant else sum_node((e,), (1,), constant)
    if e.attrs[0][1] == constant:
        return e
    if not constant and e.count == 1 and e.attrs[1][1][0] == 1:
        return e.operands[0]
    return sum_node(e.operands, e.attrs[1][1], constant)


def product_node(atoms: Iterable[SizeExpr]) -> SizeExpr:
    """The interned product of one or more atoms."""
    factors = tuple(sorted(atoms, key=operator.attrgetter("serial")))
    if len(factors) == 1:
        return factors[0]
    return interned_at((PRODUCT, tuple(map(id, factors))), SizeExpr, PRODUCT, factors, (), int)


def atom_node(op: Op, operands: tuple[Size, ...]) -> SizeExpr:
    """The interned floor division, minimum or maximum of canonical operands."""
    parts = tuple([(operand,) if operand.__class__ is int else id(operand) for operand in operands])
    return interned_at((op, parts), SizeExpr, op, operands, (), int)


def below(e: SizeExpr) -> Iterable[SizeExpr]:
    """The operands that are expressions."""
    return [operand for operand in e.operands if not isinstance(operand, int)] if e.op in _MIXED else e.operands


_MIXED = frozenset((FLOORDIV, MINIMUM, MAXIMUM))
