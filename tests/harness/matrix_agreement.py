"""When a result agrees with its operator's meaning: `ref` in the next wider float, and how far from it a result may be.

Integers, bools and results that only move elements are exact; pointwise results are within 4 units in the last place;
others within 4 * sqrt(n) * eps * (|result| + sum of |terms|). The terms of a composite are found by its sensitivity:
how far the meaning moves when the operands are changed by some share, which bounds what a backward-stable computation
may lose.
"""

import contextlib
import dataclasses
from typing import Any

import numpy as np

import rushlight.ir.dtype as dtypes
from matrix_cases import FLOATS, Arguments, map_arrays, reference
from rushlight.ir.dtype import BY_NAME, DType, Kind, from_numpy_dtype
from rushlight.ops.record import Fact, Operator

ULPS = 4
WIDER = {
    "float16": "float32",
    "bfloat16": "float64",  # float32 has no wider range
    "float32": "float64",
    "float64": "float64",  # as long double, see `with_long_doubles`
    "complex64": "complex128",
    "complex128": "complex128",
}
LONG_DOUBLES = {"float64": np.longdouble, "complex128": np.clongdouble}


@contextlib.contextmanager
def with_long_doubles():
    """float64 stands for numpy's long double: the next wider float that rules written for our dtypes can compute in."""
    kept = {name: BY_NAME[name].numpy for name in LONG_DOUBLES}
    try:
        for name, wide in LONG_DOUBLES.items():
            BY_NAME[name].numpy = np.dtype(wide)
            dtypes._BY_NUMPY[np.dtype(wide)] = BY_NAME[name]
        yield
    finally:
        for name, wide in LONG_DOUBLES.items():
            BY_NAME[name].numpy = kept[name]
            del dtypes._BY_NUMPY[np.dtype(wide)]


def widened(arguments: Arguments, result: DType) -> Arguments:
    """Arguments in the next wider float, dtypes among the attributes included.

    Integers go along where the result is a float, once rounded to it as the operator does.
    """

    def widen(leaf):
        dtype = from_numpy_dtype(leaf.array.dtype)
        if leaf.role != "data":
            return leaf.array
        with np.errstate(all="ignore"):
            if dtype.name in WIDER:
                return leaf.array.astype(BY_NAME[WIDER[dtype.name]].numpy)
            if result.kind is Kind.FLOAT:
                return leaf.array.astype(result.numpy).astype(BY_NAME[WIDER[result.name]].numpy)
        return leaf.array

    attrs = {
        name: BY_NAME[WIDER[value.name]] if isinstance(value, DType) and value.name in WIDER else value
        for name, value in arguments.attrs.items()
    }
    return dataclasses.replace(map_arrays(arguments, widen), attrs=attrs)


@dataclasses.dataclass
class Expected:
    """What a result has to be: `values` in a wide dtype, and `slack`, the distance allowed at each element."""

    values: Any
    slack: Any


def expected_results(op: Operator, arguments: Arguments, results: tuple) -> list[Expected]:
    """Values and distances for results of these types."""
    plain = reference(op, arguments)
    if all(type_.dtype.kind <= Kind.INT for type_ in results):
        return [Expected(item, None) for item in plain]
    floats = [type_.dtype for type_ in results if type_.dtype.kind >= Kind.FLOAT]
    # Random numbers of another dtype are others, and so are the bytes that a view shows.
    fixed = Fact.RANDOM in op.facts or Fact.VIEW in op.facts
    wide_arguments = arguments if fixed else widened(arguments, floats[0])
    wide = plain if fixed else _wide_reference(op, wide_arguments)
    # Of three operands, one is added to what is made of the others: the terms count, not the sum.
    elementwise = Fact.POINTWISE in op.facts and len(op.schema.operands) < 3
    scales = None if elementwise else magnitudes(op, wide_arguments, wide)
    inputs = _input_values(arguments)
    found = []
    for at, type_ in enumerate(results):
        if type_.dtype.kind <= Kind.INT:
            found.append(Expected(plain[at], None))
        elif _only_moves(wide[at], inputs):
            found.append(Expected(wide[at], _rounding(wide[at], type_.dtype)))
        elif scales is None:
            found.append(Expected(wide[at], ULPS * ulp(wide[at], type_.dtype)))
        else:
            slack = _reduction_slack(arguments, wide[at], scales[at], type_.dtype)
            found.append(Expected(wide[at], np.maximum(slack, ULPS * ulp(wide[at], type_.dtype))))
    return found


