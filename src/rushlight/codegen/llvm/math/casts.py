"""Conversions between element types, without library calls and with the reference's rounding."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Scope
from rushlight.codegen.llvm.builder.vector_types import Shape, shape_of, vector_type
from rushlight.ir.dtype import bfloat16, float32, int32


def cast(out: Scope, source: Shape, result: Shape, x: str) -> str:
    """Converts: floats to integers truncate and saturate (NaN gives 0), anything to bool is `!= 0`.

    Half floats convert through float32, as in the reference; float64 to float16 rounds once.
    """
    if source.dtype is result.dtype:
        return x
    if source.is_half:
        if result.is_bool:
            kind = source.type
            magnitude = out.let(f"and {kind} {x}, {source.integer(0x7FFF)}")
            return out.let(f"icmp ne {kind} {magnitude}, {source.integer(0)}")
        wide = shape_of(float32, source.lanes)
        return cast(out, wide, result, widen_half(out, source, x))
    if result.is_half:
        single = shape_of(float32, source.lanes)
        if source.is_float and source.bits == 64 and result.dtype is not bfloat16:
            x = _round_to_odd(out, source, single, x)
        else:
            x = cast(out, source, single, x)
        return narrow_half(out, result, x)
    if result.is_bool:
        return _to_bool(out, source, x)
    if source.is_float:
        return _from_float(out, source, result, x)
    sign = "s" if source.signed and not source.is_bool else "u"
    if result.is_float:
        return out.let(f"{sign}itofp {source.type} {x} to {result.type}")
    if result.bits == source.bits:
        return x
    instruction = "trunc" if result.bits < source.bits else "sext" if sign == "s" else "zext"
    return out.let(f"{instruction} {source.type} {x} to {result.type}")


def _to_bool(out: Scope, source: Shape, x: str) -> str:
    if source.is_float:
        return out.let(f"fcmp une {source.type} {x}, {source.constant(0.0)}")
    return out.let(f"icmp ne {source.type} {x}, {source.integer(0)}")


def _from_float(out: Scope, source: Shape, result: Shape, x: str) -> str:
    if result.is_float:
        instruction = "fpext" if result.bits > source.bits else "fptrunc"
        return out.let(f"{instruction} {source.type} {x} to {result.type}")
    return _to_integer(out, source, result, x)


def _to_integer(out: Scope, source: Shape, result: Shape, x: str) -> str:
    """Truncates and saturates. LLVM's own saturating conversion goes lane by lane on x86."""
    lowest = -(1 << (result.bits - 1)) if result.signed else 0
    highest = (1 << (result.bits - result.signed)) - 1
    kind, mask = source.type, source.mask_type

    def choose(condition: str, a: str, b: str, of: str) -> str:
        return out.let(f"select {mask} {condition}, {of} {a}, {of} {b}")

    low = source.constant(lowest)
    clean = choose(out.let(f"fcmp ogt {kind} {x}, {low}"), x, low, kind)  # NaN too becomes the lowest
    above = ""
    if highest < 1 << (24 if source.bits == 32 else 53):  # exact in the source type
        high = source.constant(highest)
        clean = choose(out.let(f"fcmp olt {kind} {clean}, {high}"), clean, high, kind)
    else:
        above = out.let(f"fcmp oge {kind} {x}, {source.constant(highest + 1)}")
        clean = choose(above, source.constant(0.0), clean, kind)
    wide = shape_of(int32, result.lanes) if result.bits < 32 else result
    sign = "s" if result.signed or result.bits < 32 else "u"
    text = out.let(f"fpto{sign}i {kind} {clean} to {wide.type}")
    if above:
        text = choose(above, result.integer(highest), text, result.type)
    if wide is not result:
        text = out.let(f"trunc {wide.type} {text} to {result.type}")
    if result.signed:
        text = choose(out.let(f"fcmp uno {kind} {x}, {x}"), result.integer(0), text, result.type)
    return text


