"""Signals: windows and Fourier transforms."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.dtypes import dtype_of
from rushlight.onnx.registry import define, operator
from rushlight.onnx.values import Numbers, Value, integers

_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def _window(coefficients: tuple[float, float, float]) -> Value:
    def rule(size: Numbers, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        length = integers(size)[0]
        angle = rl.arange(length, dtype=rl.float64) * (2 * math.pi / (length if periodic else length - 1))
        first, second, third = coefficients
        return (first - second * rl.cos(angle) + third * rl.cos(2 * angle)).to(dtype_of(output_datatype))

    return rule


for _name, _coefficients in _WINDOWS.items():
    define(_name, _window(_coefficients), host=(0,))


@operator("DFT", 20, host=(1, 2))
def dft(
    x: Tensor, length: Numbers | None = None, axis: Numbers | None = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    """The discrete Fourier transform along a dim; a last dim of size 2 holds real and imaginary parts."""
    dim = -2 if axis is None else int(integers(axis)[0])
    return _transformed(x, None if length is None else int(integers(length)[0]), dim, inverse, onesided)


@operator("DFT", host=(1,))
def dft_of_attribute(
    x: Tensor, length: Numbers | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    """The discrete Fourier transform along a dim."""
    return _transformed(x, None if length is None else int(integers(length)[0]), axis, inverse, onesided)


def _transformed(x: Tensor, length: int | None, axis: int, inverse: int, onesided: int) -> Tensor:
    dim = axis % x.dim()
    if inverse and onesided:
        result = rl.fft.irfft(rl.complex(x[..., 0].contiguous(), x[..., 1].contiguous()), length, dim)
        return result.unsqueeze(-1)
    if x.shape[-1] == 1:
        real = x.squeeze(-1)
        if onesided:
            return rl.view_as_real(rl.fft.rfft(real, length, dim))
        number = rl.complex(real, rl.zeros_like(real))
    else:
        number = rl.complex(x[..., 0].contiguous(), x[..., 1].contiguous())
    function = rl.fft.ifft if inverse else rl.fft.fft
    result = rl.view_as_real(function(number, length, dim))
    return result.narrow(dim, 0, result.shape[dim] // 2 + 1) if onesided else result


@operator("STFT", host=(1, 3))
def stft(
    signal: Tensor, step: Numbers, window: Tensor | None = None, length: Numbers | None = None, *, onesided: int = 1
) -> Tensor:
    """Fourier transforms of windows of a signal."""
    size = int(integers(length)[0]) if length is not None else (window.shape[0] if window is not None else 0)
    frames = signal.movedim(1, -1).unfold(-1, size, int(integers(step)[0])).movedim(1, -1)
    if window is not None:
        frames = frames * window.unsqueeze(-1)
    return _transformed(frames, size, 2, 0, onesided)
