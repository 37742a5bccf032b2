"""Scalar terms as LLVM values: each is hoisted to the outermost scope that binds its axes.

Input: a `Scalar` and the scope that uses it. Output: a `Value`. A table maps ops to handlers; loads and reductions have
theirs in `kernel/`, so that this module knows neither memory nor loops.
"""

from __future__ import annotations

import math

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import AND, ANY_LOAD, CONSTANT, FMA, GUARD, INDEX, LOAD, RISKY_LOAD, SELECT
from rushlight.codegen.llvm.builder.scope import Context, Handler, Mask, Scope, TermKey, Value, widen
from rushlight.codegen.llvm.builder.vector_types import Shape, literal, shape_of
from rushlight.codegen.llvm.math import arithmetic, casts, masks
from rushlight.ir.dtype import bool_, int64
from rushlight.ir.scalar import Scalar, bound_axes
from rushlight.sym import Size, parts
from rushlight.term import postorder

# Terms of a guard's first value from which code to skip it is worth a branch.
SKIPPED_TERMS = 24


def value(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None = None) -> Value:
    """The value of a term in a scope; emits it unless it is computed already."""
    result = (scope.memo.get(term) if mask is None else None) or _lookup(ctx, term, scope, mask)
    if result is not None:
        return result
    # An explicit stack: terms nest deeper than Python recurses.
    stack = [term]
    while stack:
        top = stack[-1]
        pending = [operand for operand in _before(top) if _lookup(ctx, operand, scope, mask) is None]
        if pending:
            stack.extend(reversed(pending))
            continue
        stack.pop()
        result = _lookup(ctx, top, scope, mask) or _emit(ctx, top, scope, mask)
    assert result is not None
    return result


_ORDERS = ("lt", "le")


def _before(term: Scalar) -> tuple[Scalar, ...]:
    """Returns the operands to emit first. Loads, reductions, guards and index comparisons emit their own operands."""
    if term.op is GUARD:
        return (term.operands[0], term.operands[2])
    if term.op is FMA:
        # The sum first: a chain's products are made one after the other, and wait in no registers.
        return (term.operands[2], *term.operands[:2])
    if term.op.name == "load" or bound_axes(term) or (term.op.name in _ORDERS and term.operands[0].type is int64):
        return ()
    return term.operands


