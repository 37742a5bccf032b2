"""Reductions and normalisations of the elements that a mask selects, as `torch.masked`.

A mask is a bool tensor that broadcasts to the input's shape and has no more dims; None selects all elements. What no
element is selected for has the value of an empty reduction: 0 for `sum`, NaN for `mean`, minus infinity for `amax`.

>>> import rushlight as rl
>>> mask = rl.tensor([True, False, True])
>>> rl.masked.sum(rl.tensor([1.0, 20.0, 3.0]), mask=mask)
tensor(4.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.compat.limits import iinfo
from rushlight.eager import functions as ops
from rushlight.eager.arguments import (
    default_dtype,
    element_type,
    fixed_integer,
    fixed_integers,
    flag,
    number,
    required_tensor,
)
from rushlight.eager.boundary import checked
from rushlight.eager.composite.statistics import nanmedian
from rushlight.eager.tensor import Tensor
from rushlight.ir.dtype import Kind, bool_, int64
from rushlight.ops.dims import wrap_dims
from rushlight.support.errors import require
from rushlight.support.peer_names import absent_name

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

Dims = int | Sequence[int] | None


def _selected(name: str, input: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask over every element of the input, or None."""
    given = required_tensor(input)
    if mask is None:
        return None
    require(mask.dtype is bool_, "D001", f"masked.{name}: the mask must be bool", mask=mask)
    require(mask.ndim <= given.ndim, "I005", f"masked.{name}: the mask has more dims", mask=mask, input=given)
    return ops.broadcast_to(mask, given.shape)


def _filled(name: str, input: Tensor, mask: Tensor | None, neutral: float, dtype: object = None) -> Tensor:
    """The input in a dtype, with `neutral` where the mask does not select it."""
    selected, wanted = _selected(name, input, mask), element_type(dtype)
    given = input if wanted is None else input.to(wanted)
    return given if selected is None else ops.where(selected, given, _of_dtype(neutral, given))


def _of_dtype(value: float, like: Tensor) -> Any:
    """An infinity as the furthest value that an integer dtype has; any other value as it is."""
    if math.isfinite(value) or like.dtype.kind >= Kind.FLOAT:
        return value
    if like.dtype is bool_:
        return value > 0
    return iinfo(like.dtype).max if value > 0 else iinfo(like.dtype).min


def _dims(name: str, input: Tensor, dim: Dims) -> tuple[int, ...]:
    """The dims that are reduced, all of them for None and for ()."""
    given = fixed_integers(dim if dim is None or isinstance(dim, (tuple, list)) else (dim,))
    return wrap_dims(given, input.ndim, f"masked.{name}")


def _count(name: str, input: Tensor, dims: tuple[int, ...], mask: Tensor | None) -> Tensor:
    """How many elements are selected, with the reduced dims kept."""
    selected = _selected(name, input, mask)
    chosen = ops.ones_like(input, dtype=bool_) if selected is None else selected
    return ops.sum(chosen, dims, True, dtype=int64)


@checked
def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the sum of the selected elements along dims; integers are added up as int64."""
    filled = _filled("sum", input, mask, 0, dtype)
    return ops.sum(filled, _dims("sum", input, dim), flag(keepdim), dtype=dtype)


@checked
def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the product of the selected elements along dims; integers are multiplied as int64."""
    filled = _filled("prod", input, mask, 1, dtype)
    dims, keep = _dims("prod", input, dim), flag(keepdim)
    if not dims:
        return ops.prod(filled, dtype=dtype)
    for one in sorted(dims, reverse=True):
        filled = ops.prod(filled, one, keep, dtype=dtype)
    return filled


@checked
def cumsum(input: Tensor, dim: int, *, dtype: object = None, mask: Tensor | None = None) -> Tensor:
    """Return the running sums of the selected elements along a dim."""
    return ops.cumsum(_filled("cumsum", input, mask, 0, dtype), fixed_integer(dim), dtype=dtype)


@checked
def cumprod(input: Tensor, dim: int, *, dtype: object = None, mask: Tensor | None = None) -> Tensor:
    """Return the running products of the selected elements along a dim."""
    return ops.cumprod(_filled("cumprod", input, mask, 1, dtype), fixed_integer(dim), dtype=dtype)


@checked
def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the largest selected elements along dims; the dtype's smallest value where there are none."""
    filled = _filled("amax", input, mask, -math.inf, dtype)
    return ops.amax(filled, _dims("amax", input, dim), flag(keepdim))


@checked
def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the smallest selected elements along dims; the dtype's largest value where there are none."""
    filled = _filled("amin", input, mask, math.inf, dtype)
    return ops.amin(filled, _dims("amin", input, dim), flag(keepdim))


