"""Operands of products that are larger than their sources, such as weights packed as int4.

A product reads each element of an operand once per block of rows. Computing it there, from fewer bytes, takes less time
than writing it to memory and reading it back, and the whole operand never exists.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from rushlight.ir.dtype import float32, float64
from rushlight.ir.loops import Definition
from rushlight.ir.scalar import OPS, Buffer, Scalar
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.rewrite import as_size, free_axes, loads
from rushlight.sym import Size, SizeExpr, axis_size, evaluate, free_symbols, is_axis, is_symbol, parts, product

# The most terms of an element; with more, the product would wait for them.
MOST_TERMS = 48
# With fewer columns a product may become a loop over its rows that recomputes all elements in each.
LEAST_COLUMNS = 8
LARGE = 4096
# Elements of a table, as of the values that 4 bits stand for, that are at hand wherever they lie in it.
SMALL_TABLE = 4096


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How an element is computed: from which values in memory, through which others, and in how many terms.

    It `gathers` where other values tell which elements of one of them are read, as of the table of an embedding. They
    lie anywhere, so that several products do not look each up again.
    """

    sources: frozenset[Buffer]
    through: frozenset[Buffer]
    terms: int
    gathers: bool


class _Elements(dict[Buffer, int]):
    """How many elements buffers have; each is asked once."""

    def __missing__(self, buffer: Buffer) -> int:
        count = self[buffer] = _typical(product(buffer.type.shape))
        return count

    def bytes(self, buffer: Buffer) -> int:
        """The memory that a buffer takes."""
        return self[buffer] * buffer.type.dtype.itemsize


def unpacked_in_products(items: list[Dissected], results: Container[Buffer], kept: Container[Buffer]) -> set[Buffer]:
    """Finds the values to compute where a product reads them, as they are larger than their sources."""
    recipes: dict[Buffer, _Recipe] = {}
    readers: dict[Buffer, int] = {}
    elements = _Elements()
    if not any(definition.contracts for definition in items):
        return set()
    for definition in items:
        recipe = _recipe(definition, recipes, elements)
        if recipe is not None and definition.buffer not in results and definition.buffer not in kept:
            recipes[definition.buffer] = recipe
        for term in definition.terms if definition.contracts else ():
            if term.op is OPS["contract"] and isinstance(definition.definition, Definition):
                for operand in term.operands:
                    if _is_read_in_blocks(term, operand, definition.definition.axes):
                        for buffer in _unpacked_in_operand(operand, recipes, elements):
                            readers[buffer] = readers.get(buffer, 0) + 1
    buffers: set[Buffer] = set()
    for buffer, count in readers.items():
        if count == 1 or not recipes[buffer].gathers:
            buffers |= recipes[buffer].through
    return buffers


def _divides_by_sizes(definition: Dissected) -> bool:
    """Whether finding an element takes a division by an unknown size, as it does after some reshapes."""
    exprs = {term.attr("expr") for term in definition.terms if term.op is OPS["index"]}
    waiting: list[Size] = [expr for expr in exprs if isinstance(expr, SizeExpr) and not is_symbol(expr)]
    while waiting:
        for _, atoms in parts(waiting.pop()):
            for atom in atoms:
                if atom.op.name == "floordiv" and isinstance(atom.operands[1], SizeExpr) and _moves(atom):
                    return True
                waiting += [] if atom.op.name == "symbol" else atom.operands
    return False


def _moves(size: SizeExpr) -> bool:
    return any(is_axis(symbol) for symbol in free_symbols(size))


def _is_read_in_blocks(contraction: Scalar, operand: Scalar, axes: Iterable[SizeExpr]) -> bool:
    """Whether a product reads each element of an operand once for many rows, or has few rows."""
    if operand.type is contraction.type and operand.type not in (float32, float64):
        return False
    mine = free_axes(operand)
    columns, rows = (_product_of([axis for axis in axes if (axis in mine) is wanted]) for wanted in (True, False))
    return columns >= LEAST_COLUMNS or rows < LEAST_COLUMNS


def _recipe(definition: Dissected, recipes: dict[Buffer, _Recipe], elements: _Elements) -> _Recipe | None:
    if not isinstance(definition.definition, Definition) or definition.bound or definition.computing > MOST_TERMS:
        return None
    if _divides_by_sizes(definition):
        return None
    sources, through = set[Buffer](), {definition.buffer}
    terms, gathers = definition.computing, False
    for load in definition.loads:
        buffer = load.attr("buffer")
        below = recipes.get(buffer, _Recipe(frozenset([buffer]), frozenset(), 0, False))
        sources |= below.sources
        through |= below.through
        terms += below.terms
        gathers = gathers or below.gathers or _is_gathered(load, elements)
    return _Recipe(frozenset(sources), frozenset(through), terms, gathers) if terms <= MOST_TERMS else None


def _unpacked_in_operand(operand: Scalar, recipes: dict[Buffer, _Recipe], elements: _Elements) -> set[Buffer]:
    """Finds the buffers behind a product's operand that take more memory than what they are made of."""
    least = _product_of(free_axes(operand))
    recipe_of = [recipes[buffer] for buffer in [load.attr("buffer") for load in loads(operand)] if buffer in recipes]
    through = {buffer for recipe in recipe_of for buffer in recipe.through}
    large = [buffer for buffer in through if elements[buffer] >= least]
    return {buffer for buffer in large if _is_larger(buffer, recipes[buffer].sources, elements)}


def _product_of(axes: Iterable[SizeExpr]) -> int:
    return _typical(product([axis_size(axis) for axis in axes]))


def _is_gathered(load: Scalar, elements: _Elements) -> bool:
    """Whether other values tell where in a table a load is, which is not at hand as a whole."""
    by_values = any(as_size(operand) is None and loads(operand) for operand in load.operands)
    return by_values and elements[load.attr("buffer")] > SMALL_TABLE


def _is_larger(buffer: Buffer, sources: frozenset[Buffer], elements: _Elements) -> bool:
    """Whether a value takes at least a third more memory than its sources."""
    return 4 * sum([elements.bytes(source) for source in sources]) <= 3 * elements.bytes(buffer)


def _typical(size: Size) -> int:
    """A size with unknown sizes taken to be large, so that choices do not depend on example sizes."""
    return evaluate(size, dict.fromkeys(free_symbols(size), LARGE))
