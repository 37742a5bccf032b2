"""Discrete Fourier transforms, as `torch.fft`, with derivatives; float32 stays in 32 bits.

>>> import rushlight as rl
>>> rl.fft.rfft(rl.tensor([1.0, 2.0, 3.0, 4.0]))
tensor([10.+0.j, -2.+2.j, -2.+0.j])
"""

from __future__ import annotations

from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import element_type, fixed_integer, fixed_integers, integer, integers, place
from rushlight.eager.arguments import required_tensor as as_tensor
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import written
from rushlight.eager.creation import OPTIONS, arange, with_gradient
from rushlight.eager.keywords import no_more
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind, bfloat16, float16
from rushlight.ops.dims import wrap_dim
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_C2C, _R2C, _C2R = OPERATORS["fft_c2c"], OPERATORS["fft_r2c"], OPERATORS["fft_c2r"]
_CONJUGATED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
LAST_TWO = (-2, -1)


def _norm(norm: object, op: str) -> str:
    result = "backward" if norm is None else norm
    require(result in _CONJUGATED, "A004", f"{op}: the norm {norm!r} is not one of backward, forward, ortho")
    return str(result)


def _as_complex(input: object, op: str) -> Tensor:
    tensor = _wide(input, op)
    if tensor.dtype.kind < Kind.FLOAT:
        tensor = tensor.to(ops.zeros(0).dtype)
    return tensor if tensor.is_complex() else tensor + 0j


def _wide(input: object, op: str) -> Tensor:
    tensor = as_tensor(input)
    half = tensor.dtype in (float16, bfloat16)
    require(not half, "D001", f"{op}: not supported for {tensor.dtype.name}", hint="convert to float32 first")
    return tensor


def _as_real(input: object, op: str) -> Tensor:
    tensor = _wide(input, op)
    require(not tensor.is_complex(), "D001", f"{op}: the input must be real", input=tensor)
    return tensor.to(ops.zeros(0).dtype) if tensor.dtype.kind < Kind.FLOAT else tensor