def _lookup(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value | None:
    """The value of a term that is computed already, for the lanes of the mask or for more."""
    touched = ctx.analysis.touched[term]
    while mask is not None and touched & ANY_LOAD:
        result = _recall((term, mask.key), touched, scope)
        if result is not None:
            return result
        mask = mask.outer
    return _recall(term, touched, scope)


def _recall(key: TermKey, touched: int, scope: Scope) -> Value | None:
    result = scope.memo.get(key)
    if result is not None:
        return result
    outer = scope.parent
    while outer is not None:
        result = outer.memo.get(key)
        if result is not None:
            if touched <= ANY_LOAD | RISKY_LOAD:  # no store invalidates it: cache it in the inner scope too
                scope.memo[key] = result
            return result
        outer = outer.parent
    return None


def _emit(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    touched = ctx.analysis.touched[term]
    inner_mask = mask if touched & ANY_LOAD else None
    home = ctx.hoist(ctx.analysis.free[term], touched, scope, inner_mask)
    handler = ctx.handlers.get(term.op.name, emit_operation)
    result = handler(ctx, term, home, inner_mask)
    remember(ctx, term, home, inner_mask, result)
    return result


def remember(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None, result: Value) -> None:
    """Records a term's value in its scope; the next store to a buffer that it reads invalidates it."""
    touched = ctx.analysis.touched[term]
    key = term if mask is None or not touched & ANY_LOAD else (term, mask.key)
    scope.memo[key] = result
    buffers = touched & ~(RISKY_LOAD | ANY_LOAD)
    if buffers:
        scope.pinned[key] = buffers


def lanes_of(ctx: Context, term: Scalar, scope: Scope) -> int:
    """The lanes of a term's value in a scope: 1 unless it depends on a vectorised axis."""
    vector = scope.vector
    return vector.width if vector is not None and ctx.analysis.free[term] & vector.axes else 1


def operand(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None, shape: Shape) -> str:
    """The text of an operand with the lanes of `shape`."""
    return widen(value(ctx, term, scope, mask), shape)


def emit_operation(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a term whose op is in the table of instructions."""
    values = [value(ctx, operand, scope, mask) for operand in term.operands]
    lanes = max([operand_value.lanes for operand_value in values])
    shape = shape_of(term.operands[0].type, lanes)
    texts = [widen(operand_value, shape) for operand_value in values]
    return Value(arithmetic.OPERATIONS[term.op.name](scope, shape, *texts), lanes, scope)


def _emit_order(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a < b or a <= b.

    For indices with a constant stride, the mask comes from one count of lanes; with stride 0 it is one bit.
    """
    lanes = lanes_of(ctx, term, scope)
    a, b = (_index_of(operand) for operand in term.operands)
    if lanes > 1 and a is not None and b is not None:
        gap = b - a if term.op.name == "lt" else b - a + 1
        split = sizes.affine(ctx, parts(gap), scope)
        if split.extra is None and isinstance(split.stride, int):
            low = sizes.sum_text(ctx, split.base, scope)
            if split.stride == 0:
                return Value(scope.let(f"icmp sgt i64 {low}, 0"), 1, scope)
            # low + stride * l > 0
            step, relation = abs(split.stride), "ult" if split.stride < 0 else "uge"
            room = low if split.stride < 0 else scope.let(f"sub i64 1, {low}")
            count = masks.clamped(scope, room, lanes, step)
            return Value(masks.first_lanes(scope, count, lanes, relation), lanes, scope)
    return emit_operation(ctx, term, scope, mask)


def _index_of(term: Scalar) -> Size | None:
    """The size that a term is, or None."""
    if term.op is INDEX:
        return term.attr("expr")
    return term.attr("value") if term.op is CONSTANT and term.type is int64 else None


def _emit_fma(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    lanes = lanes_of(ctx, term, scope)
    shape = shape_of(term.type, lanes)
    texts = [operand(ctx, factor, scope, mask, shape) for factor in term.operands]
    return Value(arithmetic.fma(scope, shape, *texts), lanes, scope)


def _emit_constant(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    return Value(literal(term.attr("value"), term.type), 1, None)


def _emit_index(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    expr = term.attr("expr")
    lanes = lanes_of(ctx, term, scope)
    if lanes == 1:
        return Value(sizes.size_text(ctx, expr, scope), 1, scope)
    return Value(sizes.lanes_text(ctx, parts(expr), scope), lanes, scope)


def _emit_cast(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    source_value = value(ctx, term.operands[0], scope, mask)
    source, result = shape_of(term.operands[0].type, source_value.lanes), shape_of(term.type, source_value.lanes)
    convert = casts.cast if term.op.name == "cast" else casts.bitcast
    text = widen(source_value, source)
    return Value(convert(scope, source, result, text), source_value.lanes, scope)


def _emit_select(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    condition, a, b = (value(ctx, operand, scope, mask) for operand in term.operands)
    return select(scope, term, condition, a, b)


def select(scope: Scope, term: Scalar, condition: Value, a: Value, b: Value) -> Value:
    """Selects one of two values; a scalar condition selects whole vectors."""
    lanes = max(condition.lanes, a.lanes, b.lanes)
    shape = shape_of(term.type, lanes)
    kind = shape_of(bool_, condition.lanes).type
    _, first, second = term.operands
    left = _opaque(scope, shape, first, second, widen(a, shape))
    right = _opaque(scope, shape, second, first, widen(b, shape))
    return Value(scope.let(f"select {kind} {condition.text}, {shape.type} {left}, {shape.type} {right}"), lanes, scope)


def _opaque(scope: Scope, shape: Shape, arm: Scalar, other: Scalar, text: str) -> str:
    """An arm of a select, hidden from LLVM if it is a select with the same constant `other`.

    LLVM takes two such selects of floats for one maximum or minimum, also where only one of them passes NaN on.
    """
    if not shape.is_float or other.op is not CONSTANT or arm.op not in (SELECT, GUARD) or other not in arm.operands[1:]:
        return text
    return arithmetic.call(scope, "arithmetic.fence", shape, text)


def _emit_guard(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    condition, a, b = term.operands
    chosen = value(ctx, condition, scope, mask)
    other = value(ctx, b, scope, mask)
    missing = _missing(ctx, a, scope, mask)
    if not any(part.op is LOAD or bound_axes(part) for part in missing):
        if len(missing) < SKIPPED_TERMS or not scope.axes:
            return select(scope, term, chosen, value(ctx, a, scope, mask), other)
        return _skipped(ctx, term, scope, mask, chosen, other)
    inner = narrow_mask(ctx, condition, chosen, scope, mask)
    guarded = value(ctx, a, scope, inner)
    # A masked load has zeros in inactive lanes already. The exception is a scalar load that is broadcast to lanes.
    if a.op is LOAD and is_zero(b) and (guarded.lanes > 1 or chosen.lanes == 1):
        return guarded
    return select(scope, term, chosen, guarded, other)


def _missing(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> list[Scalar]:
    """The terms with operands that are still to be computed in a scope for a term."""

    def below(part: Scalar) -> list[Scalar]:
        operands = part.operands
        return [operand for operand in operands if operand.operands and _lookup(ctx, operand, scope, mask) is None]

    return list(postorder([term] if _lookup(ctx, term, scope, mask) is None else [], below))


def _skipped(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None, chosen: Value, other: Value) -> Value:
    """The value of a guard whose first value is long: code that is skipped where no lane chooses it.

    `chosen` is the condition's value, `other` the guard's second.
    """
    condition = chosen.text
    if chosen.lanes > 1:
        bits = scope.let(f"bitcast <{chosen.lanes} x i1> {condition} to i{chosen.lanes}")
        condition = scope.let(f"icmp ne i{chosen.lanes} {bits}, 0")
    inner = scope.inner(scope.names.label(), scope.axes, scope.hold)
    guarded = select(inner, term, chosen, value(ctx, term.operands[1], inner, mask), other)
    shape = shape_of(term.type, guarded.lanes)
    without, before, after = widen(other, shape), scope.label, scope.names.label()
    scope.branch(condition, inner.first, after)
    scope.block(inner.first)
    scope.append(inner)
    scope.jump(after)
    scope.block(after)
    result = scope.let(f"phi {shape.type} [ {guarded.text}, %{inner.label} ], [ {without}, %{before} ]")
    return Value(result, guarded.lanes, scope)


def is_zero(term: Scalar) -> bool:
    """Whether a term is the constant whose bits are all 0."""
    return term.op is CONSTANT and not term.attr("value") and not math.copysign(1, term.attr("value")) < 0


def narrow_mask(ctx: Context, condition: Scalar, chosen: Value, scope: Scope, outer: Mask | None) -> Mask:
    """The mask of code that runs only if a condition and an outer mask hold."""
    home = chosen.scope or scope
    factors = tuple([value(ctx, factor, scope, outer) for factor in _factors(condition)])
    if outer is None:
        return Mask(chosen.text, chosen.lanes, home, condition, factors)
    if outer.scope.depth > home.depth:
        home = outer.scope
    lanes = max(chosen.lanes, outer.lanes)
    shape = shape_of(bool_, lanes)
    outer_text = widen(Value(outer.text, outer.lanes, outer.scope), shape)
    text = home.let(f"and {shape.type} {widen(chosen, shape)}, {outer_text}")
    return Mask(text, lanes, home, (condition, outer.key), (*outer.factors, *factors), outer)


def _factors(condition: Scalar) -> list[Scalar]:
    """The factors of a conjunction, each once."""
    factors: dict[Scalar, None] = {}
    stack = [condition]
    while stack:
        term = stack.pop()
        if term.op is AND:
            stack.extend(reversed(term.operands))
        else:
            factors[term] = None
    return list(factors)


TERM_HANDLERS: dict[str, Handler] = {
    "constant": _emit_constant,
    "index": _emit_index,
    "cast": _emit_cast,
    "bitcast": _emit_cast,
    "select": _emit_select,
    "guard": _emit_guard,
    "fma": _emit_fma,
    "lt": _emit_order,
    "le": _emit_order,
}
