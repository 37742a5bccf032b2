"""Operators of floating-point numbers whose special cases the standard fixes otherwise than PyTorch."""

from __future__ import annotations

import math
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.handle import Handle
from rushlight.eager.tensor import Tensor


def floor_divide(x1: Any, x2: Any) -> Tensor:
    """Quotients rounded down; those of infinities, and by them, are the rounded quotients: 1 // -inf is -0."""
    quotient = x1 // x2
    if not quotient.dtype.is_floating_point:
        return quotient
    infinite = ops.logical_or(_infinite(x1), _infinite(x2))
    return ops.where(infinite, ops.floor(x1 / x2), quotient)


def _infinite(value: Any) -> Any:
    return ops.isinf(value) if isinstance(value, Handle) else math.isinf(value)


def remainder(x1: Any, x2: Any) -> Tensor:
    """Remainders with the sign of the divisor, also those that are 0."""
    remainders = x1 % x2
    if not remainders.dtype.is_floating_point:
        return remainders
    return ops.where(remainders == 0, ops.copysign(remainders, x2), remainders)


def round(x: Tensor) -> Tensor:
    """The nearest integer, halves to even; of a complex number both parts are rounded."""
    return ops.complex(ops.real(x).round(), ops.imag(x).round()) if x.dtype.is_complex else x.round()


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1, or the phase of a complex number; NaN of NaN."""
    signs = x.sgn()
    return ops.where(x.isnan(), x, signs) if x.dtype.is_floating_point else signs
