"""How near two answers must be: as near as PyTorch's tests of an entry ask."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.testing.close import tolerances_of, unlike
from tools.fuzz.program import Array
from tools.fuzz.running import Outcome


class Judge:
    """Says of one array after the other, in the order of `values`, where it is near enough.

    Values beyond the tolerance are taken where they are as near to the exact ones as PyTorch's are: see `as_near`.
    """

    def __init__(self, stated: tuple[float, float], exact: list[Array]) -> None:
        self.stated = stated
        self.exact = iter(exact)

    def __call__(self, actual: Array, expected: Array) -> Any:
        """Where the next array agrees with the wanted one."""
        exact = next(self.exact, None)
        if expected.dtype.kind not in "fcV":
            return ~unlike(actual, expected)
        relative, absolute = [max(pair) for pair in zip(self.stated, tolerances_of(expected.dtype), strict=True)]
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        x, y = expected.astype(wide), actual.astype(wide)
        with np.errstate(all="ignore"):
            close = np.isclose(y, x, rtol=relative, atol=absolute, equal_nan=True)
            if exact is not None and exact.size == expected.size:
                close |= as_near(x, y, exact.astype(wide).reshape(x.shape), relative)
        return close


def arrays(outcome: Outcome | None, gradients: bool) -> list[Array]:
    """The arrays of an outcome in the order in which they are judged: results and storages, or gradients."""
    if outcome is None:
        return []
    if gradients:
        return [value.array for value in outcome.gradients if value is not None]
    return [*[value.array for value in outcome.values], *outcome.inputs]


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
