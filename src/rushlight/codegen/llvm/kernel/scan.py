"""Running reductions: chains up to the place of a serial loop are carried from turn to turn."""

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
    """The chains from 0 to the place of an axis in all stores of its loop, of elements that the loop does not write."""
    analysis = ctx.analysis
    roots = [scalar for statement in body if isinstance(statement, Store) for scalar in store_scalars(statement)]
    found: list[Scalar] = []
    for term in unguarded(roots) if analysis.reductions else ():
        chained = chain_axis(term)
        if chained is None or axis_size(chained) - symbol != 1 or analysis.touched[term] & ~(ANY_LOAD | RISKY_LOAD):
            continue
        if not analysis.free[term.operands[0]] & analysis.axis_bits[symbol]:
            found.append(term)
    return found


def carry_on(ctx: Context, chains: list[Scalar], symbol: SizeExpr, scope: Scope) -> list[Carry]:
    """One step of each chain in the loop's body, where `symbol` is the place that they reach."""
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
