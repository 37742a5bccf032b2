"""`scale(x, n)`: x * 2^n. One instruction with AVX-512; elsewhere two factors, of which the second alone may round."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Context, Mask, Scope, Value, widen
from rushlight.codegen.llvm.builder.vector_types import Shape, literal, shape_of
from rushlight.codegen.llvm.math.avx512 import by_registers, fills_registers
from rushlight.codegen.llvm.math.terms import lanes_of, value
from rushlight.ir.scalar import Scalar

_FRACTION_BITS = {32: 23, 64: 52}
_BIAS = {32: 127, 64: 1023}


def emit_scale(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a `scale`."""
    shape = shape_of(term.type, lanes_of(ctx, term, scope))
    x, n = (widen(value(ctx, item, scope, mask), shape) for item in term.operands)
    if fills_registers(ctx, shape):
        text = by_registers(scope, shape, "scalef", (x, n))
    else:
        text = _by_factors(scope, shape, x, n)
    return Value(text, shape.lanes, scope)


def _by_factors(scope: Scope, shape: Shape, x: str, n: str) -> str:
    fraction, bits = _FRACTION_BITS[shape.bits], shape.bits_type
    # Adding it leaves an integer in the low bits of the fraction: the exponents of both factors, biased.
    magic = shape.splat(literal(1.5 * 2.0**fraction + 2 * _BIAS[shape.bits], shape.dtype))
    shifted = scope.let(f"fadd {shape.type} {n}, {magic}")
    found = scope.let(f"bitcast {shape.type} {shifted} to {bits}")
    placed = scope.let(f"shl {bits} {found}, {shape.integer(fraction - 1)}")
    half = scope.let(f"and {bits} {placed}, {shape.integer(-1 << fraction)}")
    both = scope.let(f"shl {bits} {found}, {shape.integer(fraction)}")
    rest = scope.let(f"sub {bits} {both}, {half}")
    for part in (half, rest):
        factor = scope.let(f"bitcast {bits} {part} to {shape.type}")
        x = scope.let(f"fmul {shape.type} {x}, {factor}")
    return x
