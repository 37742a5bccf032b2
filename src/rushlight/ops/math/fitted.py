"""Polynomials of scaled arguments, and functions that are computed in float64 for float32 too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.ir.dtype import float64
from rushlight.ir.scalar import Scalar, cast, fma
from rushlight.ops.math.core import like, polynomial
from rushlight.support.frozen import frozen


@frozen
class Fitted:
    """A polynomial in t = scale * s + shift, which is from -1 to 1 where it is meant to be used.

    `wide` has the coefficients for float64, lowest degree first; `narrow` fewer, for results that float32 will hold.
    """

    scale: float
    shift: float
    wide: tuple[float, ...]
    narrow: tuple[float, ...]

    def __call__(self, s: Scalar, precise: bool) -> Scalar:
        """The polynomial at a float64 s."""
        t = fma(s, like(s, self.scale), like(s, self.shift))
        return polynomial(t, self.wide if precise else self.narrow)


def in_float64(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """A scalar function for float32 and float64, of one that computes in float64.

    That takes its operands and whether the result is float64 as well.

    Functions with many ranges lose digits at each seam: in float64 that is far below what float32 shows, and shorter
    polynomials do.
    """

    def scalar(*operands: Scalar) -> Scalar:
        dtype = operands[0].type
        return cast(function(*[cast(operand, float64) for operand in operands], dtype is float64), dtype)

    return scalar


def surface(x: Scalar, y: Scalar, rows: Sequence[Sequence[float]]) -> Scalar:
    """A polynomial in y whose coefficients are polynomials in x, both lowest degree first."""
    value = polynomial(x, rows[-1])
    for row in reversed(rows[:-1]):
        value = fma(value, y, polynomial(x, row))
    return value