def _wide_reference(op, arguments):
    with with_long_doubles():
        try:
            return reference(op, arguments)
        except Exception:  # a rule that numpy's long double is too strange for
            pass
    return reference(op, arguments)


def _input_values(arguments):
    found = [np.zeros(1)]
    for leaf in arguments.leaves("data"):
        wide = np.clongdouble if leaf.array.dtype.kind == "c" else np.longdouble
        found.append(leaf.array.reshape(-1).astype(wide))
    return np.concatenate(found)


def _only_moves(values, inputs):
    """Whether every element of a result is one of the operands', or 0."""
    if values.size == 0 or values.dtype.kind not in "fcgG":
        return False
    flat = values.reshape(-1)
    flat = flat[~np.isnan(flat)]
    return bool(flat.size) and bool(np.isin(flat, inputs).all())


def _rounding(values, dtype):
    """Half a unit in the last place where a value is not one of the dtype's."""
    wide = np.clongdouble if values.dtype.kind in "cG" else np.longdouble
    with np.errstate(all="ignore"):
        exact = (values.astype(dtype.numpy).astype(wide) == values) | ~np.isfinite(values)
        return np.where(exact, 0, ulp(values, dtype) / 2)


def _reduction_slack(arguments, values, scale, dtype):
    terms = max([leaf.array.size for leaf in arguments.leaves("data")], default=1)
    name = dtypes.real_dtype(dtype).name
    eps = 2.0 ** -FLOATS[name][0]
    with np.errstate(all="ignore"):
        slack = ULPS * np.sqrt(max(1, terms)) * eps * (np.abs(values).astype(np.float64) + scale)
        return np.where(np.isfinite(slack), slack, 0.0) + ULPS * np.sqrt(max(1, terms)) * 2.0 ** (
            FLOATS[name][1] - FLOATS[name][0]
        )


def magnitudes(op: Operator, arguments: Arguments, wide: tuple) -> list:
    """The sum of |terms| behind each element: by absolute operands for reductions, and by sensitivity for all."""
    rng = np.random.default_rng(7)
    share = 1e-6
    with np.errstate(all="ignore"):
        scales = [np.zeros(item.shape) for item in wide]
        for _ in range(3):
            moved = _reference_or_none(op, map_arrays(arguments, lambda leaf: _moved(leaf, rng, share)))
            for scale, item, other in zip(scales, wide, moved or (), strict=False):
                if item.dtype.kind not in "biu" and item.shape == other.shape:
                    distance = np.abs(other.astype(_widest(item)) - item) / share
                    np.maximum(scale, np.nan_to_num(distance.astype(np.float64), nan=0.0, posinf=0.0), out=scale)
        if op.decompose_rule is not None and op.lower_rule is None:
            largest = _largest(arguments)
            for scale in scales:
                scale += largest
        if Fact.REDUCTION in op.facts:
            absolute = _reference_or_none(op, map_arrays(arguments, _absolute))
            for scale, item in zip(scales, absolute or (), strict=False):
                if item.shape == scale.shape:
                    scale += np.nan_to_num(np.abs(item).astype(np.float64), nan=0.0, posinf=0.0)
    return scales


def _largest(arguments):
    """The largest finite magnitude among the operands: a composite's first steps may leave rounding of its size."""
    flat = [np.abs(leaf.array.reshape(-1)).astype(np.float64) for leaf in arguments.leaves("data")]
    return max([float(np.max(item, where=np.isfinite(item), initial=0.0)) for item in flat], default=0.0)


def _widest(array):
    return np.clongdouble if array.dtype.kind in "cG" else np.longdouble


def _reference_or_none(op, arguments):
    try:
        return reference(op, arguments)
    except (TypeError, ValueError, ArithmeticError, IndexError):
        return None


def _moved(leaf, rng, share):
    if leaf.role != "data" or leaf.array.dtype.kind in "biu":
        return leaf.array
    return (leaf.array * (1 + share * rng.choice([-1.0, 1.0], leaf.array.shape))).astype(leaf.array.dtype)


