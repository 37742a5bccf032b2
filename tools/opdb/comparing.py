"""Whether two outcomes agree, and how they differ."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.support.errors import InternalError, RushlightError
from tools.opdb.calls import Array, Name, Outcome


@dataclass(frozen=True)
class Tolerance:
    """Largest difference between two values: `absolute + relative * |wanted|`.

    `defaults`: at least what PyTorch's tests allow for the result's dtype; without, 0 and 0 ask for the same bits.
    """

    relative: float
    absolute: float
    defaults: bool = False

    def of(self, dtype: str) -> Tolerance:
        """The tolerance for results of a dtype."""
        if not self.defaults:
            return self
        relative, absolute = DEFAULTS.get(dtype, (0.0, 0.0))
        return Tolerance(max(self.relative, relative), max(self.absolute, absolute), True)


EXACT = Tolerance(0.0, 0.0)
# Those of `torch.testing.assert_close`.
DEFAULTS = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Difference:
    """How an outcome differs: in `value`, `shape`, `dtype`, or by an error (`raw`, `registered`)."""

    category: str
    detail: str


def wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values in the widest dtype of their kind."""
    if values.dtype.kind in "biu":
        return values.astype(object) if values.dtype.kind in "iu" else values
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def unequal(wanted: Array, given: Array, tolerance: Tolerance, exact: Array | None) -> str | None:
    """Where two arrays of one shape and dtype differ, or None.

    Values beyond the tolerance are taken where they are as near to `exact` as `wanted` is: see `as_near`.
    """
    a, b = wanted.values(), given.values()
    with np.errstate(all="ignore"):
        if a.dtype.kind in "biu" or tolerance == EXACT:
            close = same_bits(a, b)
        else:
            x, y = wide(a), wide(b)
            close = np.isclose(y, x, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True)
            if exact is not None and exact.shape == wanted.shape:
                close |= as_near(x, y, wide(exact.values()), tolerance.relative)
    if bool(np.all(close)):
        return None
    position = tuple(int(index) for index in np.argwhere(~close)[0]) if close.ndim else ()
    text = f"at {list(position)}: {b[position]!r}, expected {a[position]!r}"
    return f"{text} ({int(np.sum(~close))} of {close.size})"


def as_near(x: Any, y: Any, z: Any, relative: float) -> Any:
    """Which elements of `y` are no further from the exact `z` than twice what `x` is, but for the tolerance.

    Where exact values are of one magnitude, as sums over random numbers are, the largest error of `x` counts for all.
    """
    error = np.abs(x - z)
    size = np.abs(z)
    finite = size[np.isfinite(size) & np.isfinite(error)]
    if finite.size and float(finite.max()) <= 1000 * float(np.median(finite)):
        error = np.maximum(error, np.max(error[np.isfinite(error)]))
    return np.abs(y - z) <= 2 * error + size * relative


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which elements have the same bits; any NaN equals any NaN."""
    if a.dtype.kind in "biu":
        return np.asarray(a == b)
    if a.dtype.kind == "c":
        return np.asarray(same_bits(a.real, b.real) & same_bits(a.imag, b.imag))
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)))


def difference(wanted: Any, given: Any, tolerance: Tolerance, exact: Any = None) -> Difference | None:
    """How one result differs from what is wanted."""
    if isinstance(wanted, Array) != isinstance(given, Array):
        return Difference("type", f"{kind(given)}, expected {kind(wanted)}")
    if not isinstance(wanted, Array):
        return plain_difference(wanted, given, tolerance)
    if wanted.shape != given.shape:
        return Difference("shape", f"{list(given.shape)}, expected {list(wanted.shape)}")
    if wanted.dtype != given.dtype:
        return Difference("dtype", f"{given.dtype}, expected {wanted.dtype}")
    text = unequal(wanted, given, tolerance.of(wanted.dtype), exact if isinstance(exact, Array) else None)
    return Difference("value", text) if text else None


def kind(value: Any) -> str:
    """What a result is."""
    return "a tensor" if isinstance(value, Array) else "None" if value is None else type(value).__name__


def plain_difference(wanted: Any, given: Any, tolerance: Tolerance) -> Difference | None:
    """How a result that is no tensor differs."""
    if isinstance(wanted, (Name, str)) or wanted is None:
        return None if wanted == given else Difference("value", f"{given!r}, expected {wanted!r}")
    if type(wanted) is not type(given):
        return Difference("type", f"{type(given).__name__}, expected {type(wanted).__name__}")
    if isinstance(wanted, (bool, int)):
        return None if wanted == given else Difference("value", f"{given!r}, expected {wanted!r}")
    if isinstance(wanted, (float, complex)):
        near = np.isclose(given, wanted, rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True)
        return None if bool(near) else Difference("value", f"{given!r}, expected {wanted!r}")
    return None


def differences(
    wanted: list[Any], given: list[Any], tolerance: Tolerance, exact: list[Any] | None = None
) -> Difference | None:
    """The first difference between two lists of results."""
    if len(wanted) != len(given):
        return Difference("shape", f"{len(given)} results, expected {len(wanted)}")
    known = exact if exact is not None and len(exact) == len(wanted) else [None] * len(wanted)
    for position, (a, b, c) in enumerate(zip(wanted, given, known, strict=True)):
        text = difference(a, b, tolerance, c)
        if text is not None:
            return Difference(text.category, f"{position}: {text.detail}" if len(wanted) > 1 else text.detail)
    return None


def error_of(outcome: Outcome) -> Difference | None:
    """The outcome's error: with a registered code, of binding arguments, or raw."""
    error = outcome.error
    if error is None:
        return None
    first = f"{type(error).__name__} {str(error).splitlines()[0] if str(error) else ''}"[:240]
    if isinstance(error, RushlightError) and not isinstance(error, InternalError):
        return Difference("registered", f"{error.code} {first}")
    frames = traceback.extract_tb(error.__traceback__)
    where = frames[-1] if frames else None
    if isinstance(error, TypeError) and where is not None and "/rushlight/" not in where.filename:
        return Difference("registered", f"binding {first}")
    line = f" ({where.filename.rsplit('/rushlight/', 1)[-1]}:{where.lineno} {where.name})" if where else ""
    return Difference("raw", first + line)
