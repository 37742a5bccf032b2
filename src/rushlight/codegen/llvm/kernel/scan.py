"""Scans: a reduction over 0..i inside a serial loop of i becomes a loop-carried accumulator.

Input: the reductions of a serial loop's body. Output: one `Carry` for each, with one step per iteration, in place of an
inner loop per iteration: O(n) instead of O(n^2).
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.analysis import ANY_LOAD, RISKY_LOAD, store_scalars, unguarded
from rushlight.codegen.llvm.builder.scope import Context, Scope, Value
from rushlight.codegen.llvm.kernel.accumulators import Fold
from rushlight.codegen.llvm.kernel.loop_close import Carry
from rushlight.codegen.llvm.math.terms import lanes_of, remember
from rushlight.ir.kernel import Statement, Store
from rushlight.ir.scalar import Scalar, chain_axis
from rushlight.sym import SizeExpr, axis_size


def find_scans(ctx: Context, body: tuple[Statement, ...], symbol: SizeExpr) -> list[Scalar]:
    """The reductions of a loop's stores that run from 0 to the loop's index.

    Reductions of elements that the loop writes are left out.
    """
    analysis = ctx.analysis
    roots = [scalar for statement in body if isinstance(statement, Store) for scalar in store_scalars(statement)]
    scans: list[Scalar] = []
    for term in unguarded(roots) if analysis.reductions else ():
        chained = chain_axis(term)
        if chained is None or axis_size(chained) - symbol != 1 or analysis.touched[term] & ~(ANY_LOAD | RISKY_LOAD):
            continue
        if not analysis.free[term.operands[0]] & analysis.axis_bits[symbol]:
            scans.append(term)
    return scans


def carry_scans(ctx: Context, chains: list[Scalar], symbol: SizeExpr, scope: Scope) -> list[Carry]:
    """One step of each scan in the loop's body; the scans include index `symbol`."""
    carries: list[Carry] = []
    for term in chains:
        chained = chain_axis(term)
        assert chained is not None
        scope.sizes[chained] = scope.sizes[symbol]
    for term in chains:
        fold = Fold(term, ctx.target)
        lanes = lanes_of(ctx, term, scope)
        shape = fold.shape(lanes)
        carry = Carry(shape.type, fold.identity(shape), scope.names.value())
        carry.result = fold.step(ctx, scope, None, shape, carry.name)
        carries.append(carry)
        total = fold.total_shape(lanes)
        text = fold.decode(scope, total, fold.widen(scope, lanes, carry.result))
        remember(ctx, term, scope, None, Value(text, lanes, scope))
    return carries