def bitcast(out: Scope, source: Shape, result: Shape, x: str) -> str:
    """The same bits as another type."""
    if source.type == result.type:
        return x
    if source.is_bool:
        return out.let(f"zext {source.type} {x} to {result.type}")
    if result.is_bool:
        return out.let(f"icmp ne {source.type} {x}, {source.integer(0)}")
    return out.let(f"bitcast {source.type} {x} to {result.type}")


def widen_half(out: Scope, source: Shape, x: str) -> str:
    """A 16-bit float as float32, exactly."""
    words, floats = vector_type(source.lanes, "i32"), vector_type(source.lanes, "float")
    if source.dtype is bfloat16:
        wide = out.let(f"zext {source.type} {x} to {words}")
        count = "16" if source.lanes == 1 else "splat (i32 16)"
        return out.let(f"bitcast {words} {out.let(f'shl {words} {wide}, {count}')} to {floats}")
    halves = vector_type(source.lanes, "half")
    return out.let(f"fpext {halves} {out.let(f'bitcast {source.type} {x} to {halves}')} to {floats}")


def narrow_half(out: Scope, result: Shape, x: str) -> str:
    """A float32 rounded to a 16-bit float, to nearest even; NaNs stay quiet NaNs."""
    lanes = result.lanes
    floats, words = vector_type(lanes, "float"), vector_type(lanes, "i32")
    if result.dtype is not bfloat16:
        halves = vector_type(lanes, "half")
        return out.let(f"bitcast {halves} {out.let(f'fptrunc {floats} {x} to {halves}')} to {result.type}")

    def number(value: int) -> str:
        return str(value) if lanes == 1 else f"splat (i32 {value})"

    # By integers: the hardware's bfloat16 conversion flushes subnormals.
    bits = out.let(f"bitcast {floats} {x} to {words}")
    upper = out.let(f"lshr {words} {bits}, {number(16)}")
    last = out.let(f"and {words} {upper}, {number(1)}")
    nudged = out.let(f"add {words} {bits}, {out.let(f'add {words} {last}, {number(0x7FFF)}')}")
    rounded = out.let(f"lshr {words} {nudged}, {number(16)}")
    quiet = out.let(f"or {words} {upper}, {number(0x40)}")
    is_nan = out.let(f"fcmp uno {floats} {x}, {x}")
    chosen = out.let(f"select {vector_type(lanes, 'i1')} {is_nan}, {words} {quiet}, {words} {rounded}")
    return out.let(f"trunc {words} {chosen} to {result.type}")


def _round_to_odd(out: Scope, source: Shape, result: Shape, x: str) -> str:
    """Rounds float64 to float32 to odd: a second rounding, to a shorter format, then equals one rounding.

    The last bit is set if anything was lost (Boldo and Melquiond 2008).
    """
    words, mask = result.bits_type, result.mask_type
    near = out.let(f"fptrunc {source.type} {x} to {result.type}")
    back = out.let(f"fpext {result.type} {near} to {source.type}")
    inexact = out.let(f"fcmp one {source.type} {back}, {x}")
    magnitude = out.let(f"call {source.type} @llvm.fabs.{source.suffix}({source.type} {x})")
    back_magnitude = out.let(f"call {source.type} @llvm.fabs.{source.suffix}({source.type} {back})")
    above = out.let(f"fcmp ogt {source.type} {back_magnitude}, {magnitude}")
    bits = out.let(f"bitcast {result.type} {near} to {words}")
    lower = out.let(f"sub {words} {bits}, {result.integer(1)}")
    truncated = out.let(f"select {mask} {above}, {words} {lower}, {words} {bits}")
    odd = out.let(f"or {words} {truncated}, {result.integer(1)}")
    chosen = out.let(f"select {mask} {inexact}, {words} {odd}, {words} {bits}")
    return out.let(f"bitcast {words} {chosen} to {result.type}")
