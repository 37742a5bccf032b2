"""Functions that summarise elements: with NaN left out, extremes, moments, histograms, differences, integrals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.arguments import element_type, fixed_integer, fixed_integers, flag, number, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import in_place, with_out
from rushlight.eager.dispatch import dispatch
from rushlight.eager.overloads import spread_attributes
from rushlight.eager.symbols import holds
from rushlight.ir.dtype import Kind, bool_, int64
from rushlight.ops import OPERATORS
from rushlight.ops.dims import own_dim, wrap_dim
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


# NaN left out.


def _without_nan(input: Tensor) -> Tensor:
    return ops.where(ops.isnan(input), 0, input) if input.dtype.kind >= Kind.FLOAT else input


@with_out
def nansum(input: Tensor, dim: object = None, keepdim: bool = False, *, dtype: object = None) -> Tensor:
    """Return the sum of the elements that are not NaN."""
    require(not input.dtype.is_complex, "D006", "nansum: complex operands are not supported", input=input)
    return ops.sum(_without_nan(input), dim, keepdim, dtype=dtype)


@with_out
def nanmean(input: Tensor, dim: object = None, keepdim: bool = False, *, dtype: object = None) -> Tensor:
    """Return the mean of the elements that are not NaN; NaN where there are none."""
    inexact = input.dtype.kind >= Kind.FLOAT
    require(inexact, "D001", "nanmean: the dtype must be floating-point", input=input)
    total = ops.sum(_without_nan(input), dim, keepdim, dtype=dtype)
    return total / ops.sum(~ops.isnan(input), dim, keepdim)


class Ranked(NamedTuple):
    """A value of a rank along a dim, and where it stood."""

    values: Any
    indices: Any


@checked
def nanmedian(input: Tensor, dim: object = None, keepdim: bool = False) -> Any:
    """Return the lower middle element of those that are not NaN; with a dim, values and indices along it."""
    if input.dtype.kind is not Kind.FLOAT or input.numel() == 0:
        return input.median(dim, keepdim) if dim is not None else input.median()
    flat = input.reshape(-1) if dim is None or input.ndim == 0 else input
    along = 0 if dim is None else wrap_dim(fixed_integer(dim), flat.ndim, "nanmedian")
    ordered = flat.sort(along)
    count = ops.sum(~ops.isnan(flat), along, True)
    middle = ops.clamp((count - 1) // 2, 0)
    medians = Ranked(ops.gather(ordered.values, along, middle), ops.gather(ordered.indices, along, middle))
    keep = flag(keepdim) and dim is not None and input.ndim > 0
    result = medians if keep else Ranked(*[tensor.squeeze(along) for tensor in medians])
    return result.values if dim is None else result


# Extremes, norms and moments.

cummax, cummin = with_out(ops.cummax), with_out(ops.cummin)


@with_out
def norm(input: Tensor, p: object = "fro", dim: object = None, keepdim: bool = False, dtype: object = None) -> Tensor:
    """Return the `p`-norm of elements, of all or along dims.

    'fro' is 2, and 'nuc' the nuclear norm of matrices.
    """
    dims = fixed_integers(dim)
    if p == "nuc":
        return nuclear_norm(input if dtype is None else input.to(dtype), dims, keepdim)
    attrs = {"p": p, "dim": dims, "keepdim": flag(keepdim), "dtype": element_type(dtype)}
    return dispatch(OPERATORS["norm"], (input,), attrs)


@with_out
def frobenius_norm(input: Tensor, dim: object = (), keepdim: bool = False) -> Tensor:
    """Return the square root of the sum of squares, of all elements or along one dim or two."""
    return norm(input, "fro", dim, keepdim)


@with_out
def nuclear_norm(input: Tensor, dim: object = None, keepdim: bool = False) -> Tensor:
    """Return the sums of the singular values of the matrices in two dims, by default of a matrix."""
    dims = fixed_integers(dim)
    require(dims is not None or input.ndim == 2, "S002", "nuclear_norm: a matrix, or dims, are needed", input=input)
    require(dims is None or len(dims) == 2, "A004", "nuclear_norm: dim must be two dims", dim=dim)
    matrices = [wrap_dim(axis, input.ndim, "nuclear_norm") for axis in dims or (0, 1)]
    require(matrices[0] != matrices[1], "A004", "nuclear_norm: the two dims must differ", dim=dim)
    total = ops.sum(ops.linalg_svdvals(input.movedim(matrices, (-2, -1))), -1)
    for axis in sorted(matrices) if keepdim else ():
        total = total.unsqueeze(axis)
    return total


@checked
def norm_except_dim(v: Tensor, pow: float = 2, dim: int = 0) -> Tensor:
    """Return the norm over all dims but one, of order `pow`; these are kept with size 1.

    For the dim -1 it is the norm of all elements, without dims.
    The size and order of the norm are those of `weight_norm`.
    """
    if dim == -1:
        return ops.linalg_vector_norm(v, pow)
    along = own_dim(fixed_integer(dim), v.shape, "norm_except_dim")
    if v.ndim == 1:  # no dims would stand for all
        return ops.linalg_vector_norm(v.unsqueeze(1), pow, 1)
    return ops.linalg_vector_norm(v, pow, tuple([at for at in range(v.ndim) if at != along]), True)


class Extremes(NamedTuple):
    """The smallest and the largest elements."""

    min: Any
    max: Any


@with_out
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """Return the smallest and the largest elements, of all or along a dim."""
    if dim is None:
        return Extremes(ops.amin(input, (), keepdim), ops.amax(input, (), keepdim))
    return Extremes(ops.amin(input, dim, keepdim), ops.amax(input, dim, keepdim))


@checked
def std_mean(
    input: Tensor, dim: object = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: object = None
) -> tuple[Tensor, Tensor]:
    """Return the standard deviation, as `std`, and the mean."""
    moments = dispatch(OPERATORS["var_mean"], (input,), spread_attributes(dim, unbiased, keepdim, correction))
    return ops.sqrt(moments[0]), moments[1]


@with_out
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return the slices of a dim, those whose `p`-norm is above `maxnorm` scaled down to it."""
    require(input.dtype.kind >= Kind.FLOAT, "D001", "renorm: the dtype must be floating-point", input=input)
    require(input.ndim > 1, "S002", "renorm: the tensor needs at least 2 dims", input=input)
    along = wrap_dim(fixed_integer(dim), input.ndim, "renorm")
    power, most = number(p), number(maxnorm)
    require(power > 0, "A002", "renorm: p must be positive", p=power)
    require(most >= 0, "A002", "renorm: maxnorm must not be negative", maxnorm=most)
    others = [position for position in range(input.ndim) if position != along]
    length = ops.linalg_vector_norm(input, power, others, True)
    return input * ops.where(length > most, most / (length + 1e-7), 1.0).to(input.dtype)


