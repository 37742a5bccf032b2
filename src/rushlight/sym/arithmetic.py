"""Sums, differences and products of sizes, and minima and maxima, in canonical form."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rushlight.sym.expr import (
    LEAF,
    MAXIMUM,
    MINIMUM,
    SUM,
    Rules,
    Size,
    SizeExpr,
    atom_node,
    atoms_of,
    constant_of,
    flat_sum,
    join,
    need_size,
    product_node,
    split_point,
    sum_node,
    sum_of_table,
    terms,
    with_constant,
)
from rushlight.sym.interval import declared_bounds
from rushlight.sym.memo import memo_of_two
from rushlight.sym.prover import proves_at_most


@memo_of_two
def _add_terms(a: SizeExpr, b: SizeExpr) -> Size:
    constant = constant_of(a) + constant_of(b)
    if a.count + b.count <= LEAF:
        return _merge_flat(a, b, 1, constant)
    return with_constant(_merge(a, b, 1), constant)


@memo_of_two
def _subtract_terms(a: SizeExpr, b: SizeExpr) -> Size:
    constant = constant_of(a) - constant_of(b)
    if a.count + b.count <= LEAF:
        return _merge_flat(a, b, -1, constant)
    return with_constant(_merge(a, b, -1), constant)


@memo_of_two
def _add_constant(a: SizeExpr, b: int) -> Size:
    return with_constant(a, constant_of(a) + b)


def add(a: Size, b: Size) -> Size:
    """The sum of two sizes."""
    if isinstance(b, int):
        return a + b if isinstance(a, int) else (_add_constant(a, b) if b else a)
    if isinstance(a, int):
        return _add_constant(b, a) if a else b
    return _add_terms(a, b)


def subtract(a: Size, b: Size) -> Size:
    """The difference of two sizes."""
    if isinstance(b, int):
        return add(a, -b)
    if isinstance(a, int):
        return add(multiply(-1, b), a)
    return 0 if a is b else _subtract_terms(a, b)


def _merge(a: Size, b: Size, factor: int) -> Size:
    """a + factor*b without the constants; shares the parts of trees that only one of the two has."""
    if isinstance(b, int):
        return a if isinstance(a, int) else with_constant(a, 0)
    if isinstance(a, int):
        return _scale(b, factor)
    if a is b:
        return _scale(a, 1 + factor)
    if a.count + b.count <= LEAF:
        return _merge_flat(a, b, factor, 0)
    pivot = split_point(min(a.lowest, b.lowest), max(a.highest, b.highest))
    a_left, a_right = _split(a, pivot)
    b_left, b_right = _split(b, pivot)
    return join(_merge(a_left, b_left, factor), _merge(a_right, b_right, factor), 0)


def _merge_flat(a: SizeExpr, b: SizeExpr, factor: int, constant: int) -> Size:
    """a + factor*b with the constant replaced, for two short sums."""
    table = dict(terms(a))
    for product, coefficient in terms(b):
        table[product] = table.get(product, 0) + factor * coefficient
    return flat_sum([pair for pair in table.items() if pair[1]], constant)


def _split(e: SizeExpr, pivot: int) -> tuple[Size, Size]:
    """Splits a sum, without its constant, at serial `pivot`: products below it, and the others."""
    if e.highest < pivot:
        return e, 0
    if e.lowest >= pivot:
        return 0, e
    if e.count > LEAF:
        return e.operands
    items = list(terms(e))
    return (
        flat_sum([pair for pair in items if pair[0].serial < pivot], 0),
        flat_sum([pair for pair in items if pair[0].serial >= pivot], 0),
    )


def _scale(e: SizeExpr, factor: int) -> Size:
    """factor * e without the constant."""
    if factor == 1:
        return with_constant(e, 0)
    if not factor:
        return 0
    if e.op is not SUM:
        return sum_node((e,), (factor,), 0)
    if e.count <= LEAF:
        return flat_sum([(product, factor * coefficient) for product, coefficient in terms(e)], 0)
    left, right = e.operands
    return join(_scale(left, factor), _scale(right, factor), 0)


def multiply(a: Size, b: Size) -> Size:
    """The product of two sizes, multiplied out."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a * b
        return _multiply_constant(b, a) if a != 1 else b
    if isinstance(b, int):
        return _multiply_constant(a, b) if b != 1 else a
    return _multiply_terms(a, b) if a.serial <= b.serial else _multiply_terms(b, a)


@memo_of_two
def _multiply_constant(a: SizeExpr, b: int) -> Size:
    if b and a.count <= LEAF:
        return flat_sum([(product, b * coefficient) for product, coefficient in terms(a)], b * constant_of(a))
    return with_constant(_scale(a, b), b * constant_of(a))


