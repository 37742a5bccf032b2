"""What is known of the values of an index before it is computed: an index that is in range anyway is not checked."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rushlight.ir.dtype import DType, Kind, integer_limits
from rushlight.ir.graph import NUMBER, PARAMETER, RELAYOUT, RESULT, Call
from rushlight.ops.record import OPERATORS, Fact
from rushlight.sym import Size, ceildiv, eq, le, maximum, minimum, product, statically_known
from rushlight.term import Op

Bounds = tuple[Size, Size]
"""The least value that an element may have, and the number above the largest."""

_DEPTH = 16  # calls that are looked through


def is_within(index: Call, low: Size, high: Size) -> bool:
    """Whether all elements of an index are known to be in [low, high)."""
    bounds = bounds_of(index)
    return bounds is not None and statically_known(le(low, bounds[0])) and statically_known(le(bounds[1], high))


def bounds_of(call: Call, depth: int = _DEPTH) -> Bounds | None:
    """The bounds of a value's elements; None where nothing is known."""
    if isinstance(call.type, tuple) or not depth:
        return None
    found: Bounds | None = None
    if call.op is RESULT:
        rule = _RESULTS.get(call.operands[0].op)
        found = None if rule is None else rule(call.operands[0], depth) if call.attr("index") == 1 else None
    elif call.op is not PARAMETER:
        rule = _RULES.get(call.op) or (_of_operand if _hands_on(call) else None)
        found = None if rule is None else rule(call, depth)
    return found or _of_dtype(call.type.dtype)


def _of_dtype(dtype: DType) -> Bounds | None:
    if dtype.kind is Kind.BOOL:
        return 0, 2
    if dtype.kind is not Kind.INT:
        return None
    least, greatest = integer_limits(dtype)
    return least, greatest + 1


def _hands_on(call: Call) -> bool:
    """Whether a call's elements are elements of its first operand."""
    facts = getattr(call.op, "facts", Fact.NONE)
    return call.op is RELAYOUT or (Fact.VIEW in facts and Fact.STRIDED not in facts)


def _of_operand(call: Call, depth: int) -> Bounds | None:
    base = call.operands[0]
    if not isinstance(base, Call) or base.type.dtype is not call.type.dtype:
        return None
    return bounds_of(base, depth - 1)


def _of_number(operand: object) -> int | None:
    value = operand.attr("value") if isinstance(operand, Call) and operand.op is NUMBER else None
    return value if isinstance(value, int) else None


def _of_size(operand: object) -> Size | None:
    """A number, or a size as a value."""
    if isinstance(operand, Call) and operand.op is OPERATORS["from_size"]:
        return operand.attr("size")
    return _of_number(operand)


def _number(call: Call, depth: int) -> Bounds | None:
    value = _of_size(call)
    return None if value is None else (value, value + 1)


def _converted(call: Call, depth: int) -> Bounds | None:
    """Of a conversion that changes no value."""
    base = call.operands[0]
    if base.type.dtype.kind not in (Kind.BOOL, Kind.INT):
        return None
    inner, target = bounds_of(base, depth - 1), _of_dtype(call.type.dtype)
    if inner is None or target is None:
        return None
    return inner if statically_known(le(target[0], inner[0])) and statically_known(le(inner[1], target[1])) else None


def _place_along_dim(call: Call, depth: int) -> Bounds:
    shape, dim = call.operands[0].type.shape, call.attr("dim")
    return 0, product(shape) if dim is None or not shape else shape[dim]


def _place(call: Call, depth: int) -> Bounds:
    return 0, product(call.operands[0].type.shape)


def _counted(call: Call, depth: int) -> Bounds | None:
    step: object = call.attr("step")
    return (call.attr("start"), call.attr("end")) if isinstance(step, int) and step > 0 else None


def _remainder(call: Call, depth: int) -> Bounds | None:
    divisor = _of_size(call.operands[1])
    return None if divisor is None or not statically_known(le(1, divisor)) else (0, divisor)


def _quotient(call: Call, depth: int) -> Bounds | None:
    divisor, inner = _of_size(call.operands[1]), bounds_of(call.operands[0], depth - 1)
    if divisor is None or inner is None or inner[0] != 0:
        return None
    quotient = ceildiv(inner[1], divisor)
    # Where the divisor may be 0, the numbers below a multiple of it are none then.
    divides = statically_known(le(1, divisor)) or statically_known(eq(quotient * divisor, inner[1]))
    return (0, quotient) if divides else None


def _rest(call: Call, depth: int) -> Bounds | None:
    """Of `a - a // b * b`."""
    number, multiple, factor = call.operands
    if factor is not None or multiple.op is not OPERATORS["mul"]:
        return None
    quotient, divisor = multiple.operands[0], _of_size(multiple.operands[1])
    if divisor is None or quotient.op is not OPERATORS["floor_divide"] or quotient.operands[0] is not number:
        return None
    same = _of_size(quotient.operands[1]) == divisor
    return (0, divisor) if same and _quotient(quotient, depth) is not None else None


def _masked(call: Call, depth: int) -> Bounds | None:
    mask = _of_number(call.operands[1])
    return None if mask is None or mask < 0 else (0, mask + 1)


def _clamped(call: Call, depth: int) -> Bounds | None:
    least, largest = (_of_number(operand) for operand in call.operands[1:3])
    return None if least is None or largest is None or least > largest else (least, largest + 1)


def _filled(call: Call, depth: int) -> Bounds | None:
    return bounds_of(call.operands[0], depth - 1)


def _least(call: Call, depth: int) -> Bounds | None:
    one, other = (bounds_of(operand, depth - 1) for operand in call.operands)
    return None if one is None or other is None else (minimum(one[0], other[0]), minimum(one[1], other[1]))


def _joined(call: Call, depth: int) -> Bounds | None:
    found = [bounds_of(part, depth - 1) for part in call.operands[0]]
    known = [bounds for bounds in found if bounds is not None]
    if len(known) < len(found) or not known:
        return None
    lows, highs = zip(*known, strict=True)
    return functools.reduce(minimum, lows), functools.reduce(maximum, highs)


def _largest(call: Call, depth: int) -> Bounds | None:
    one, other = (bounds_of(operand, depth - 1) for operand in call.operands)
    return None if one is None or other is None else (maximum(one[0], other[0]), maximum(one[1], other[1]))


Rule = Callable[[Call, int], "Bounds | None"]
_NAMED: dict[str, Rule] = {
    "arange": _counted,
    "argmax": _place_along_dim,
    "argmin": _place_along_dim,
    "argsort": _place_along_dim,
    "bitwise_and": _masked,
    "clamp": _clamped,
    "cat": _joined,
    "clone": _of_operand,
    "flatnonzero": _place,
    "floor_divide": _quotient,
    "from_size": _number,
    "full": _filled,
    "gather": _of_operand,
    "index": _of_operand,
    "maximum": _largest,
    "minimum": _least,
    "remainder": _remainder,
    "reshape": _of_operand,
    "stack": _joined,
    "sub": _rest,
    "to_dtype": _converted,
}
_RULES: dict[Op, Rule] = {NUMBER: _number, **{OPERATORS[name]: rule for name, rule in _NAMED.items()}}
_RESULTS: dict[Op, Rule] = {OPERATORS[name]: _place_along_dim for name in ("max.dim", "min.dim")}
