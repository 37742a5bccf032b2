"""The Fourier transform extension of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import fft as transforms
from rushlight.compat.array_api.array import Array, arrayed, plain
from rushlight.eager.boundary import checked
from rushlight.ir.dtype import DType

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Axes = Sequence[int] | None


@checked
def fft(x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Return Fourier transforms along an axis, of `n` points."""
    return arrayed(transforms.fft(plain(x), n, axis, norm))


@checked
def ifft(x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Return the inverse of `fft`."""
    return arrayed(transforms.ifft(plain(x), n, axis, norm))


@checked
def fftn(x: object, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """Return Fourier transforms along several axes, of `s` points each."""
    return arrayed(transforms.fftn(plain(x), _tuple(s), _tuple(axes), norm))


@checked
def ifftn(x: object, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """Return the inverse of `fftn`."""
    return arrayed(transforms.ifftn(plain(x), _tuple(s), _tuple(axes), norm))


@checked
def rfft(x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Return the first half of the Fourier transforms of real numbers."""
    return arrayed(transforms.rfft(plain(x), n, axis, norm))


@checked
def irfft(x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Return the inverse of `rfft`: `n` real numbers, by default an even number."""
    return arrayed(transforms.irfft(plain(x), n, axis, norm))


@checked
def rfftn(x: object, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """Return Fourier transforms of real numbers along several axes; the last one is halved."""
    return arrayed(transforms.rfftn(plain(x), _tuple(s), _tuple(axes), norm))


@checked
def irfftn(x: object, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Array:
    """Return the inverse of `rfftn`."""
    return arrayed(transforms.irfftn(plain(x), _tuple(s), _tuple(axes), norm))


@checked
def hfft(x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Return the real Fourier transforms of numbers of which `x` is the first, Hermitian, half."""
    return arrayed(transforms.hfft(plain(x), n, axis, norm))


@checked
def ihfft(x: object, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """Return the inverse of `hfft`."""
    return arrayed(transforms.ihfft(plain(x), n, axis, norm))


@checked
def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: object = None) -> Array:
    """Return the frequencies of the points of `fft`, of samples `d` apart: from 0 on, then the negative ones."""
    return arrayed(transforms.fftfreq(n, d, dtype=dtype, device=device))


@checked
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: object = None) -> Array:
    """Return the frequencies of the points of `rfft`, of samples `d` apart."""
    return arrayed(transforms.rfftfreq(n, d, dtype=dtype, device=device))


@checked
def fftshift(x: object, /, *, axes: object = None) -> Array:
    """Return the points with frequency 0 in the middle of some axes, by default all."""
    return arrayed(transforms.fftshift(plain(x), _tuple(axes)))


@checked
def ifftshift(x: object, /, *, axes: object = None) -> Array:
    """Return the inverse of `fftshift`."""
    return arrayed(transforms.ifftshift(plain(x), _tuple(axes)))


def _tuple(values: Any) -> Any:
    return values if values is None or isinstance(values, int) else tuple(values)