@checked
def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the index of the first largest selected element along a dim, in the input's dtype."""
    filled = _filled("argmax", input, mask, -math.inf, dtype)
    return ops.argmax(filled, dim, flag(keepdim)).to(filled.dtype)


@checked
def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the index of the first smallest selected element along a dim, in the input's dtype."""
    filled = _filled("argmin", input, mask, math.inf, dtype)
    return ops.argmin(filled, dim, flag(keepdim)).to(filled.dtype)


@checked
def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the mean of the selected elements along dims; NaN where there are none."""
    dims = _dims("mean", input, dim)
    filled = _filled("mean", input, mask, 0, dtype)
    if mask is None:
        return ops.mean(filled, dims, flag(keepdim), dtype=dtype)
    mean = ops.sum(filled, dims, True, dtype=dtype) / _count("mean", input, dims, mask)
    return _kept(mean, dims, keepdim)


def _kept(result: Tensor, dims: tuple[int, ...], keepdim: object) -> Tensor:
    """A result with its reduced dims, or without them."""
    return result if flag(keepdim) or not dims else ops.squeeze(result, dims)


@checked
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the lower middle of the selected elements along a dim; NaN where there are none. Floating-point alone."""
    filled = _filled("median", input, mask, math.nan, dtype)
    require(filled.dtype.kind is Kind.FLOAT, "D001", "masked.median: the dtype must be floating-point", input=filled)
    median = filled.median(dim, flag(keepdim)) if mask is None else nanmedian(filled, dim, flag(keepdim))
    return median.values


@checked
def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return log(sum(exp(input))) of selected elements along dims, in `dtype`, by default the input's.

    It is minus infinity, or the least integer, where there are none.
    """
    filled = _filled("logsumexp", input, mask, -math.inf, dtype)
    found = ops.logsumexp(filled, _dims("logsumexp", input, dim), flag(keepdim))
    return found.to(element_type(dtype) or input.dtype)


@checked
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: object = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return log(exp(input) + exp(other)), where what is not selected counts as minus infinity."""
    left = _filled("logaddexp", input, input_mask, -math.inf, dtype)
    return ops.logaddexp(left, _filled("logaddexp", other, other_mask, -math.inf, dtype))


@checked
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: object = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of order `ord` of the selected elements along dims."""
    order = 2.0 if ord is None else float(number(ord))
    filled = _filled("norm", input, mask, math.inf if order < 0 else 0, dtype)
    return ops.linalg_vector_norm(filled, order, _dims("norm", input, dim), flag(keepdim), dtype=dtype)


@checked
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: object = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the selected elements along dims.

    Sums of squares are divided by count - `correction`, which is 1 unless given; `unbiased` is another way to say 1
    or 0. Integers give float32.
    """
    taken = unbiased is None or correction is None
    require(taken, "A004", "masked.var: unbiased and correction are one argument", correction=correction)
    fewer = number(correction) if correction is not None else 1 if unbiased is None else int(flag(unbiased))
    dims = _dims("var", input, dim)
    given = input if input.dtype.kind >= Kind.FLOAT or dtype is not None else input.to(default_dtype())
    wanted = element_type(dtype)
    given = given if wanted is None else given.to(wanted)
    count = _count("var", given, dims, mask)
    centre = ops.sum(_filled("var", given, mask, 0), dims, True) / count
    apart = given - centre
    squares = apart * apart.conj() if apart.dtype.is_complex else apart * apart
    total = ops.sum(_filled("var", squares, mask, 0), dims, True)
    return _kept(total / ops.clamp_min(count - fewer, 0), dims, keepdim).to(given.dtype)


@checked
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: object = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the square root of `var`."""
    return ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


@checked
def softmax(input: Tensor, dim: int, *, dtype: object = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the selected elements along a dim: 0 for others, NaN where none is selected."""
    return ops.softmax(_filled("softmax", input, mask, -math.inf, dtype), dim)


@checked
def log_softmax(input: Tensor, dim: int, *, dtype: object = None, mask: Tensor | None = None) -> Tensor:
    """Return the logarithm of `softmax`."""
    return ops.log_softmax(_filled("log_softmax", input, mask, -math.inf, dtype), dim)


@checked
def softmin(input: Tensor, dim: int, *, dtype: object = None, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the negative selected elements along a dim."""
    return ops.softmax(-_filled("softmin", input, mask, math.inf, dtype), dim)


@checked
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: object = None, mask: Tensor | None = None
) -> Tensor:
    """Return the selected elements, divided by their norm of order `ord` along a dim; 0 for the others.

    Norms below `eps` count as `eps`.
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled("normalize", input, mask, 0, dtype) / ops.clamp_min(length, number(eps))


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
