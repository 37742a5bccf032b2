"""Windows of spectra: computed in float64 and rounded once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import default_dtype, element_type, integer, number
from rushlight.eager.boundary import checked
from rushlight.eager.creation import OPTIONS, arange, ones, with_gradient
from rushlight.eager.keywords import no_more
from rushlight.ir.dtype import float64
from rushlight.support.errors import require

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.eager.tensor import Tensor


def windowed(name: str, count: Any, periodic: object, options: dict[str, Any], shape: Callable[[Any, Any], Any]) -> Any:
    """The tensor of a window: ones up to one element, else what `shape` gives for places and the last place.

    `options` are `dtype`, `device` and `requires_grad`. A periodic window is the symmetric one of one element more
    without its last element.
    """
    size = integer(count)
    require(size >= 0, "A002", f"{name}: the length must not be negative", given=size)
    dtype = element_type(options.pop("dtype", None)) or default_dtype()
    device, wanted = options.pop("device", None), options.pop("requires_grad", False)
    no_more(options, OPTIONS)
    require(dtype.is_floating_point, "A004", f"{name}: the dtype must be floating-point", dtype=dtype)
    if size <= 1:
        return with_gradient(ones(size, dtype=dtype, device=device), wanted)
    places: Any = arange(size, dtype=float64, device=device)
    return with_gradient(shape(places, size if periodic else size - 1).to(dtype), wanted)


def cosines(places: Any, last: Any, coefficients: tuple[float, ...]) -> Any:
    """The sum of cosines of whole periods, with alternating signs."""
    steps = places * (2 * math.pi / last)
    total: Any = coefficients[0]
    for order, coefficient in enumerate(coefficients[1:], 1):
        term = ops.cos(steps * order) * coefficient
        total = total - term if order % 2 else total + term
    return total if len(coefficients) > 1 else total + steps * 0


def triangle(places: Any, last: Any) -> Any:
    """The window that rises to 1 in the middle and falls, in straight lines."""
    return 1 - ops.abs(places * (2 / last) - 1)


def bessel(places: Any, last: Any, beta: float) -> Any:
    """Kaiser's window."""
    along = places * (2 * beta / last) - beta
    inside = ops.clamp(beta * beta - along * along, min=0)
    return ops.i0(ops.sqrt(inside)) / ops.i0(ops.full_like(places, beta))


@checked
def bartlett_window(window_length: int, periodic: bool = True, **options: object) -> Tensor:
    """Return the window that rises to 1 in the middle and falls, in straight lines."""
    return windowed("bartlett_window", window_length, periodic, options, triangle)


@checked
def blackman_window(window_length: int, periodic: bool = True, **options: object) -> Tensor:
    """Return Blackman's window: 0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return windowed(
        "blackman_window", window_length, periodic, options, lambda at, last: cosines(at, last, (0.42, 0.5, 0.08))
    )


@checked
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: object
) -> Tensor:
    """Return Hamming's window: alpha - beta cos."""
    weights = (float(number(alpha)), float(number(beta)))
    return windowed("hamming_window", window_length, periodic, options, lambda at, last: cosines(at, last, weights))


@checked
def hann_window(window_length: int, periodic: bool = True, **options: object) -> Tensor:
    """Return Hann's window: 0.5 - 0.5 cos."""
    return windowed("hann_window", window_length, periodic, options, lambda at, last: cosines(at, last, (0.5, 0.5)))


@checked
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: object) -> Tensor:
    """Return Kaiser's window, whose sides fall the faster the greater `beta` is."""
    slope = float(number(beta))
    return windowed("kaiser_window", window_length, periodic, options, lambda at, last: bessel(at, last, slope))
