"""Products of few rows with a matrix that is computed where it is read, in memory order.

An example is one row times weights that are unpacked from int4. Summing one stripe of columns after another would touch
a page for half a cache line, and would ask at each step along k which half of a byte it needs. Here the sums of a
stripe stay in the first-level cache, some steps are added at once while a sum is in a register, and what their places
decide is decided here. Each sum keeps its order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.ir.kernel import Axis, AxisKind, Loop, Statement, Store
from rushlight.ir.scalar import BLOCKED, OPS, Buffer, Scalar, bound_axes, constant, fma, index, load
from rushlight.ir.type import TensorType
from rushlight.schedule.loops.kernels import Step, finish_kernel, write_out
from rushlight.schedule.loops.nest import LoopNest
from rushlight.schedule.loops.row_sums import stripes
from rushlight.schedule.loops.unroll import settled
from rushlight.schedule.lower.rewrite import Substitution, free_axes, loads, rebuild, step_along
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, ceildiv, floordiv, minimum
from rushlight.term import postorder
from rushlight.term import substitute as replace_terms

# The columns of a stripe, whose sums are in the first-level cache. 4,096 take as long, and leave threads less to share.
STRIPE = 256
# The steps along k that are added while a sum is in a register: fewer for several rows, but the halves of a byte.
AT_ONCE, LEAST_AT_ONCE = 8, 2
# With fewer steps or columns a stripe is not worth its sums in memory.
LEAST_STEPS, LEAST_COLUMNS = 64, 32
# The most rows that share what is computed of the matrix.
FEW_ROWS = 4


def multiply_rows(nest: LoopNest, name: str) -> Step | None:
    """The kernel of a nest whose only reductions are products with a matrix computed by rows, else None."""
    if not nest.outer or nest.is_conditional or any(store.inner for store in nest.stores):
        return None
    if not _are_products(_reductions(nest), nest.outer[-1]):
        return None
    for axis in nest.outer[:-1]:
        size = axis_size(axis)
        if isinstance(size, int) and 0 < size < FEW_ROWS and not _is_in_matrix(nest, axis):
            write_out(nest, axis)
    column = stripes(nest, STRIPE)
    sums = [_Sum(term, column, f"{name}_{place}") for place, term in enumerate(_reductions(nest))]
    (length,) = {axis_size(axis) for one in sums for axis in bound_axes(one.term)}
    return finish_kernel(nest, name, nest.outer, _body(nest, sums, column, length), length * axis_size(column))


def _body(nest: LoopNest, sums: Sequence[_Sum], column: SizeExpr, length: Size) -> tuple[Statement, ...]:
    """The loops over blocks of k: sums of a block in local memory, then added to those of the blocks before."""
    at_once = max(1, AT_ONCE // len(sums) // LEAST_AT_ONCE) * LEAST_AT_ONCE
    block = axis_symbol(ceildiv(length, BLOCKED.block), "block")
    before = block * BLOCKED.block
    steps = minimum(BLOCKED.block, length - before)
    turns = floordiv(steps, at_once)
    turn, step = axis_symbol(turns, "turn"), axis_symbol(steps, "step")
    together = [before + turn * at_once + place for place in range(at_once)]

    def along(stores: Iterable[Store]) -> Loop:
        return Loop(Axis(column, axis_size(column), AxisKind.VECTOR), tuple(stores))

    rest = Axis(step, steps - turns * at_once, AxisKind.SERIAL, turns * at_once)
    inner = (
        along([one.store(one.block, one.zero) for one in sums]),
        Loop(Axis(turn, turns), (along([one.add(together) for one in sums]),)),
        *([Loop(rest, (along([one.add([before + step]) for one in sums]),))] if rest.extent != 0 else []),
        along([one.store(one.total, one.load(one.block), "sum") for one in sums]),
    )
    totals = {one.term: one.load(one.total) for one in sums}
    values = replace_terms([store.value for store in nest.stores], totals, rebuild)
    results = [Store(store.buffer, store.offset, value) for store, value in zip(nest.stores, values, strict=True)]
    return (
        along([one.store(one.total, one.zero) for one in sums]),
        Loop(Axis(block, axis_size(block)), inner),
        along(results),
    )


class _Sum:
    """The sums of one product over a stripe of columns: of a block of k, and of the blocks before."""

    def __init__(self, term: Scalar, column: SizeExpr, name: str) -> None:
        self.term = term
        self.column = index(column)
        self.zero = constant(0, term.type)
        self.block, self.total = (
            Buffer(f"{name}_{part}", TensorType((STRIPE,), term.type), "local") for part in ("block", "total")
        )

    def load(self, buffer: Buffer) -> Scalar:
        """The sum of a column."""
        return load(buffer, self.column)

    def store(self, buffer: Buffer, value: Scalar, combine: str | None = None) -> Store:
        """Stores the sum of a column."""
        return Store(buffer, self.column, value, combine)

    def add(self, steps: Sequence[Size]) -> Store:
        """Adds the products of some steps to the sums of a block, one after the other."""
        (axis,) = bound_axes(self.term)
        total = self.load(self.block)
        for step in steps:
            at = Substitution({axis: step})
            a, b = (settled(at(operand)) for operand in self.term.operands)
            total = fma(a, b, total)
        return self.store(self.block, total)


def _reductions(nest: LoopNest) -> list[Scalar]:
    return [term for term in postorder([store.value for store in nest.stores]) if bound_axes(term)]


def _are_products(terms: Sequence[Scalar], column: SizeExpr) -> bool:
    """Whether all reductions are sums of products along one long axis, of which a matrix is read by rows."""
    lengths = {axis_size(axis) for term in terms for axis in bound_axes(term)}
    if len(lengths) != 1 or _is_below(next(iter(lengths)), LEAST_STEPS):
        return False
    if _is_below(axis_size(column), LEAST_COLUMNS):
        return False
    return all(_is_product(term, column) for term in terms)


def _is_product(term: Scalar, column: SizeExpr) -> bool:
    if term.op is not OPS["contract"] or term.attr("order") != BLOCKED or len(bound_axes(term)) != 1:
        return False
    if not term.type.is_floating_point or term.operands[0].type is not term.type:
        return False
    if any(bound_axes(part) for part in postorder(term.operands)):
        return False
    (axis,) = bound_axes(term)
    reads = [read.operands[0] for read in loads(term) if step_along(read.operands[0], column) == 1]
    return bool(reads) and all(step_along(read, axis) != 1 for read in reads)


def _is_in_matrix(nest: LoopNest, axis: SizeExpr) -> bool:
    """Whether the rows of an axis are multiplied with matrices of their own."""
    column = nest.outer[-1]
    factors = [factor for term in _reductions(nest) for factor in term.operands]
    return any({axis, column} <= free_axes(factor) for factor in factors)


def _is_below(size: Size, least: int) -> bool:
    return isinstance(size, int) and size < least