renorm_ = in_place(renorm)


# Histograms.


@with_out
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return how many elements lie in each of equal bins from `min` to `max`, both 0: from least to greatest."""
    require(not input.dtype.is_complex and input.dtype is not bool_, "D001", "histc: not for this dtype", input=input)
    count = fixed_integer(bins)
    require(count > 0, "A002", "histc: there must be a bin", bins=bins)
    low, high = number(min), number(max)
    require(low <= high, "A002", "histc: max must not be below min", min=low, max=high)
    require(math.isfinite(low) and math.isfinite(high), "A002", "histc: the range is not finite", min=low, max=high)
    if low == high:
        low, high = ends_of_elements("histc", input, 1.0) if input.numel() else (low - 1, high + 1)
    values = input.reshape(-1).double()
    inside = (values >= low) & (values <= high)
    places = ops.clamp(ops.floor((values - low) * (count / (high - low))), 0, count - 1)
    places = ops.where(inside, places, 0.0).to(int64)
    zeros = ops.zeros((count,), dtype=input.dtype, device=input.device)
    return ops.scatter_add(zeros, 0, places, inside.to(input.dtype))


def ends_of_elements(name: str, input: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The least and the greatest element as float64, each moved by the margin where they are equal.

    Errors: A002 where they are not finite; in a compiled function when it runs (R002).
    """
    low, high = [end.double() for end in aminmax(input.detach())]
    infinite = (~(ops.isfinite(low) & ops.isfinite(high))).to(int64).item()
    finite = holds(infinite == 0, f"{name}: the range is finite")
    require(finite, "A002", f"{name}: the range is not finite", min=low, max=high)
    apart = ops.where(low == high, margin, 0.0)
    return low - apart, high + apart


