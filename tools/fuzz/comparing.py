"""What differs between two outcomes, in one line, or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np

from tools.fuzz.program import Array
from tools.fuzz.running import Outcome, Value

Judge = Callable[[Array, Array], bool]
"""Whether an array (the first) agrees with the wanted one, of the same shape and dtype."""


def same_bits(actual: Array, expected: Array) -> bool:
    """Whether two arrays have the same bits, but that any NaN is like another."""
    if actual.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind in "biu":
        return False
    parts = [(np.real(array), np.imag(array)) if array.dtype.kind == "c" else (array,) for array in (actual, expected)]
    for one, other in zip(*parts, strict=True):
        unlike = _bits(one) != _bits(other)
        if np.any(unlike & ~(np.isnan(one) & np.isnan(other))):
            return False
    return True


def difference(actual: Outcome, expected: Outcome, agrees: Judge = same_bits) -> str | None:
    """How an outcome differs from the wanted one: error, results, inputs after the run, gradients; strides do not."""
    if actual.error is not None or expected.error is not None:
        return error_difference(actual, expected)
    return (
        values_difference("result", actual.values, expected.values, agrees)
        or storages_difference(actual.inputs, expected.inputs, agrees)
        or values_difference("gradient", actual.gradients, expected.gradients, agrees)
    )


def error_difference(actual: Outcome, expected: Outcome) -> str | None:
    """Whether one of two runs raised and the other did not, or this one a raw error of Python."""
    if actual.error is not None and actual.code is None:
        return f"raw {actual.error}: {_head(actual.message)}"
    if expected.error is None and actual.error is not None:
        return f"refused, {actual.error} {actual.code}: {_head(actual.message)}"
    if expected.error is not None and actual.error is None:
        return f"accepted, wanted {expected.error}: {_head(expected.message)}"
    return None


def values_difference(
    what: str, actual: Sequence[Value | None], expected: Sequence[Value | None], agrees: Judge
) -> str | None:
    """How the first of the values that differ does."""
    if len(actual) != len(expected):
        return f"{len(actual)} {what}s, wanted {len(expected)}"
    for index, (one, other) in enumerate(zip_longest(actual, expected)):
        if one is None or other is None:
            if one is not other:
                return f"{what} {index} is {'None' if one is None else 'given'}, wanted the contrary"
            continue
        found = value_difference(one, other, agrees)
        if found is not None:
            return f"{what} {index}: {found}"
    return None


def value_difference(actual: Value, expected: Value, agrees: Judge) -> str | None:
    """How a value differs from the wanted one."""
    for what in ("kind", "dtype", "shape"):
        one, other = getattr(actual, what), getattr(expected, what)
        if one != other:
            return f"{what} {one}, wanted {other}"
    if agrees(actual.array, expected.array):
        return None
    return f"{actual.array.tolist()}, wanted {expected.array.tolist()}"


def storages_difference(actual: Sequence[Array], expected: Sequence[Array], agrees: Judge) -> str | None:
    """How the storages of inputs after a run differ."""
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if not agrees(one, other):
            return f"storage of input {index} after the run: {one.tolist()}, wanted {other.tolist()}"
    return None


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _head(message: str) -> str:
    return message.partition("\n")[0][:200]
