"""Questions about the structure of sizes: symbols, coefficients, substitution, evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import attrgetter
from typing import TypeVar

from rushlight.sym.arithmetic import add, maximum, minimum, multiply, weighted_sum
from rushlight.sym.division import floordiv
from rushlight.sym.expr import (
    FLOORDIV,
    LEAF,
    MINIMUM,
    PRODUCT,
    SUM,
    SYMBOL,
    Size,
    SizeExpr,
    atoms_of,
    below,
    constant_of,
    need_size,
    product_node,
    set_memo_rank,
    set_memo_symbols,
    sum_of_table,
    terms,
)
from rushlight.sym.memo import memo_of_two

R = TypeVar("R")
Part = tuple[int, tuple[SizeExpr, ...]]

_KINDS = {"symbol": 1, "floordiv": 2, "min": 3, "max": 4}
_RANKED = 64  # entries of an atom's rank; atoms that agree in so many are ordered by age


def bottom_up(
    e: SizeExpr,
    known: Mapping[SizeExpr, object] | None = None,
    into: Callable[[SizeExpr], Iterable[SizeExpr]] = below,
) -> Iterator[SizeExpr]:
    """The expressions below `e` that are not in `known`, each once, operands first, without recursion."""
    done: set[SizeExpr] = set()
    stack = [(e, False)]
    while stack:
        node, expanded = stack.pop()
        if node in done or (known is not None and node in known):
            continue
        if expanded:
            done.add(node)
            yield node
        else:
            stack.append((node, True))
            stack.extend([(operand, False) for operand in into(node)])


def symbols_of(e: Size) -> frozenset[SizeExpr]:
    """The symbols in `e`, as a set; remembered in short expressions."""
    if isinstance(e, int):
        return frozenset()
    if e.op is SYMBOL:
        return frozenset((e,))  # not remembered in the symbol, which would hold itself
    try:
        return e.memo_symbols
    except AttributeError:
        pass
    symbols: set[SizeExpr] = set()
    seen: set[SizeExpr] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        remembered = getattr(node, "memo_symbols", None)
        if remembered is not None:
            symbols |= remembered
        elif node.op is SYMBOL:
            symbols.add(node)
        else:
            stack.extend(below(node))
    result = frozenset(symbols)
    if len(result) <= 2 * _RANKED:
        set_memo_symbols(e, result)
    return result


def free_symbols(e: Size, seen: set[SizeExpr] | None = None) -> tuple[SizeExpr, ...]:
    """The symbols in `e`, oldest first. The sizes of axes are not looked into.

    What is in `seen` is left out, and what was looked at is added to it: sums that share parts are gone through once.
    """
    if seen is None or isinstance(e, int):
        if not isinstance(e, int) and e.op is SYMBOL:
            return (e,)
        symbols = symbols_of(e)
    else:
        symbols = _unseen_symbols(e, seen)
    return tuple(symbols) if len(symbols) < 2 else tuple(sorted(symbols, key=attrgetter("serial")))


def _unseen_symbols(e: SizeExpr, seen: set[SizeExpr]) -> list[SizeExpr]:
    symbols: list[SizeExpr] = []
    stack = [e]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is SYMBOL:
            symbols.append(node)
        else:
            stack.extend(below(node))
    return symbols


def depends_on(e: Size, symbol: SizeExpr) -> bool:
    """Whether `symbol` occurs in `e`."""
    return symbol in symbols_of(e)


def coefficient(e: Size, symbol: SizeExpr) -> Size | None:
    """The coefficient of `symbol` in `e`; None if the symbol is in a power or in another atom."""
    return 0 if isinstance(e, int) else _coefficient(e, symbol)


@memo_of_two
def _coefficient(e: SizeExpr, symbol: SizeExpr) -> Size | None:
    if symbol not in symbols_of(e):
        return 0
    table: dict[SizeExpr, int] = {}
    constant = 0
    for product, scale in terms(e):
        if product is symbol:
            constant = scale
            continue
        if symbol not in symbols_of(product):
            continue
        others = list(atoms_of(product))
        if symbol not in others:
            return None
        others.remove(symbol)
        if any(symbol in symbols_of(atom) for atom in others):
            return None
        table[product_node(others)] = scale
    return sum_of_table(table, constant)


def rebuild(e: SizeExpr, image: Callable[[SizeExpr], Size]) -> Size:
    """`e` with its operands replaced by their images, in canonical form again."""
    if e.op is SUM:
        if e.count > LEAF:
            return add(add(image(e.operands[0]), image(e.operands[1])), constant_of(e))
        weights = e.attrs[1][1]
        return weighted_sum(zip(map(image, e.operands), weights, strict=True), constant_of(e))
    operands = [operand if isinstance(operand, int) else image(operand) for operand in e.operands]
    if e.op is PRODUCT:
        return reduce(multiply, operands)
    if e.op is FLOORDIV:
        return floordiv(operands[0], operands[1])
    return reduce(minimum if e.op is MINIMUM else maximum, operands)


def substitute(e: Size, images: Mapping[SizeExpr, Size]) -> Size:
    """`e` with symbols replaced, all at once, in canonical form again."""
    if isinstance(e, int) or not images:
        return e
    if symbols_of(e).isdisjoint(images):
        return e
    rebuilt: dict[SizeExpr, Size] = {symbol: need_size(image) for symbol, image in images.items()}
    for node in bottom_up(e, rebuilt):
        same = all(operand in rebuilt and rebuilt[operand] is operand for operand in below(node))
        rebuilt[node] = node if same else rebuild(node, rebuilt.__getitem__)
    return rebuilt[e]


def evaluate(e: Size, values: Mapping[SizeExpr, int]) -> int:
    """The value of `e` for given values of its symbols; KeyError for a symbol without one."""
    if isinstance(e, int):
        return e
    node_values: dict[SizeExpr, int] = dict(values)
    for node in bottom_up(e, node_values):
        node_values[node] = evaluate_node(node, node_values.__getitem__)
    return node_values[e]


def evaluate_node(e: SizeExpr, value: Callable[[SizeExpr], int]) -> int:
    """The value of one node, given those of its operands. Symbols have none: KeyError."""
    if e.op is SYMBOL:
        raise KeyError(e)
    values = [operand if isinstance(operand, int) else value(operand) for operand in e.operands]
    if e.op is SUM:
        return e.attrs[0][1] + sum([x * weight for x, weight in zip(values, e.attrs[1][1], strict=True)])
    if e.op is PRODUCT:
        return reduce(int.__mul__, values)
    if e.op is FLOORDIV:
        return values[0] // (values[1] or 1)  # as in compiled code
    return min(values) if e.op is MINIMUM else max(values)


def parts(e: Size) -> tuple[Part, ...]:
    """The canonical sum as (coefficient, atoms) pairs, highest degree first.

    The constant, if not 0, has no atoms. The order depends on the structure and on the relative age of symbols only, so
    it is the same in every process that creates its symbols in the same order.
    """
    pairs = [(scale, _ordered_atoms(product)) for product, scale in terms(e)]
    if len(pairs) > 1:
        pairs.sort(key=_part_order)
    if constant := constant_of(e):
        pairs.append((constant, ()))
    return tuple(pairs)


def _part_order(part: Part) -> tuple[int, list[tuple[int, ...]]]:
    return -len(part[1]), [rank(atom) for atom in part[1]]


def _ordered_atoms(product: SizeExpr) -> tuple[SizeExpr, ...]:
    atoms = atoms_of(product)
    return tuple(sorted(atoms, key=rank)) if len(atoms) > 1 else atoms


def rank(atom: SizeExpr) -> tuple[int, ...]:
    """A key that orders atoms by structure: symbols by age, then quotients, minima and maxima by their operands."""
    if atom.op is SYMBOL:
        return (1, atom.serial)
    try:
        return atom.memo_rank
    except AttributeError:
        pass
    for node in bottom_up(atom):
        if not hasattr(node, "memo_rank"):
            set_memo_rank(node, _rank_of_node(node))
    return atom.memo_rank


def _rank_of_node(node: SizeExpr) -> tuple[int, ...]:
    if node.op is SYMBOL:
        return (1, node.serial)
    if node.op is PRODUCT:
        return _joined(sorted([operand.memo_rank for operand in node.operands]), (5,))
    if node.op is SUM:
        ranks = [(*operand.memo_rank, weight) for operand, weight in zip(node.operands, node.attrs[1][1], strict=True)]
        return _joined(sorted(ranks), (6, constant_of(node)))
    ranks = [(0, operand) if isinstance(operand, int) else operand.memo_rank for operand in node.operands]
    return _joined(ranks if node.op is FLOORDIV else sorted(ranks), (_KINDS[node.op.name],))


def _joined(ranks: Iterable[tuple[int, ...]], start: tuple[int, ...]) -> tuple[int, ...]:
    entries = list(start)
    for entry in ranks:
        entries.extend(entry)
        if len(entries) >= _RANKED:
            break
    return tuple(entries[:_RANKED])