# Differences and integrals.


@with_out
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: object = None, append: object = None) -> Tensor:
    """Return the differences of neighbours along a dim, `n` times over, after joining what is given."""
    along = own_dim(fixed_integer(dim), input.shape, "diff")
    times = fixed_integer(n)
    require(times >= 0, "A002", "diff: n must not be negative", n=times)
    parts = [required_tensor(part) for part in (prepend, input, append) if part is not None]
    differences: Any = parts[0] if len(parts) == 1 else ops.cat(parts, along)
    if times == 0:
        return ops.clone(input)
    for _ in range(times):
        size = differences.shape[along]
        if size == 0:
            return differences
        later, earlier = ops.narrow(differences, along, 1, size - 1), ops.narrow(differences, along, 0, size - 1)
        differences = ops.logical_xor(later, earlier) if differences.dtype is bool_ else later - earlier
    return differences


@checked
def trapezoid(y: Tensor, x: object = None, *, dx: object = None, dim: int = -1) -> Tensor:
    """Return the integral along a dim by the trapezoidal rule, at points `x` or ones `dx` apart."""
    steps = _trapezoids(y, x, dx, dim, "trapezoid")
    return ops.sum(steps, dim) if steps is not None else ops.sum(ops.narrow(y, dim, 0, 0), dim)


trapz = trapezoid


@checked
def cumulative_trapezoid(y: Tensor, x: object = None, *, dx: object = None, dim: int = -1) -> Tensor:
    """Return the running integral along a dim by the trapezoidal rule, at points `x` or ones `dx` apart."""
    steps = _trapezoids(y, x, dx, dim, "cumulative_trapezoid")
    return ops.cumsum(steps, dim) if steps is not None else ops.narrow(y, dim, 0, 0)


def _trapezoids(y: Tensor, x: object, dx: object, dim: int, name: str) -> Tensor | None:
    """The area between each two neighbours along a dim; None where there is no point."""
    require(x is None or dx is None, "A003", f"{name}: x and dx are not given both", dx=dx)
    along = own_dim(fixed_integer(dim), y.shape, name)
    require(y.dtype is not bool_, "D001", f"{name}: not supported for bool", y=y)
    size = y.shape[along]
    if size == 0:
        return None
    heights = ops.narrow(y, along, 1, size - 1) + ops.narrow(y, along, 0, size - 1)
    if x is None:
        return heights * number(1 if dx is None else dx) / 2
    points = required_tensor(x)
    if points.ndim == 1 and y.ndim > 1:
        require(points.shape[0] == size, "S014", f"{name}: there is one point for each element", x=points, y=y)
        points = points.reshape([-1 if at == along else 1 for at in range(y.ndim)])
    elif points.ndim < y.ndim:
        points = points.reshape([1] * (y.ndim - points.ndim) + list(points.shape))
    return heights * diff(points, dim=dim) / 2


@with_out
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803 - PyTorch's name
    """Return the matrix of a vector's powers from `N` - 1 down to 0, or from 0 up."""
    require(x.ndim == 1, "S002", "vander: a vector is expected", x=x)
    count = x.shape[0] if N is None else fixed_integer(N)
    require(count >= 0, "A002", "vander: N must not be negative", N=N)
    powers = ops.arange(0, count) if flag(increasing) else ops.flip(ops.arange(0, count), 0)
    base = x if x.dtype.kind >= Kind.FLOAT else x.to(int64)
    return ops.pow(base.unsqueeze(-1), powers)