@memo_of_two
def _multiply_terms(a: SizeExpr, b: SizeExpr) -> Size:
    if a.op is not SUM and b.op is not SUM:
        return product_node(atoms_of(a) + atoms_of(b))
    if a.op is not SUM or b.op is not SUM:
        whole, single = (a, b) if a.op is SUM else (b, a)
        return _multiply_product(whole, single)
    table: dict[SizeExpr, int] = {}
    b_constant, a_constant = constant_of(b), constant_of(a)
    b_terms = [(atoms_of(product), coefficient) for product, coefficient in terms(b)]
    for product, coefficient in terms(a):
        atoms = atoms_of(product)
        for other_atoms, other in b_terms:
            both = product_node(atoms + other_atoms)
            table[both] = table.get(both, 0) + coefficient * other
        if b_constant:
            table[product] = table.get(product, 0) + coefficient * b_constant
    if a_constant:
        for product, coefficient in terms(b):
            table[product] = table.get(product, 0) + coefficient * a_constant
    return sum_of_table(table, a_constant * b_constant)


def _multiply_product(whole: SizeExpr, single: SizeExpr) -> Size:
    """A sum times one product: no two parts can meet."""
    factors = atoms_of(single)
    items = [(product_node(atoms_of(product) + factors), coefficient) for product, coefficient in terms(whole)]
    if constant := constant_of(whole):
        items.append((single, constant))
    return flat_sum(items, 0) if len(items) <= LEAF else sum_of_table(dict(items), 0)


def weighted_sum(items: Iterable[tuple[Size, int]], constant: int = 0) -> Size:
    """The constant plus coefficient x size over all items, merged in one table."""
    table: dict[SizeExpr, int] = {}
    for size, weight in items:
        if isinstance(size, int):
            constant += weight * size
            continue
        constant += weight * constant_of(size)
        for product, coefficient in terms(size):
            table[product] = table.get(product, 0) + weight * coefficient
    return sum_of_table(table, constant)


def total(sizes: Iterable[Size]) -> Size:
    """The sum of all sizes; 0 for none."""
    checked = [need_size(size) for size in sizes]
    if len(checked) == 2:  # shares the parts of a long sum, as joining piece after piece makes
        return add(checked[0], checked[1])
    return weighted_sum([(size, 1) for size in checked])


def product(sizes: Iterable[Size]) -> Size:
    """The product of all sizes; 1 for none."""
    result: Size = 1
    for size in sizes:
        result = multiply(result, need_size(size))
    return result


def minimum(a: Size, b: Size) -> Size:
    """The lesser of two sizes."""
    a, b = need_size(a), need_size(b)
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _minimum(a, b)


def maximum(a: Size, b: Size) -> Size:
    """The greater of two sizes."""
    a, b = need_size(a), need_size(b)
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _maximum(a, b)


@memo_of_two
def _minimum(a: Size, b: Size) -> Size:
    return _extremum(MINIMUM, a, b)


@memo_of_two
def _maximum(a: Size, b: Size) -> Size:
    return _extremum(MAXIMUM, a, b)


# Above this many operands, each pair is compared by numeric bounds alone: a long chain stays linear.
_PROVED_PAIRS = 8


def _extremum(op: SizeExpr | object, a: Size, b: Size) -> Size:
    """min or max as one node over the operands of both, without those that another makes redundant."""
    kept: list[Size] = []
    for candidate in [*_extremum_operands(op, a), *_extremum_operands(op, b)]:
        _keep(op, kept, candidate)
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=_extremum_order)
    return atom_node(MINIMUM if op is MINIMUM else MAXIMUM, tuple(kept))


def _extremum_operands(op: object, e: Size) -> tuple[Size, ...]:
    return e.operands if isinstance(e, SizeExpr) and e.op is op else (e,)


def _extremum_order(e: Size) -> tuple[int, int]:
    # The integer, of which there is at most one, goes last.
    return (1, e) if isinstance(e, int) else (0, e.serial)


def _keep(op: object, kept: list[Size], candidate: Size) -> None:
    """Adds `candidate` unless an operand dominates it; drops the operands that it dominates."""
    at_most: Callable[[Size, Size], bool] = proves_at_most if len(kept) <= _PROVED_PAIRS else _at_most_numerically
    wins = at_most if op is MINIMUM else (lambda x, y: at_most(y, x))
    for other in kept:
        if other is candidate or wins(other, candidate):
            return
    kept[:] = [other for other in kept if not wins(candidate, other)]
    kept.append(candidate)


def _at_most_numerically(a: Size, b: Size) -> bool:
    upper, lower = declared_bounds(a)[1], declared_bounds(b)[0]
    return upper is not None and lower is not None and upper <= lower


Rules.add = add
Rules.subtract = subtract
Rules.multiply = multiply
