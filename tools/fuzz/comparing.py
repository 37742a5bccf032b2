"""What differs between two outcomes, in one line, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from rushlight.testing.close import unlike
from tools.fuzz.program import Array, Input
from tools.fuzz.running import Outcome, Value

Judge = Callable[[Array, Array], Any]
"""Whether an array (the first) agrees with the wanted one, of the same shape and dtype: at all, or where it does."""

CATEGORIES = ("raw", "refused", "accepted", "kind", "dtype", "shape", "value")
"""What a difference is about."""


_SHOWN = 16


def same_bits(actual: Array, expected: Array) -> bool:
    """Whether two arrays have the same bits, but that any NaN is like another."""
    return actual.tobytes() == expected.tobytes() or not np.any(unlike(actual, expected))


def near(actual: Array, expected: Array) -> bool:
    """Whether arrays are the same but for the last bits of sums of floats."""
    if expected.dtype.kind != "f":
        return same_bits(actual, expected)
    scale = float(np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected)))
    return bool(np.allclose(actual, expected, rtol=1e-5, atol=1e-6 * scale, equal_nan=True))


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
    close = np.asarray(agrees(actual.array, expected.array))
    if np.all(close):
        return None
    if not close.ndim or close.size <= _SHOWN:
        return f"{actual.array.tolist()}, wanted {expected.array.tolist()}"
    at = tuple([int(index) for index in np.argwhere(~close)[0]])
    pair = f"{actual.array[at]!r}, wanted {expected.array[at]!r}"
    return f"{int(np.sum(~close))} of {close.size} elements, first at {list(at)}: {pair}"


def category_of(detail: str) -> str:
    """What a difference in words is about: one of CATEGORIES."""
    told = re.sub(r"^(result|gradient) \d+: ", "", detail)
    return next((category for category in CATEGORIES if re.match(rf"{category}\b", told)), "value")


def storages_difference(actual: Sequence[Array], expected: Sequence[Array], agrees: Judge) -> str | None:
    """How the storages of inputs after a run differ."""
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        if not np.all(agrees(one, other)):
            return f"storage of input {index} after the run: {one.tolist()}, wanted {other.tolist()}"
    return None


def _head(message: str) -> str:
    return message.partition("\n")[0][:200]


def steps_of(value: Value | Input) -> list[int]:
    """The strides of dims of several indices."""
    return [stride for size, stride in zip(value.shape, value.strides, strict=True) if size > 1]
