"""Forms of calls of pointwise operators, by our own knowledge of PyTorch's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.fuzz.drawing import Draw
from tools.fuzz.program import DTYPES

CallMaker = Callable[[Draw], str]
"""Makes the text of one call, of live values and new inputs."""

_UNARY = {
    "float": (
        "logit acos acosh asin asinh atan atanh arccos arccosh arcsin arcsinh arctan arctanh cos cosh exp exp2 expm1 "
        "log log10 log1p log2 reciprocal rsqrt sigmoid sin sinh sqrt tan tanh erf erfc"
    ),
    "ordered": "abs absolute ceil floor frac neg negative relu round sgn sign square trunc",
    "any": "isfinite isinf isnan logical_not sgn real clone",
    "real": "signbit isneginf isposinf nan_to_num",
    "bits": "bitwise_not",
    "complex": "conj real imag abs",
}  # fmt: skip
"""Operators of one operand by the dtypes that they are mostly asked with."""

_IN_PLACE = {
    "abs",
    "absolute",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "logit",
    "nan_to_num",
    "neg",
    "negative",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
}

_BINARY = {
    "any": "add sub subtract mul multiply eq ne not_equal logical_and logical_or logical_xor div true_divide divide",
    "number": "add sub mul div rsub pow float_power",
    "ordered": (
        "floor_divide remainder fmod maximum minimum fmax fmin lt le gt ge less less_equal greater greater_equal "
        "float_power copysign atan2 arctan2"
    ),
    "float": "hypot copysign atan2 isclose",
    "bits": "bitwise_and bitwise_or bitwise_xor",
}  # fmt: skip

_BINARY_IN_PLACE = {
    "add",
    "sub",
    "subtract",
    "mul",
    "multiply",
    "div",
    "divide",
    "true_divide",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "copysign",
    "hypot",
    "atan2",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
}
_NO_NUMBER = {"maximum", "minimum", "fmax", "fmin", "hypot", "atan2", "arctan2", "logical_and", "logical_or",
              "logical_xor", "isclose", "subtract_"}  # fmt: skip

_OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=")
_BIT_OPERATORS = ("&", "|", "^")

_ACTIVATIONS = {
    "elu": ("", "alpha=0.5", "0.3"),
    "selu": ("",),
    "gelu": ("", "approximate='tanh'"),
    "glu": ("", "dim=0", "0"),
    "hardsigmoid": ("",),
    "hardswish": ("",),
    "hardtanh": ("", "-2.0, 0.5", "min_val=0.0"),
    "leaky_relu": ("", "0.1", "negative_slope=0.5"),
    "logsigmoid": ("",),
    "mish": ("",),
    "relu": ("",),
    "relu6": ("",),
    "sigmoid": ("",),
    "silu": ("",),
    "softplus": ("", "2.0", "0.5, 3.0"),
    "softsign": ("",),
    "tanh": ("",),
}


def _called(d: Draw, name: str, first: str, *rest: str) -> str:
    """A call as a function or as a method, with what is left after empty arguments."""
    rest = tuple([text for text in rest if text])
    if d.chance(0.5):
        return f"torch.{name}({', '.join([first, *rest])})"
    return f"{first}.{name}({', '.join(rest)})"


def _unary(name: str, kind: str) -> CallMaker:
    def form(d: Draw) -> str:
        x = d.value("any" if d.chance(0.1) else kind)
        if name in _IN_PLACE and d.chance(0.2):
            return f"{x}.{name}_()"
        if name in ("real", "imag"):
            return d.pick((f"{x}.{name}", f"torch.{name}({x})"))
        return _called(d, name, x)

    return form


def _binary(name: str, kind: str) -> CallMaker:
    def form(d: Draw) -> str:
        x = d.value("any" if d.chance(0.07) else kind)
        other = d.broadcast(x, kind)
        if name not in _NO_NUMBER and d.chance(0.2):
            other = d.scalar(x)
        if name in _BINARY_IN_PLACE and d.chance(0.15):
            return f"{x}.{name}_({other})"
        if name in ("rsub", "isclose", "float_power") or d.chance(0.5):
            return f"torch.{name}({x}, {other})"
        return f"{x}.{name}({other})"

    return form


def _operator(d: Draw) -> str:
    sign = d.pick(_BIT_OPERATORS if d.chance(0.15) else _OPERATORS)
    kind = "bits" if sign in _BIT_OPERATORS else "ordered" if sign in ("//", "%", "<", "<=", ">", ">=") else "any"
    x = d.value(kind)
    if sign in _BIT_OPERATORS and d.dtype_name(x) == "bool":
        other = d.broadcast(x, "bits")
    else:
        other = d.scalar(x) if d.chance(0.25) and sign not in _BIT_OPERATORS else d.broadcast(x, kind)
    if other[0] != "v" and d.chance(0.5):
        return f"{other} {sign} {x}"
    if sign in ("+", "-", "*", "/") and d.chance(0.12):
        return f"{x} {sign}= {other}"
    return f"{x} {sign} {other}"


def _alpha(d: Draw) -> str:
    x = d.value("number")
    alpha = d.pick(("2", "-1", "0") if DTYPES[d.dtype_name(x)].kind in "iu" else ("2", "0.5", "-1.5", "0"))
    name, dot = d.pick(("add", "sub", "rsub")), d.chance(0.3)
    other = d.broadcast(x, "number")
    return (
        f"{x}.{name}_({other}, alpha={alpha})"
        if dot and name != "rsub"
        else f"torch.{name}({x}, {other}, alpha={alpha})"
    )


def _rounding(d: Draw) -> str:
    x = d.value("ordered")
    mode = d.pick(("'floor'", "'trunc'", "None"))
    other = d.scalar(x) if d.chance(0.2) else d.broadcast(x, "ordered")
    return _called(d, d.pick(("div", "divide")), x, other, f"rounding_mode={mode}")


def _power(d: Draw) -> str:
    x = d.value("number")
    return d.pick(
        (f"{x} ** {d.pick((2, 3, 0.5, -1, -2, 0, 1, 2.5))}", f"torch.pow({d.scalar(x)}, {x})", f"{x}.square()")
    )


def _shift(d: Draw) -> str:
    x = d.value("integer")
    bits = DTYPES[d.dtype_name(x)].itemsize * 8
    name = d.pick(("bitwise_left_shift", "bitwise_right_shift"))
    amount = str(d.random.randrange(bits))
    if d.chance(0.5):
        amount = d.new(d.shape(x), d.dtype_name(x), lambda count: d.numbers.integers(0, bits, count))
    return d.pick((_called(d, name, x, amount), f"{x} << {amount}", f"{x} >> {amount}"))


def _clamp(d: Draw) -> str:
    x = d.value("ordered")
    way = d.random.randrange(6)
    low, high = d.scalar(x), d.scalar(x)
    if way == 0:
        return _called(d, d.pick(("clamp", "clip")), x, low, high)
    if way == 1:
        return _called(d, "clamp", x, d.pick((f"min={low}", f"max={high}")))
    if way == 2:
        return _called(d, "clamp", x, d.broadcast(x, "ordered"), d.broadcast(x, "ordered"))
    if way == 3:
        return _called(d, d.pick(("clamp_min", "clamp_max")), x, d.pick((low, d.broadcast(x, "ordered"))))
    if way == 4:
        return f"{x}.clamp_(min={low})"
    return _called(d, "clamp", x, d.pick(("min=", "max=")) + d.broadcast(x, "ordered"))


def _where(d: Draw) -> str:
    condition = d.value("bool")
    x = d.broadcast(condition)
    other = d.scalar(x) if d.chance(0.25) else d.broadcast(x)
    if d.chance(0.3):
        return f"{x}.where({condition}, {other})"
    return f"torch.where({condition}, {x}, {other})"


def _masked_fill(d: Draw) -> str:
    x = d.value()
    mask = d.broadcast(x, "bool")
    return (
        _called(d, "masked_fill", x, mask, d.scalar(x)) if d.chance(0.7) else f"{x}.masked_fill_({mask}, {d.scalar(x)})"
    )


def _lerp(d: Draw) -> str:
    x = d.value("float")
    weight = d.pick(("0.25", "1.5", "0.5", d.broadcast(x, "float")))
    return _called(d, "lerp", x, d.broadcast(x, "float"), weight)


def _fused(d: Draw) -> str:
    x = d.value("number")
    name = d.pick(("addcmul", "addcdiv"))
    value = d.pick(("", "value=2" if DTYPES[d.dtype_name(x)].kind in "iu" else "value=0.5"))
    y, z = d.broadcast(x, "number"), d.broadcast(x, "number")
    if d.chance(0.15):
        return f"{x}.{name}_({', '.join([part for part in (y, z, value) if part])})"
    return _called(d, name, x, y, z, value)


def _activation(name: str, forms: tuple[str, ...]) -> CallMaker:
    def form(d: Draw) -> str:
        x = d.value("float" if d.chance(0.9) else "any")
        arguments = d.pick(forms)
        return f"F.{name}({x}{', ' * bool(arguments)}{arguments})"

    return form


def _threshold(d: Draw) -> str:
    x = d.value("ordered")
    return f"torch.threshold({x}, {d.scalar(x)}, {d.scalar(x)})"


def _hardshrink(d: Draw) -> str:
    return f"torch.hardshrink({d.value('float')}{d.pick(('', ', 0.3', ', lambd=1.5'))})"


def _celu(d: Draw) -> str:
    return f"torch.celu({d.value('float')}{d.pick(('', ', alpha=2.0', ', 0.3'))})"


def _prelu(d: Draw) -> str:
    x = d.value("float")
    channels = d.shape(x)[1] if d.rank(x) > 1 else 1
    weight = d.new(d.pick(((1,), (channels,))), d.dtype_name(x))
    return _called(d, "prelu", x, weight)


def _nan_to_num(d: Draw) -> str:
    return _called(d, "nan_to_num", d.value("float"), d.pick(("nan=2.0", "0.5, 7.0, -7.0", "posinf=1.0, neginf=-1.0")))


def _round(d: Draw) -> str:
    return _called(d, "round", d.value("float"), f"decimals={d.pick((0, 1, 2, -1))}")


def _logit(d: Draw) -> str:
    return _called(d, "logit", d.value("float"), f"eps={d.pick((0.1, 1e-6, 0.4))}")


def _whole(d: Draw) -> str:
    x = d.value("any")
    return d.pick(
        (
            f"torch.equal({x}, {d.like(x)})",
            f"torch.allclose({x}, {d.like(x)})",
            f"torch.isclose({x}, {d.like(x)}, equal_nan=True)",
        )
    )


def _cast(d: Draw) -> str:
    x = d.value()
    dtype = d.pick(d.dtypes) if d.chance(0.5) else d.pick(tuple(DTYPES))
    short = {"float32": "float", "float64": "double", "float16": "half", "int64": "long", "int32": "int",
             "uint8": "byte",
             "int8": "char", "int16": "short", "bool": "bool", "bfloat16": "bfloat16"}  # fmt: skip
    ways = [f"{x}.to(torch.{dtype})", f"{x}.to(dtype=torch.{dtype})", f"{x}.type(torch.{dtype})"]
    return d.pick([*ways, f"{x}.{short[dtype]}()"] if dtype in short else ways)


def _copy(d: Draw) -> str:
    x = d.value()
    return d.pick(
        (f"{x}.copy_({d.broadcast(x)})", f"{x}.fill_({d.scalar(x)})", f"{x}.zero_()", f"{x}.type_as({d.value()})")
    )


def _tables() -> Mapping[str, CallMaker]:
    forms: dict[str, CallMaker] = {}
    for kind, names in _UNARY.items():
        forms.update({f"{name} {kind}": _unary(name, kind) for name in names.split()})
    for kind, names in _BINARY.items():
        forms.update({f"{name} {kind}": _binary(name, kind) for name in names.split()})
    forms.update({name: _activation(name, ways) for name, ways in _ACTIVATIONS.items()})
    return forms


POINTWISE: dict[str, CallMaker] = {
    **_tables(),
    "operator": _operator, "operator 2": _operator, "operator 3": _operator, "alpha": _alpha, "rounding": _rounding,
    "power": _power, "shift": _shift, "clamp": _clamp, "where": _where, "masked_fill": _masked_fill, "lerp": _lerp,
    "addcmul": _fused, "threshold": _threshold, "hardshrink": _hardshrink, "prelu": _prelu, "celu": _celu,
    "nan_to_num": _nan_to_num,
    "round decimals": _round, "logit eps": _logit, "equal": _whole, "cast": _cast, "cast 2": _cast, "copy_": _copy,
}  # fmt: skip
"""Forms by name; a form under several names is drawn more often."""
