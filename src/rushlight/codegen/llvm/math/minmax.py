"""`minimum` and `maximum` of floats with AVX-512: three instructions in place of LLVM's six.

`vrange` orders -0.0 and +0.0; a compare and a masked add propagate NaNs.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.analysis import CONSTANT
from rushlight.codegen.llvm.builder.scope import Context, Mask, Scope, Value, widen
from rushlight.codegen.llvm.builder.vector_types import shape_of
from rushlight.codegen.llvm.math.avx512 import by_registers, fills_registers
from rushlight.codegen.llvm.math.terms import emit_operation, lanes_of, value
from rushlight.ir.dtype import Kind
from rushlight.ir.scalar import Scalar

# What the instruction returns: the smaller or the larger operand, with its own sign.
_CHOICES = {"minimum": "i32 4", "maximum": "i32 5"}


def emit_minmax(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a `minimum` or a `maximum`; with a constant operand LLVM's own code is shorter."""
    shape = shape_of(term.type, lanes_of(ctx, term, scope))
    has_constant = any(operand.op is CONSTANT for operand in term.operands)
    if has_constant or term.type.kind is not Kind.FLOAT or not fills_registers(ctx, shape):
        return emit_operation(ctx, term, scope, mask)
    a, b = (widen(value(ctx, operand, scope, mask), shape) for operand in term.operands)
    chosen = by_registers(scope, shape, "range", (a, b), _CHOICES[term.op.name])
    unordered = scope.let(f"fcmp uno {shape.type} {a}, {b}")
    nan = scope.let(f"fadd {shape.type} {a}, {b}")
    result = scope.let(f"select {shape.mask_type} {unordered}, {shape.type} {nan}, {shape.type} {chosen}")
    return Value(result, shape.lanes, scope)