def _absolute(leaf):
    return np.abs(leaf.array).astype(leaf.array.dtype) if leaf.role == "data" else leaf.array


def ulp(values, dtype):
    """The distance between neighbours of `dtype` at each value."""
    digits, least, _ = FLOATS[dtypes.real_dtype(dtype).name]
    with np.errstate(all="ignore"):
        size = np.abs(values).astype(np.longdouble)
        _, exponent = np.frexp(np.where(np.isfinite(size), size, 0))
    return np.ldexp(np.longdouble(1.0), np.maximum(exponent - 1, least) - digits)


def disagreement(actual, expected: Expected, dtype: DType) -> str | None:
    """How a result differs from what it should be, at the worst element; None if it agrees."""
    values = expected.values
    if actual.shape != values.shape:
        return f"shape {actual.shape}, ref has {values.shape}"
    if dtype.kind <= Kind.INT:
        wrong = np.asarray(actual != values)
        return _worst(actual, values, wrong, wrong.astype(float))
    if dtype.kind is Kind.COMPLEX:
        wide = values.astype(np.clongdouble)
        for name, part in (("real", np.real), ("imag", np.imag)):
            found = _float_disagreement(part(actual), part(wide), expected.slack, dtypes.real_dtype(dtype))
            if found is not None:
                return f"{name} part: {found}"
        return None
    return _float_disagreement(actual, values, expected.slack, dtype)


def wrong_zeros(actual, expected: Expected) -> str | None:
    """Where a zero has another sign than the one in `ref`; None if they agree."""
    wide = np.asarray(actual).astype(np.longdouble)
    target = np.asarray(expected.values).astype(np.longdouble)
    wrong = (target == 0) & (wide == 0) & (np.signbit(wide) != np.signbit(target))
    return _worst(actual, expected.values, wrong, np.ones(wrong.shape))


def _float_disagreement(actual, values, slack, dtype):
    with np.errstate(all="ignore"):
        wide = np.asarray(actual).astype(np.longdouble)
        target = np.asarray(values).astype(np.longdouble)
        digits, _, top = FLOATS[dtype.name]
        largest = np.longdouble(2 - 2.0**-digits) * np.longdouble(2.0) ** top
        # A value that rounds to infinity, give or take the slack, may be infinite or the largest one.
        over = np.isfinite(target) & (np.abs(target) + slack > largest)
        distance = np.abs(wide - target)
        close = (wide == target) | (np.isfinite(wide) & (distance <= slack)) | (np.isnan(wide) & np.isnan(target))
        close |= over & (np.sign(wide) == np.sign(target)) & (np.abs(wide) >= largest)
        infinite = np.isinf(target) & (wide == target)
        wrong = ~(close | infinite)
        return _worst(actual, values, wrong, distance / np.maximum(slack, np.finfo(np.float64).tiny))


def _worst(actual, values, wrong, distance):
    wrong = np.asarray(wrong)
    if not wrong.any():
        return None
    ranked = np.where(wrong, np.nan_to_num(np.asarray(distance, np.float64), nan=np.inf, posinf=np.inf), -1)
    place = tuple(int(at) for at in np.unravel_index(int(np.argmax(ranked)), wrong.shape))
    found, wanted = np.asarray(actual)[place], np.asarray(values)[place]
    return f"{int(wrong.sum())} of {wrong.size} elements, worst at {place}: {found!r} instead of {wanted!r}"


def same_bits(actual, expected) -> str | None:
    """How two arrays differ in any bit, NaNs aside; None if they do not."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    one, other = np.ascontiguousarray(actual), np.ascontiguousarray(expected)
    if one.dtype.kind == "c":
        real = np.float32 if one.dtype.itemsize == 8 else np.float64
        shape = (*one.shape, 2)
        one = one.reshape(-1).view(real).reshape(shape)
        other = other.reshape(-1).view(real).reshape(shape)
    whole = np.dtype(f"u{one.dtype.itemsize}")
    wrong = one.reshape(-1).view(whole).reshape(one.shape) != other.reshape(-1).view(whole).reshape(one.shape)
    if one.dtype.kind not in "biu":
        wrong &= ~(np.isnan(one) & np.isnan(other))
    return _worst(one, other, wrong, np.ones(one.shape))
