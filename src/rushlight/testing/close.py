"""Comparing tensors in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rushlight.eager.creation import as_tensor
from rushlight.eager.memory import array_of
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import DType, bfloat16, complex64, complex128, float16, float32, float64
from rushlight.support.errors import require

Array = NDArray[Any]
Message = str | Callable[[str], str] | None


class Tolerances(NamedTuple):
    """`|actual - expected| <= atol + rtol * |expected|`."""

    rtol: float
    atol: float


_TOLERANCES: dict[DType, Tolerances] = {
    float16: Tolerances(1e-3, 1e-5),
    bfloat16: Tolerances(1.6e-2, 1e-5),
    float32: Tolerances(1.3e-6, 1e-5),
    float64: Tolerances(1e-7, 1e-7),
    complex64: Tolerances(1.3e-6, 1e-5),
    complex128: Tolerances(1e-7, 1e-7),
}
EXACT = Tolerances(0.0, 0.0)


def tolerances_of(dtype: np.dtype[Any]) -> Tolerances:
    """The tolerances for values of a dtype of numpy; integers must be equal."""
    return next((tolerance for dtype_, tolerance in _TOLERANCES.items() if dtype_.numpy == dtype), EXACT)


def unlike(actual: Array, expected: Array) -> NDArray[np.bool_]:
    """Where two arrays of one shape and dtype differ in bits. All NaNs are alike; complex numbers go by parts."""
    if expected.dtype.kind == "c":
        return unlike(np.real(actual), np.real(expected)) | unlike(np.imag(actual), np.imag(expected))
    if expected.dtype.kind not in "fV":
        return np.asarray(actual != expected)
    one, other = [np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}") for array in (actual, expected)]
    apart = (one != other).reshape(expected.shape)
    return np.asarray(apart & ~(np.isnan(actual) & np.isnan(expected)))


class Options(NamedTuple):
    """What counts as close, besides the values."""

    tolerances: Tolerances | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise AssertionError unless two tensors, numbers, or sequences or mappings of them, are close.

    Shapes, dtypes and devices must be equal. Tolerances depend on the dtype unless both are given; integers must be
    equal.
    """
    require((rtol is None) == (atol is None), "A002", "assert_close: give both rtol and atol, or neither")
    given = None if rtol is None or atol is None else Tolerances(rtol, atol)
    options = Options(given, equal_nan, check_device, check_dtype, check_stride)
    difference = _difference(actual, expected, options, "")
    if difference is not None:
        text = difference if msg is None else msg(difference) if callable(msg) else msg
        raise AssertionError(text)


def _difference(actual: Any, expected: Any, options: Options, where: str) -> str | None:
    """Return what differs, or None."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return _mapping_difference(actual, expected, options, where)
    if _is_sequence(expected) and _is_sequence(actual):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        pairs = enumerate(zip(actual, expected, strict=True))
        parts = (_difference(one, other, options, f"{where}\nat item [{at}]") for at, (one, other) in pairs)
        return next((part for part in parts if part is not None), None)
    if not _are_numbers(actual, expected):
        if type(actual) is not type(expected):
            return f"Cannot compare {type(actual).__name__} and {type(expected).__name__}{where}"
        return None if actual == expected else f"{actual!r} and {expected!r} are not equal{where}"
    return _tensor_difference(as_tensor(actual), as_tensor(expected), options, where)


def _mapping_difference(
    actual: Mapping[object, object], expected: Mapping[object, object], options: Options, where: str
) -> str | None:
    if actual.keys() != expected.keys():
        missing, extra = (
            sorted(map(str, expected.keys() - actual.keys())),
            sorted(map(str, actual.keys() - expected.keys())),
        )
        return f"The keys of the mappings do not match: missing {missing}, additional {extra}{where}"
    parts = (_difference(actual[key], expected[key], options, f"{where}\nat item [{key!r}]") for key in expected)
    return next((part for part in parts if part is not None), None)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _are_numbers(actual: object, expected: object) -> bool:
    kinds = (int, float, complex, np.ndarray, np.generic)
    return all(isinstance(value, (Tensor, *kinds)) for value in (actual, expected))


def _tensor_difference(actual: Tensor, expected: Tensor, options: Options, where: str) -> str | None:
    if tuple(actual.shape) != tuple(expected.shape):
        return f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.{where}"
    for name, checked in (("device", options.check_device), ("dtype", options.check_dtype)):
        if checked and getattr(actual, name) != getattr(expected, name):
            values = f"{getattr(actual, name)} != {getattr(expected, name)}"
            return f"The values for attribute '{name}' do not match: {values}.{where}"
    if options.check_stride and actual.stride() != expected.stride():
        return f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}.{where}"
    pair = [_TOLERANCES.get(tensor.dtype, EXACT) for tensor in (actual, expected)]
    tolerances = options.tolerances or Tolerances(*[max(values) for values in zip(*pair, strict=True)])
    return _value_difference(_wide(actual), _wide(expected), tolerances, options.equal_nan, where)


def _wide(tensor: Tensor) -> Array:
    array = array_of(tensor.detach())
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def _value_difference(
    actual: Array, expected: Array, tolerances: Tolerances, equal_nan: bool, where: str
) -> str | None:
    with np.errstate(all="ignore"):
        apart = np.abs(actual.astype(object) - expected.astype(object)) if _may_overflow(actual, expected) else None
        distance = np.abs(actual - expected) if apart is None else apart.astype(np.float64)
        limit = tolerances.atol + tolerances.rtol * np.abs(expected)
        close = (actual == expected) | (np.isfinite(expected) & (distance <= limit))
        if equal_nan:
            close |= np.isnan(actual) & np.isnan(expected)
        if bool(np.all(close)):
            return None
        relative = np.where(expected == 0, np.inf, distance / np.abs(expected))
    wrong = ~close
    if not expected.shape:
        kind = "Scalars" if tolerances == EXACT else "Scalars are not close!\n\nExpected"
        return f"{kind} {expected.item()} but got {actual.item()}.{where}"
    title = "Tensor-likes are not equal!" if tolerances == EXACT else "Tensor-likes are not close!"
    return (
        f"{title}\n\nMismatched elements: {wrong.sum()} / {wrong.size} ({wrong.mean():.1%})\n"
        f"{_greatest('absolute', distance, wrong, tolerances.atol)}\n"
        f"{_greatest('relative', relative, wrong, tolerances.rtol)}{where}"
    )


def _may_overflow(actual: Array, expected: Array) -> bool:
    return actual.dtype.kind in "biu" or expected.dtype.kind in "biu"


def _greatest(kind: str, values: Array, wrong: Array, allowed: float) -> str:
    """Return the line of the largest mismatch; a NaN is larger than all."""
    ranked = np.where(wrong, np.where(np.isnan(values), np.inf, values), -1.0)
    index = tuple([int(at) for at in np.unravel_index(int(np.argmax(ranked)), ranked.shape)])
    limit = f" (up to {allowed} allowed)" if allowed else ""
    return f"Greatest {kind} difference: {float(values[index])} at index {index}{limit}"
