"""`scale(x, n)`: x * 2^n. One instruction with AVX-512; elsewhere two factors, of which the second alone may round."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.codegen.llvm.scope import Context, Mask, Scope, Value, widen
from rushlight.codegen.llvm.shapes import Shape, literal, shape_of, vector_type
from rushlight.codegen.llvm.terms import lanes_of, value
from rushlight.ir.scalar import Scalar

_FRACTION_BITS = {32: 23, 64: 52}
_BIAS = {32: 127, 64: 1023}
_REGISTER_BITS = 512
_PRESENT_ROUNDING = 4


def emit_scale(ctx: Context, term: Scalar, scope: Scope, mask: Mask | None) -> Value:
    """The value of a `scale`."""
    shape = shape_of(term.type, lanes_of(ctx, term, scope))
    x, n = (widen(value(ctx, item, scope, mask), shape) for item in term.operands)
    register = _REGISTER_BITS // shape.bits
    if ctx.target.has_scale and shape.lanes % register == 0:
        text = _by_registers(scope, shape, register, (x, n), lambda *parts: _scale_register(scope, shape, *parts))
    else:
        text = _by_factors(scope, shape, x, n)
    return Value(text, shape.lanes, scope)


def _scale_register(scope: Scope, shape: Shape, x: str, n: str) -> str:
    lanes = _REGISTER_BITS // shape.bits
    kind, name = vector_type(lanes, shape.scalar), "ps" if shape.bits == 32 else "pd"
    operands = f"{kind} {x}, {kind} {n}, {kind} {x}, i{lanes} -1, i32 {_PRESENT_ROUNDING}"
    return scope.let(f"call {kind} @llvm.x86.avx512.mask.scalef.{name}.512({operands})")


def _by_registers(
    scope: Scope, shape: Shape, register: int, operands: tuple[str, ...], emit: Callable[..., str]
) -> str:
    """What is computed one register at a time."""
    if shape.lanes == register:
        return emit(*operands)
    done: list[str] = []
    for start in range(0, shape.lanes, register):
        chosen = ", ".join([f"i32 {lane}" for lane in range(start, start + register)])
        pick = f"{vector_type(register, 'i32')} <{chosen}>"
        parts = [scope.let(f"shufflevector {shape.type} {item}, {shape.type} poison, {pick}") for item in operands]
        done.append(emit(*parts))
    lanes = register
    while len(done) > 1:
        kind = vector_type(lanes, shape.scalar)
        lanes *= 2
        chosen = ", ".join([f"i32 {lane}" for lane in range(lanes)])
        pick = f"{vector_type(lanes, 'i32')} <{chosen}>"
        pairs = zip(done[::2], done[1::2], strict=True)
        done = [scope.let(f"shufflevector {kind} {low}, {kind} {high}, {pick}") for low, high in pairs]
    return done[0]


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
