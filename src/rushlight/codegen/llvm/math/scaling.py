"""`scale(x, n)`: x * 2^n, by one instruction with AVX-512, else by two factors.

Of the two multiplications only the second can round, so the result is rounded once.
"""

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
    x, n = (widen(value(ctx, operand, scope, mask), shape) for operand in term.operands)
    if fills_registers(ctx, shape):
        text = by_registers(scope, shape, "scalef", (x, n))
    else:
        text = _by_factors(scope, shape, x, n)
    return Value(text, shape.lanes, scope)


def _by_factors(scope: Scope, shape: Shape, x: str, n: str) -> str:
    fraction, bits = _FRACTION_BITS[shape.bits], shape.bits_type
    # Adding `magic` leaves an integer in the low bits of the fraction: the sum of both factors' biased exponents.
    magic = shape.splat(literal(1.5 * 2.0**fraction + 2 * _BIAS[shape.bits], shape.dtype))
    shifted = scope.let(f"fadd {shape.type} {n}, {magic}")
    exponents = scope.let(f"bitcast {shape.type} {shifted} to {bits}")
    halved = scope.let(f"shl {bits} {exponents}, {shape.integer(fraction - 1)}")
    half = scope.let(f"and {bits} {halved}, {shape.integer(-1 << fraction)}")
    both = scope.let(f"shl {bits} {exponents}, {shape.integer(fraction)}")
    rest = scope.let(f"sub {bits} {both}, {half}")
    for part in (half, rest):
        factor = scope.let(f"bitcast {bits} {part} to {shape.type}")
        x = scope.let(f"fmul {shape.type} {x}, {factor}")
    return x
