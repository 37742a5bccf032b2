"""How pointwise operators are written."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight.ir.graph import Call
from rushlight.onnx.writing.writer import RULES, Writer, writes
from rushlight.ops.promote import promote

_UNARY = {
    "abs": "Abs",
    "acos": "Acos",
    "asin": "Asin",
    "atan": "Atan",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "isnan": "IsNaN",
    "log": "Log",
    "logical_not": "Not",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
    "detach": "Identity",
    "clone": "Identity",
    "contiguous": "Identity",
    "alias": "Identity",
    "relayout": "Identity",
}
_BINARY = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "pow": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
}
_OF_BOOLS = {
    "Add": "Or",
    "Mul": "And",
    "Max": "Or",
    "Min": "And",
    "BitwiseAnd": "And",
    "BitwiseOr": "Or",
    "BitwiseXor": "Xor",
}
"""What arithmetic of bools is in logic, which ONNX keeps apart."""
_ROUNDINGS = {"ceil": "Ceil", "floor": "Floor"}
_COMPARISONS = {"eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual"}


def _unary(kind: str) -> Callable[[Writer, Call], object]:
    def rule(write: Writer, call: Call) -> object:
        return write.node(kind, write.value(call.operands[0], call.type.dtype if kind != "IsNaN" else None))

    return rule


def _binary(kind: str) -> Callable[[Writer, Call], object]:
    def rule(write: Writer, call: Call) -> object:
        first, second, *scale = call.operands
        dtype = call.type.dtype
        other = write.value(second, dtype)
        if scale and scale[0] is not None:
            other = _arithmetic(write, "Mul", other, write.value(scale[0], dtype), dtype)
        return _arithmetic(write, kind, write.value(first, dtype), other, dtype)

    return rule


def _arithmetic(write: Writer, kind: str, first: str, second: str, dtype: rl.dtype) -> str:
    """Two operands of one dtype, added, multiplied or compared."""
    return write.node(_OF_BOOLS.get(kind, kind) if dtype is rl.bool else kind, first, second)


def _rounding(kind: str) -> Callable[[Writer, Call], object]:
    def rule(write: Writer, call: Call) -> object:
        x = write.value(call.operands[0])
        return write.node(kind, x) if call.type.dtype.is_floating_point else x

    return rule


def _comparison(kind: str) -> Callable[[Writer, Call], str]:
    def rule(write: Writer, call: Call) -> str:
        dtype = promote(*[operand.type for operand in call.operands])
        if dtype is rl.bool and kind != "Equal":
            dtype = rl.int32  # ONNX puts no bools in order
        return write.node(kind, *[write.value(operand, dtype) for operand in call.operands])

    return rule


RULES.update({name: _unary(kind) for name, kind in _UNARY.items()})
RULES.update({name: _binary(kind) for name, kind in _BINARY.items()})
RULES.update({name: _rounding(kind) for name, kind in _ROUNDINGS.items()})
RULES.update({name: _comparison(kind) for name, kind in _COMPARISONS.items()})


@writes("ne")
def not_equal(write: Writer, call: Call) -> object:
    """Not equal."""
    return write.node("Not", _comparison("Equal")(write, call))


@writes("div")
def div(write: Writer, call: Call) -> object:
    """Div, rounded as the call says; of integers Div itself rounds towards zero."""
    dtype, rounding = call.type.dtype, call.attr("rounding_mode")
    if rounding == "floor":
        return floor_divide(write, call)
    quotient = write.node("Div", *[write.value(operand, dtype) for operand in call.operands])
    return _truncated(write, quotient, dtype) if rounding == "trunc" and dtype.is_floating_point else quotient


@writes("floor_divide")
def floor_divide(write: Writer, call: Call) -> object:
    """The quotient, rounded down."""
    dtype = call.type.dtype
    a, b = [write.value(operand, dtype) for operand in call.operands]
    return _floor_of_floats(write, a, b, dtype) if dtype.is_floating_point else write.floor_quotient(a, b)


def _floor_of_floats(write: Writer, a: str, b: str, dtype: rl.dtype) -> str:
    """Floor of what the remainder leaves: a quotient that was rounded up to a whole number is one too large."""
    zero, one = write.number(0, dtype), write.number(1, dtype)
    rest = write.node("Mod", a, b, fmod=1)
    quotient = write.node("Div", write.node("Sub", a, rest), b)
    quotient = write.node("Where", _crosses(write, rest, b, zero), write.node("Sub", quotient, one), quotient)
    whole = write.node("Floor", quotient)
    gap = write.node("Greater", write.node("Sub", quotient, whole), write.number(0.5, dtype))
    whole = write.node("Where", gap, write.node("Add", whole, one), whole)
    return write.node("Where", write.node("Equal", b, zero), write.node("Div", a, b), whole)


def _crosses(write: Writer, rest: str, b: str, zero: str) -> str:
    """Whether a remainder is not zero, and has another sign than the divisor."""
    apart = write.node("Xor", write.node("Less", rest, zero), write.node("Less", b, zero))
    return write.node("And", write.node("Not", write.node("Equal", rest, zero)), apart)


def _truncated(write: Writer, x: str, dtype: rl.dtype) -> str:
    below = write.node("Less", x, write.number(0, dtype))
    return write.node("Where", below, write.node("Ceil", x), write.node("Floor", x))


@writes("trunc")
def trunc(write: Writer, call: Call) -> object:
    """Rounded towards zero."""
    x, dtype = write.value(call.operands[0]), call.type.dtype
    return _truncated(write, x, dtype) if dtype.is_floating_point else x


@writes("remainder")
def remainder(write: Writer, call: Call) -> object:
    """The remainder that has the divisor's sign."""
    dtype = call.type.dtype
    a, b = [write.value(operand, dtype) for operand in call.operands]
    if not dtype.is_floating_point:
        return write.node("Mod", a, b)
    rest = write.node("Mod", a, b, fmod=1)
    crosses = _crosses(write, rest, b, write.number(0, dtype))
    return write.node("Where", crosses, write.node("Add", rest, b), rest)


