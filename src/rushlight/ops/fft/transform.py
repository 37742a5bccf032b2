"""Discrete Fourier transforms by numpy, on the host: complex, of real numbers, and to real numbers.

`norm` names the direction that divides by the number of points, as in numpy: the derivative is the transform back with
the other direction named. Transforms of up to `SMALL` elements are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import complex64, complex128, float64, real_dtype
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, Shape, normal, own_dim, replaced
from rushlight.ops.join import cat, constant_pad_nd
from rushlight.ops.number.parts import real_
from rushlight.ops.record import Fact, Sample, define
from rushlight.ops.view.part import slice_
from rushlight.support.errors import require
from rushlight.sym import Size, eq, floordiv, ge, required

SMALL = 1 << 14
NUMPY: Any = np.fft  # whose norms are plain strings to us
_TRANSPOSED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _spectral(type_: TensorType, shape: Shape, norm: str) -> TensorType:
    require(norm in _TRANSPOSED, "A004", f"fft: the norm {norm!r} is not one of backward, forward, ortho")
    return TensorType(shape, complex128 if real_dtype(type_.dtype) is float64 else complex64, type_.device)


def _transformed(function: Callable[[Array], Array], array: Array, real: bool) -> Array:
    wide = array.dtype.itemsize >= 8 * (1 + (array.dtype.kind == "c"))
    if not wide and array.size <= SMALL:
        array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    narrow = (np.float32 if real else np.complex64) if not wide else (np.float64 if real else np.complex128)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(function(array)).astype(narrow, copy=False)


def _dims(dim: tuple[int, ...], input: TensorType, op: str) -> tuple[int, ...]:
    return tuple([own_dim(axis, input.shape, op) for axis in dim])


fft_c2c = define(
    "fft_c2c(Tensor input, int[] dim, str norm, bool forward) -> Tensor",
    "The Fourier transform of complex numbers along dims, or the transform back.",
    facts=Fact.HOST,
    dtypes="complex",
    variants="",
)


@fft_c2c.meta
def fft_c2c_meta(input: TensorType, dim: tuple[int, ...], norm: str, forward: bool) -> TensorType:
    _dims(dim, input, "fft")
    return _spectral(input, input.shape, norm)


@fft_c2c.ref
def fft_c2c_ref(input: Array, dim: tuple[int, ...], norm: str, forward: bool) -> Array:
    if not dim or not input.size:
        return input.copy()
    transform = NUMPY.fftn if forward else NUMPY.ifftn
    return _transformed(lambda array: transform(array, axes=dim, norm=norm), input, False)


@fft_c2c.vjp
def fft_c2c_vjp(g: Value, dim: tuple[int, ...], norm: str, forward: bool) -> Value:
    return fft_c2c(g, dim, _TRANSPOSED[norm], not forward)


@fft_c2c.samples
def fft_c2c_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(_complex(rng, 2, 5), (1,), "backward", True)
    yield Sample(_complex(rng, 3, 4), (0, -1), "ortho", False)


def _complex(rng: np.random.Generator, *shape: int) -> Array:
    return (normal(rng, *shape) + 1j * normal(rng, *shape)).astype(np.complex64)


fft_r2c = define(
    "fft_r2c(Tensor input, int dim, str norm) -> Tensor",
    "The first half of the Fourier transform of real numbers, whose other half is its conjugate.",
    facts=Fact.HOST,
    dtypes="float",
    variants="",
)


@fft_r2c.meta
def fft_r2c_meta(input: TensorType, dim: int, norm: str) -> TensorType:
    along = own_dim(dim, input.shape, "rfft")
    return _spectral(input, replaced(input.shape, along, floordiv(input.shape[along], 2) + 1), norm)


@fft_r2c.ref
def fft_r2c_ref(input: Array, dim: int, norm: str) -> Array:
    return _transformed(lambda array: NUMPY.rfft(array, axis=dim, norm=norm), input, False)


@fft_r2c.vjp(types=("input",))
def fft_r2c_vjp(g: Value, input: TensorType, dim: int, norm: str) -> Value:
    along = own_dim(dim, input.shape, "rfft")
    missing = input.shape[along] - g.shape[along]
    padding = (0, 0) * (g.ndim - 1 - along) + (0, missing)
    return real_(fft_c2c(constant_pad_nd(g, padding), (along,), _TRANSPOSED[norm], False))


@fft_r2c.samples
def fft_r2c_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 5), 1, "backward", domain="finite")
    yield Sample(normal(rng, 4, 3), 0, "ortho", domain="finite")


fft_c2r = define(
    "fft_c2r(Tensor input, int dim, str norm, Size size) -> Tensor",
    "So many real numbers, by the transform back, of the first half of their Fourier transform.",
    facts=Fact.HOST,
    dtypes="complex",
    variants="",
)


@fft_c2r.meta
def fft_c2r_meta(input: TensorType, dim: int, norm: str, size: Size) -> TensorType:
    along = own_dim(dim, input.shape, "irfft")
    require(required(ge(size, 1)), "A004", "irfft: the number of points must be at least 1", n=size)
    fits = required(eq(input.shape[along], floordiv(size, 2) + 1))
    require(fits, "A004", "irfft: half of the transform has n // 2 + 1 points", input=input, dim=dim, n=size)
    spectral = _spectral(input, replaced(input.shape, along, size), norm)
    return TensorType(spectral.shape, real_dtype(spectral.dtype), input.device)


@fft_c2r.ref
def fft_c2r_ref(input: Array, dim: int, norm: str, size: int) -> Array:
    return _transformed(lambda array: NUMPY.irfft(array, size, axis=dim, norm=norm), input, True)


@fft_c2r.vjp(types=("input",))
def fft_c2r_vjp(g: Value, input: TensorType, dim: int, norm: str, size: Size) -> Value:
    along = own_dim(dim, input.shape, "irfft")
    half = fft_r2c(g, along, _TRANSPOSED[norm])
    # All but the first point, and the middle one of an even number, stand for two.
    end = floordiv(size - 1, 2) + 1
    parts = (slice_(half, along, 0, 1), slice_(half, along, 1, end) * 2, slice_(half, along, end, half.shape[along]))
    return cat(parts, along)


@fft_c2r.samples
def fft_c2r_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(_complex(rng, 2, 3), 1, "backward", 4)
    yield Sample(_complex(rng, 3, 2), 0, "ortho", 5)