def _plan(tensor: Tensor, s: object, dim: object, op: str) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The dims, from the front, and a size or None for each."""
    dims, sizes = fixed_integers(dim), integers(s)
    if dims is None:
        count = tensor.ndim if sizes is None else len(sizes)
        require(count <= tensor.ndim, "A004", f"{op}: more sizes are given than there are dims", s=s)
        dims = tuple(range(tensor.ndim - count, tensor.ndim))
    wrapped = tuple([wrap_dim(axis, tensor.ndim, op) for axis in dims])
    require(len(set(wrapped)) == len(wrapped), "A004", f"{op}: a dim is named twice", dim=dim)
    require(tensor.ndim or not wrapped, "A004", f"{op}: a tensor without dims has no transform", input=tensor)
    fits = sizes is None or len(sizes) == len(wrapped)
    require(fits, "A004", f"{op}: the number of sizes differs from that of dims", s=s, dim=dim)
    if sizes is None:
        return wrapped, (None,) * len(wrapped)
    return wrapped, tuple([None if isinstance(size, int) and size == -1 else size for size in sizes])


def _resized(tensor: Tensor, dims: tuple[int, ...], sizes: tuple[Any, ...], op: str) -> Tensor:
    """Cut to sizes, or filled up with zeros."""
    for dim, size in zip(dims, sizes, strict=True):
        have = tensor.shape[dim]
        points = have if size is None else size
        require(points >= 1, "A004", f"{op}: the number of points must be at least 1", n=points)
        if have > points:
            tensor = tensor.narrow(dim, 0, points)
        elif have < points:
            tensor = ops.constant_pad_nd(tensor, (0, 0) * (tensor.ndim - 1 - dim) + (0, points - have))
    return tensor


def _one(n: object) -> object:
    """One number of points as those of several dims, where -1 would mean all."""
    require(not isinstance(n, int) or n >= 1, "A004", "fft: the number of points must be at least 1", n=n)
    return None if n is None else (n,)


def _complex_transform(
    input: object, s: object, dim: object, norm: object, call: tuple[str, bool], out: object = None
) -> Tensor:
    op, forward = call
    tensor = _as_complex(input, op)
    dims, sizes = _plan(tensor, s, dim, op)
    return written(_C2C(_resized(tensor, dims, sizes, op), dims, _norm(norm, op), forward), out)


def _from_real(
    input: object, s: object, dim: object, norm: object, call: tuple[str, bool], out: object = None
) -> Tensor:
    """rfftn, or ihfftn, which goes in the other direction."""
    op, forward = call
    tensor = _as_real(input, op)
    dims, sizes = _plan(tensor, s, dim, op)
    require(dims, "A004", f"{op}: at least one dim must be transformed")
    tensor = _resized(tensor, dims, sizes, op)
    mode = _norm(norm, op)
    if forward:
        half = _R2C(tensor, dims[-1], mode)
    else:
        half = _R2C(tensor, dims[-1], _CONJUGATED[mode]).conj()
    return written(_C2C(half, dims[:-1], mode, forward) if len(dims) > 1 else half, out)


def _to_real(input: object, s: object, dim: object, norm: object, call: tuple[str, bool], out: object = None) -> Tensor:
    """irfftn, or hfftn, which goes in the other direction."""
    op, forward = call
    tensor = _as_complex(input, op)
    dims, sizes = _plan(tensor, s, dim, op)
    require(len(dims) > 0, "A004", f"{op}: at least one dim must be transformed")
    *before, last = sizes
    half = dims[-1]
    points = 2 * (tensor.shape[half] - 1) if last is None else last
    require(points >= 1, "A004", f"{op}: the number of points must be at least 1", n=points)
    tensor = _resized(tensor, dims, (*before, points // 2 + 1), op)
    mode = _norm(norm, op)
    if len(dims) > 1:
        tensor = _C2C(tensor, dims[:-1], mode, forward)
    if forward:
        return written(_C2R(tensor.conj(), half, _CONJUGATED[mode], points), out)
    return written(_C2R(tensor, half, mode, points), out)


@autocasts("float32")
@checked
def fft(input: object, n: object = None, dim: object = -1, norm: object = None, *, out: object = None) -> Tensor:
    """Return the Fourier transform along a dim, of `n` points."""
    return _complex_transform(input, _one(n), dim, norm, ("fft", True), out)


@autocasts("float32")
@checked
def ifft(input: object, n: object = None, dim: object = -1, norm: object = None, *, out: object = None) -> Tensor:
    """Return the inverse of `fft`."""
    return _complex_transform(input, _one(n), dim, norm, ("ifft", False), out)


@autocasts("float32")
@checked
def rfft(input: object, n: object = None, dim: object = -1, norm: object = None, *, out: object = None) -> Tensor:
    """Return the first half of the Fourier transform of real numbers; the other half is its conjugate."""
    return _from_real(input, _one(n), dim, norm, ("rfft", True), out)


@autocasts("float32")
@checked
def irfft(input: object, n: object = None, dim: object = -1, norm: object = None, *, out: object = None) -> Tensor:
    """Return the inverse of `rfft`: `n` real numbers, by default an even number."""
    return _to_real(input, _one(n), dim, norm, ("irfft", False), out)


@autocasts("float32")
@checked
def hfft(input: object, n: object = None, dim: object = -1, norm: object = None, *, out: object = None) -> Tensor:
    """Return the real Fourier transform of numbers of which `input` is the first, Hermitian, half."""
    return _to_real(input, _one(n), dim, norm, ("hfft", True), out)


@autocasts("float32")
@checked
def ihfft(input: object, n: object = None, dim: object = -1, norm: object = None, *, out: object = None) -> Tensor:
    """Return the inverse of `hfft`."""
    return _from_real(input, _one(n), dim, norm, ("ihfft", False), out)


@autocasts("float32")
@checked
def fft2(input: object, s: object = None, dim: object = LAST_TWO, norm: object = None, *, out: object = None) -> Tensor:
    """Return the Fourier transform along two dims."""
    return _complex_transform(input, s, dim, norm, ("fft2", True), out)


@autocasts("float32")
@checked
def ifft2(
    input: object, s: object = None, dim: object = LAST_TWO, norm: object = None, *, out: object = None
) -> Tensor:
    """Return the inverse of `fft2`."""
    return _complex_transform(input, s, dim, norm, ("ifft2", False), out)


@autocasts("float32")
@checked
def rfft2(
    input: object, s: object = None, dim: object = LAST_TWO, norm: object = None, *, out: object = None
) -> Tensor:
    """Return the Fourier transform of real numbers along two dims, of the last one its first half."""
    return _from_real(input, s, dim, norm, ("rfft2", True), out)


@autocasts("float32")
@checked
def irfft2(
    input: object, s: object = None, dim: object = LAST_TWO, norm: object = None, *, out: object = None
) -> Tensor:
    """Return the inverse of `rfft2`."""
    return _to_real(input, s, dim, norm, ("irfft2", False), out)


@checked
def hfft2(
    input: object, s: object = None, dim: object = LAST_TWO, norm: object = None, *, out: object = None
) -> Tensor:
    """Return the real Fourier transform along two dims of numbers that are Hermitian in the last one."""
    return _to_real(input, s, dim, norm, ("hfft2", True), out)


@checked
def ihfft2(
    input: object, s: object = None, dim: object = LAST_TWO, norm: object = None, *, out: object = None
) -> Tensor:
    """Return the inverse of `hfft2`."""
    return _from_real(input, s, dim, norm, ("ihfft2", False), out)


@autocasts("float32")
@checked
def fftn(input: object, s: object = None, dim: object = None, norm: object = None, *, out: object = None) -> Tensor:
    """Return the Fourier transform along several dims, by default all."""
    return _complex_transform(input, s, dim, norm, ("fftn", True), out)


@autocasts("float32")
@checked
def ifftn(input: object, s: object = None, dim: object = None, norm: object = None, *, out: object = None) -> Tensor:
    """Return the inverse of `fftn`."""
    return _complex_transform(input, s, dim, norm, ("ifftn", False), out)


@autocasts("float32")
@checked
def rfftn(input: object, s: object = None, dim: object = None, norm: object = None, *, out: object = None) -> Tensor:
    """Return the Fourier transform of real numbers along several dims, of the last one its first half."""
    return _from_real(input, s, dim, norm, ("rfftn", True), out)


@autocasts("float32")
@checked
def irfftn(input: object, s: object = None, dim: object = None, norm: object = None, *, out: object = None) -> Tensor:
    """Return the inverse of `rfftn`."""
    return _to_real(input, s, dim, norm, ("irfftn", False), out)


@checked
def hfftn(input: object, s: object = None, dim: object = None, norm: object = None, *, out: object = None) -> Tensor:
    """Return the real Fourier transform along several dims of numbers that are Hermitian in the last one."""
    return _to_real(input, s, dim, norm, ("hfftn", True), out)


@checked
def ihfftn(input: object, s: object = None, dim: object = None, norm: object = None, *, out: object = None) -> Tensor:
    """Return the inverse of `hfftn`."""
    return _from_real(input, s, dim, norm, ("ihfftn", False), out)


@checked
def fftfreq(
    n: object,
    d: float = 1.0,
    *,
    out: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return the frequencies of the points of `fft`, of samples `d` apart: from 0 on, then the negative ones."""
    no_more(rest, OPTIONS)
    points = integer(n)
    steps = arange(points, dtype=element_type(dtype) or ops.zeros(0).dtype, device=place(device))
    wrapped = ops.where(steps >= (points + 1) // 2, steps - points, steps)
    return with_gradient(written(wrapped * (1.0 / (points * d)), out), requires_grad)


@checked
def rfftfreq(
    n: object,
    d: float = 1.0,
    *,
    out: object = None,
    dtype: object = None,
    device: object = None,
    requires_grad: bool = False,
    **rest: object,
) -> Tensor:
    """Return the frequencies of the points of `rfft`, of samples `d` apart."""
    no_more(rest, OPTIONS)
    points = integer(n)
    steps = arange(points // 2 + 1, dtype=element_type(dtype) or ops.zeros(0).dtype, device=place(device))
    return with_gradient(written(steps * (1.0 / (points * d)), out), requires_grad)


def _shifted(input: object, dim: object, forward: bool) -> Tensor:
    tensor = as_tensor(input)
    dims = fixed_integers(dim) if dim is not None else tuple(range(tensor.ndim))
    wrapped = tuple([wrap_dim(fixed_integer(element), tensor.ndim, "fftshift") for element in dims or ()])
    if not wrapped:
        return tensor.clone()
    halves = [tensor.shape[axis] // 2 if forward else (tensor.shape[axis] + 1) // 2 for axis in wrapped]
    return ops.roll(tensor, halves, wrapped)


@checked
def fftshift(input: object, dim: object = None) -> Tensor:
    """Return the points with frequency 0 in the middle."""
    return _shifted(input, dim, True)


@checked
def ifftshift(input: object, dim: object = None) -> Tensor:
    """Return the inverse of `fftshift`."""
    return _shifted(input, dim, False)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
