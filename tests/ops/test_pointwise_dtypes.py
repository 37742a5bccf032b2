"""Pointwise operators in every dtype they accept: loops agree with meaning, and the types are those that meta says."""

import numpy as np
import pytest

from opcheck import NUMBERS, World, outputs_of, samples_of
from rushlight.ir.dtype import BY_NAME, Kind
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact, Sample
from rushlight.support.errors import ArgumentRuntimeError, DTypeError

OPS = sorted(name for name, op in OPERATORS.items() if Fact.POINTWISE in op.facts and op.lower_rule)
OPS = [name for name in OPS if OPERATORS[name].dtypes != "complex"]
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64")
STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}
STEPS |= {"complex64": STEPS["float32"], "complex128": STEPS["float64"]}
# Beside their roots, the error of functions that oscillate is small beside their amplitude, not beside their value.
OSCILLATING = frozenset(f"special_{name}" for name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"))


def converted(item, dtype):
    if type(item) in NUMBERS or not isinstance(item, np.ndarray) or item.dtype.kind in "bc":
        return item
    with np.errstate(all="ignore"):
        return (np.abs(item) if dtype.kind is Kind.INT and not dtype.signed else item).astype(dtype.numpy)


def close(actual, expected, what, amplitude):
    kind = expected.dtype.kind
    if kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    step = STEPS["bfloat16" if kind == "V" or expected.dtype.name == "bfloat16" else expected.dtype.name]
    wide = np.complex128 if kind == "c" else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    np.testing.assert_allclose(a, b, rtol=4 * step, atol=step * amplitude, err_msg=what, equal_nan=True)


@pytest.mark.generated
@pytest.mark.parametrize("name", OPS)
def test_loops_agree_with_meaning_in_every_dtype(name):
    op = OPERATORS[name]
    amplitude = 1.0 if name in OSCILLATING else 1e-3
    accepted = 0
    for dtype_name in DTYPES:
        dtype = BY_NAME[dtype_name]
        for _, sample in samples_of(op):
            given = Sample(*[converted(item, dtype) for item in sample.args], **sample.kwargs)
            with np.errstate(all="ignore"):
                try:
                    _, _, meaning = World("ref").run(op, given)
                except (DTypeError, ArgumentRuntimeError):
                    continue
                _, _, found = World("lower").run(op, given)
            accepted += 1
            for actual, expected in zip(outputs_of(found), outputs_of(meaning), strict=True):
                assert actual.dtype is expected.dtype
                close(np.asarray(actual.array), np.asarray(expected.array), f"{name} of {dtype_name}", amplitude)
    assert accepted


def test_all_families_are_here():
    assert {"add", "eq", "logical_and", "exp", "clamp", "where", "gelu", "to_dtype", "bitwise_and"} <= set(OPS)
