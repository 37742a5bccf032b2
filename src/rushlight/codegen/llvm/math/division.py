"""Floor division, remainder and high products: never a trap, never a library call."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.scope import Scope
from rushlight.codegen.llvm.builder.vector_types import Shape, vector_type


def floordiv(out: Scope, shape: Shape, a: str, b: str) -> str:
    """The quotient rounded down; 0 for integers divided by 0."""
    if shape.is_float:
        return _float_division(out, shape, a, b)[0]
    return _integer_division(out, shape, a, b)[0]


def remainder(out: Scope, shape: Shape, a: str, b: str) -> str:
    """The remainder with the divisor's sign; 0 for integers divided by 0."""
    if shape.is_float:
        return _float_division(out, shape, a, b)[1]
    return _integer_division(out, shape, a, b)[1]


def multiply_high(out: Scope, shape: Shape, a: str, b: str) -> str:
    """The high half of the product of two unsigned integers."""
    if shape.bits == 64 and shape.lanes > 1:
        return _multiply_high_by_halves(out, shape, a, b)
    wide = vector_type(shape.lanes, f"i{2 * shape.bits}")
    count = f"splat (i{2 * shape.bits} {shape.bits})" if shape.lanes > 1 else str(shape.bits)
    a_wide = out.let(f"zext {shape.type} {a} to {wide}")
    b_wide = out.let(f"zext {shape.type} {b} to {wide}")
    product = out.let(f"mul {wide} {a_wide}, {b_wide}")
    high = out.let(f"lshr {wide} {product}, {count}")
    return out.let(f"trunc {wide} {high} to {shape.type}")


def _multiply_high_by_halves(out: Scope, shape: Shape, a: str, b: str) -> str:
    kind = shape.type
    low_bits, half = shape.integer(0xFFFFFFFF), shape.integer(32)
    a_low, b_low = (out.let(f"and {kind} {x}, {low_bits}") for x in (a, b))
    a_high, b_high = (out.let(f"lshr {kind} {x}, {half}") for x in (a, b))
    low = out.let(f"mul {kind} {a_low}, {b_low}")
    cross = out.let(f"mul {kind} {a_high}, {b_low}")
    cross2 = out.let(f"mul {kind} {a_low}, {b_high}")
    high = out.let(f"mul {kind} {a_high}, {b_high}")
    carry = out.let(f"lshr {kind} {low}, {half}")
    middle = out.let(f"add {kind} {cross}, {carry}")
    middle_low = out.let(f"and {kind} {middle}, {low_bits}")
    middle2 = out.let(f"add {kind} {cross2}, {middle_low}")
    up = out.let(f"lshr {kind} {middle}, {half}")
    up2 = out.let(f"lshr {kind} {middle2}, {half}")
    return out.let(f"add {kind} {out.let(f'add {kind} {high}, {up}')}, {up2}")


def _select(out: Scope, shape: Shape, condition: str, a: str, b: str) -> str:
    return out.let(f"select {shape.mask_type} {condition}, {shape.type} {a}, {shape.type} {b}")


def _integer_division(out: Scope, shape: Shape, a: str, b: str) -> tuple[str, str]:
    """Quotient and remainder. Divisors 0 and -1, which trap on x86, are replaced by 1 and corrected after."""
    zero, one, kind = shape.integer(0), shape.integer(1), shape.type
    is_zero = out.let(f"icmp eq {kind} {b}, {zero}")
    odd, is_minus_one = is_zero, ""
    if shape.signed:
        is_minus_one = out.let(f"icmp eq {kind} {b}, {shape.integer(-1)}")
        odd = out.let(f"or {shape.mask_type} {is_zero}, {is_minus_one}")
    divisor = _select(out, shape, odd, one, b)
    quotient = _quotient(out, shape, a, divisor)
    product = out.let(f"mul {kind} {quotient}, {divisor}")
    rest = out.let(f"sub {kind} {a}, {product}")
    if shape.signed:
        signs = out.let(f"xor {kind} {rest}, {divisor}")
        differ = out.let(f"icmp slt {kind} {signs}, {zero}")
        inexact = out.let(f"icmp ne {kind} {rest}, {zero}")
        below = out.let(f"and {shape.mask_type} {differ}, {inexact}")
        quotient = _select(out, shape, below, out.let(f"sub {kind} {quotient}, {one}"), quotient)
        rest = _select(out, shape, below, out.let(f"add {kind} {rest}, {divisor}"), rest)
        quotient = _select(out, shape, is_minus_one, out.let(f"sub {kind} {zero}, {a}"), quotient)
    return _select(out, shape, is_zero, zero, quotient), _select(out, shape, odd, zero, rest)


