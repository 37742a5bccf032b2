"""Windows of spectra, as `torch.signal.windows`; symmetric ones unless `sym=False`.

>>> import rushlight as rl
>>> rl.signal.windows.hann(4, sym=False)
tensor([0.0000, 0.5000, 1.0000, 0.5000])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import element_type, flag, number
from rushlight.eager.boundary import checked
from rushlight.eager.composite.windows import bessel, cosines, triangle, windowed
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import float32, float64
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(name: str, M: object, sym: object, options: dict[str, Any], shape: Callable[[Any, Any], object]) -> Tensor:
    dtype = element_type(options.get("dtype"))
    require(dtype in (None, float32, float64), "A002", f"{name}: the dtype is float32 or float64", dtype=dtype)
    return windowed(name, M, not flag(sym), options, shape)


@checked
def bartlett(M: int, *, sym: bool = True, **options: object) -> Tensor:
    """Return the window of `M` elements that rises to 1 in the middle and falls, in straight lines."""
    return _window("bartlett", M, sym, options, triangle)


@checked
def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: object) -> Tensor:
    """Return the window a[0] - a[1] cos + a[2] cos of twice the angle - ..."""
    require(isinstance(a, Iterable), "A001", "general_cosine: the coefficients are a sequence", a=a)
    weights = tuple([float(number(weight)) for weight in a])
    require(weights, "A002", "general_cosine: at least one coefficient is needed")
    return _window("general_cosine", M, sym, options, lambda at, last: cosines(at, last, weights))


@checked
def blackman(M: int, *, sym: bool = True, **options: object) -> Tensor:
    """Return Blackman's window: 0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return _window("blackman", M, sym, options, lambda at, last: cosines(at, last, (0.42, 0.5, 0.08)))


@checked
def nuttall(M: int, *, sym: bool = True, **options: object) -> Tensor:
    """Return Nuttall's window of four terms, whose side lobes are least."""
    weights = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _window("nuttall", M, sym, options, lambda at, last: cosines(at, last, weights))


@checked
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: object) -> Tensor:
    """Return the window alpha - (1 - alpha) cos."""
    weights = (float(number(alpha)), 1 - float(number(alpha)))
    return _window("general_hamming", M, sym, options, lambda at, last: cosines(at, last, weights))


@checked
def hamming(M: int, *, sym: bool = True, **options: object) -> Tensor:
    """Return Hamming's window: 0.54 - 0.46 cos."""
    return _window("hamming", M, sym, options, lambda at, last: cosines(at, last, (0.54, 0.46)))


@checked
def hann(M: int, *, sym: bool = True, **options: object) -> Tensor:
    """Return Hann's window: 0.5 - 0.5 cos."""
    return _window("hann", M, sym, options, lambda at, last: cosines(at, last, (0.5, 0.5)))


@checked
def cosine(M: int, *, sym: bool = True, **options: object) -> Tensor:
    """Return half a period of the sine, at the middles of the elements."""
    return _window("cosine", M, sym, options, lambda at, last: ops.sin((at + 0.5) * (math.pi / (last + 1))))


@checked
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: object
) -> Tensor:
    """Return the window that falls by e each `tau` elements from the center, by default the middle."""
    require(number(tau) > 0, "A002", "exponential: tau must be positive", tau=tau)
    require(center is None or not flag(sym), "A002", "exponential: a symmetric window's center is the middle")
    return _window(
        "exponential",
        M,
        sym,
        options,
        lambda at, last: ops.exp(-ops.abs(at - (last / 2 if center is None else center)) / tau),
    )


@checked
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: object) -> Tensor:
    """Return the bell curve around the middle, with a standard deviation of `std` elements."""
    require(number(std) > 0, "A002", "gaussian: std must be positive", std=std)
    scale = std * math.sqrt(2)
    return _window("gaussian", M, sym, options, lambda at, last: ops.exp(-(((at - last / 2) / scale) ** 2)))


@checked
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: object) -> Tensor:
    """Return Kaiser's window, whose sides fall the faster the greater `beta` is."""
    require(number(beta) >= 0, "A002", "kaiser: beta must not be negative", beta=beta)
    return _window("kaiser", M, sym, options, lambda at, last: bessel(at, last, float(number(beta))))


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