@writes("fmod")
def fmod(write: Writer, call: Call) -> object:
    """The remainder that has the dividend's sign."""
    return write.node("Mod", *[write.value(operand, call.type.dtype) for operand in call.operands], fmod=1)


@writes("round")
def rounded(write: Writer, call: Call) -> object:
    """Round, of so many decimals."""
    x, dtype, decimals = write.value(call.operands[0]), call.type.dtype, int(call.attr("decimals"))
    if not dtype.is_floating_point:
        return x
    if not decimals:
        return write.node("Round", x)
    power = write.number(10.0 ** abs(decimals), dtype)
    scale, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return write.node(back, write.node("Round", write.node(scale, x, power)), power)


@writes("softplus")
def softplus(write: Writer, call: Call) -> object:
    """Softplus of beta times the number, divided by it; above the threshold the number itself."""
    x, dtype = write.value(call.operands[0]), call.type.dtype
    beta, threshold = float(call.attr("beta")), float(call.attr("threshold"))
    if beta == 1 and threshold == _SOFTPLUS_IS_LINEAR:
        return write.node("Softplus", x)
    scale = write.number(beta, dtype)
    scaled = write.node("Mul", x, scale)
    linear = write.node("Greater", scaled, write.number(threshold, dtype))
    return write.node("Where", linear, x, write.node("Div", write.node("Softplus", scaled), scale))


_SOFTPLUS_IS_LINEAR = 20  # from here on softplus(x) is x, in float32


@writes("rsqrt")
def inverse_root(write: Writer, call: Call) -> object:
    """1 / sqrt(x)."""
    return write.node("Reciprocal", write.node("Sqrt", write.value(call.operands[0], call.type.dtype)))


@writes("square")
def square(write: Writer, call: Call) -> object:
    """x * x."""
    x = write.value(call.operands[0])
    return write.node("Mul", x, x)


@writes("silu")
def silu(write: Writer, call: Call) -> object:
    """x * sigmoid(x)."""
    x = write.value(call.operands[0])
    return write.node("Mul", x, write.node("Sigmoid", x))


@writes("gelu")
def gelu(write: Writer, call: Call) -> object:
    """Gelu."""
    return write.node("Gelu", write.value(call.operands[0]), approximate=call.attr("approximate"))


@writes("leaky_relu")
def leaky_relu(write: Writer, call: Call) -> object:
    """LeakyRelu."""
    return write.node("LeakyRelu", write.value(call.operands[0]), alpha=float(dict(call.attrs)["negative_slope"]))


@writes("to_dtype")
def to_dtype(write: Writer, call: Call) -> object:
    """Cast."""
    return write.cast(write.value(call.operands[0]), call.type.dtype)


@writes("where")
def where(write: Writer, call: Call) -> object:
    """Where."""
    condition, first, second = call.operands
    dtype = call.type.dtype
    return write.node("Where", write.value(condition), write.value(first, dtype), write.value(second, dtype))


@writes("masked_fill")
def masked_fill(write: Writer, call: Call) -> object:
    """Where, with a number for what is masked."""
    x, mask, value = call.operands
    return write.node("Where", write.value(mask), write.value(value, call.type.dtype), write.value(x))


@writes("clamp")
def clamp(write: Writer, call: Call) -> object:
    """Max, then Min."""
    x, *ends = call.operands
    dtype = call.type.dtype
    result = write.value(x, dtype)
    for kind, end in zip(("Max", "Min"), ends, strict=False):
        result = result if end is None else write.node(kind, result, write.value(end, dtype))
    return result