def _quotient(out: Scope, shape: Shape, a: str, b: str) -> str:
    """The quotient rounded towards 0: vectors of up to 32 bits divide as doubles, exactly, others lane by lane."""
    if shape.lanes == 1 or shape.bits == 64:
        return out.let(f"{'sdiv' if shape.signed else 'udiv'} {shape.type} {a}, {b}")
    sign = "s" if shape.signed else "u"
    doubles = vector_type(shape.lanes, "double")
    a_double, b_double = (out.let(f"{sign}itofp {shape.type} {x} to {doubles}") for x in (a, b))
    quotient = out.let(f"fdiv {doubles} {a_double}, {b_double}")
    return out.let(f"fpto{sign}i {doubles} {quotient} to {shape.type}")


def _float_division(out: Scope, shape: Shape, a: str, b: str) -> tuple[str, str]:
    """PyTorch's floor division and remainder, from the exact remainder with the dividend's sign."""
    kind = shape.type
    zero, one = shape.constant(0.0), shape.constant(1.0)

    def call(name: str, *operands: str) -> str:
        arguments = ", ".join([f"{kind} {operand}" for operand in operands])
        return out.let(f"call {kind} @llvm.{name}.{shape.suffix}({arguments})")

    rest = _truncated_remainder(out, shape, a, b)
    exact = out.let(f"fdiv {kind} {out.let(f'fsub {kind} {a}, {rest}')}, {b}")
    nonzero = out.let(f"fcmp une {kind} {rest}, {zero}")
    rest_below = out.let(f"fcmp olt {kind} {rest}, {zero}")
    b_below = out.let(f"fcmp olt {kind} {b}, {zero}")
    differ = out.let(f"xor {shape.mask_type} {rest_below}, {b_below}")
    moved = out.let(f"and {shape.mask_type} {differ}, {nonzero}")
    result = _select(out, shape, moved, out.let(f"fadd {kind} {rest}, {b}"), rest)
    exact = _select(out, shape, moved, out.let(f"fsub {kind} {exact}, {one}"), exact)
    whole = call("floor", exact)
    above = out.let(f"fcmp ogt {kind} {out.let(f'fsub {kind} {exact}, {whole}')}, {shape.constant(0.5)}")
    whole = _select(out, shape, above, out.let(f"fadd {kind} {whole}, {one}"), whole)
    quotient = out.let(f"fdiv {kind} {a}, {b}")
    is_nonzero = out.let(f"fcmp une {kind} {exact}, {zero}")
    whole = _select(out, shape, is_nonzero, whole, call("copysign", zero, quotient))
    by_zero = out.let(f"fcmp oeq {kind} {b}, {zero}")
    nan = shape.constant(float("nan"))
    return _select(out, shape, by_zero, quotient, whole), _select(out, shape, by_zero, nan, result)


def _truncated_remainder(out: Scope, shape: Shape, a: str, b: str) -> str:
    """The exact remainder with the dividend's sign, as C's fmod: NaN for an infinite dividend or a zero divisor.

    A loop on doubles: subtract the truncated quotient's multiple of |b| * 2**e, e such that the quotient has at most 52
    bits; one turn suffices unless |a / b| is huge.
    """
    lanes, mask = shape.lanes, shape.mask_type
    doubles, bits = vector_type(lanes, "double"), vector_type(lanes, "i64")
    suffix = "f64" if lanes == 1 else f"v{lanes}f64"
    single = shape.scalar == "float"

    def each(text: str) -> str:
        return text if lanes == 1 else f"splat (double {text})"

    def number(value: int) -> str:
        return str(value) if lanes == 1 else f"splat (i64 {value})"

    def call(name: str, *operands: str) -> str:
        return out.let(f"call {doubles} @llvm.{name}.{suffix}({', '.join([f'{doubles} {x}' for x in operands])})")

    a_wide, b_wide = (out.let(f"fpext {shape.type} {x} to {doubles}") if single else x for x in (a, b))
    start, divisor = call("fabs", a_wide), call("fabs", b_wide)
    finite = out.let(f"fcmp one {doubles} {start}, {each('0x7FF0000000000000')}")
    usable = out.let(f"fcmp ogt {doubles} {divisor}, {each('0.0')}")
    valid = out.let(f"and {mask} {finite}, {usable}")
    before, again, after = out.label, out.names.label(), out.names.label()
    rest, next_rest = out.names.value(), out.names.value()
    out.jump(again)
    out.block(again)
    out.do(f"{rest} = phi {doubles} [ {start}, %{before} ], [ {next_rest}, %{again} ]")
    scaled = divisor
    for _ in range(1 if single else 3):
        ratio = out.let(f"fdiv {doubles} {rest}, {scaled}")
        ratio_bits = out.let(f"bitcast {doubles} {ratio} to {bits}")
        exponent = out.let(f"lshr {bits} {ratio_bits}, {number(52)}")
        excess = out.let(f"sub {bits} {exponent}, {number(1023 + 51)}")
        suffix_i64 = suffix.replace("f64", "i64")
        excess = out.let(f"call {bits} @llvm.smax.{suffix_i64}({bits} {excess}, {bits} {number(0)})")
        scale_bits = out.let(f"shl {bits} {out.let(f'add {bits} {excess}, {number(1023)}')}, {number(52)}")
        scale = out.let(f"bitcast {bits} {scale_bits} to {doubles}")
        scaled = out.let(f"fmul {doubles} {scaled}, {scale}")
    ratio = out.let(f"fdiv {doubles} {rest}, {scaled}")
    whole = call("trunc", ratio)
    negative = out.let(f"fneg {doubles} {whole}")
    less = call("fma", negative, scaled, rest)
    is_below = out.let(f"fcmp olt {doubles} {less}, {each('0.0')}")
    raised = out.let(f"fadd {doubles} {less}, {scaled}")
    less = out.let(f"select {mask} {is_below}, {doubles} {raised}, {doubles} {less}")
    running = out.let(f"fcmp oge {doubles} {rest}, {divisor}")
    going = out.let(f"and {mask} {running}, {valid}")
    out.do(f"{next_rest} = select {mask} {going}, {doubles} {less}, {doubles} {rest}")
    still = out.let(f"fcmp oge {doubles} {next_rest}, {divisor}")
    still = out.let(f"and {mask} {still}, {valid}")
    if lanes > 1:
        word = out.let(f"bitcast {mask} {still} to i{lanes}")
        still = out.let(f"icmp ne i{lanes} {word}, 0")
    out.branch(still, again, after)
    out.block(after)
    signed = call("copysign", next_rest, a_wide)
    result = out.let(f"fptrunc {doubles} {signed} to {shape.type}") if single else signed
    keep = out.let(f"fcmp uno {shape.type} {b}, {shape.constant(0.0)}")
    ok = out.let(f"or {mask} {valid}, {keep}")
    result = _select(out, shape, ok, result, shape.constant(float("nan")))
    return _select(out, shape, keep, b, result)
