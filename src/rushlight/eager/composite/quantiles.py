"""Quantiles: elements of a rank between the smallest and the largest ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, flag, is_tensor, number, required_tensor
from rushlight.eager.asserting import asks_values, require_values
from rushlight.eager.autocast import autocasts
from rushlight.eager.composite.forms import with_out
from rushlight.eager.creation import full
from rushlight.eager.tracing.number import TracedNumber
from rushlight.ir.dtype import int64
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_MODES = ("linear", "lower", "higher", "nearest", "midpoint")


@with_out
@autocasts("float32")
def quantile(
    input: Tensor, q: object, dim: object = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return the `q`-quantiles of the elements, of all or along a dim; NaN where one is NaN.

    `q` is a number or a vector of them, whose results are along a first dim. Between two elements `interpolation` takes
    a linear mean, the `lower`, the `higher` or the `nearest` one, or their `midpoint`.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, ignore=False)


@with_out
@autocasts("float32")
def nanquantile(
    input: Tensor, q: object, dim: object = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return the quantiles of the elements that are not NaN, as `quantile`; NaN where there are none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, ignore=True)


def _quantile(name: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, *, ignore: bool) -> Any:
    require(required_tensor(input).dtype.is_floating_point, "D001", f"{name}: not for this dtype", input=input)
    require(
        interpolation in _MODES, "A002", f"{name}: interpolation is one of {', '.join(_MODES)}", given=interpolation
    )
    rank = input.ndim
    flat = input.reshape(-1) if dim is None or rank == 0 else input
    along = 0 if dim is None else wrap_dim(fixed_integer(dim), rank, name)
    size = flat.shape[along]
    require(not isinstance(size, int) or input.numel() > 0, "S002", f"{name}: there is no element", input=input)
    levels = _levels(name, input, q)
    ordered = ops.movedim(flat, along, -1).sort(-1).values
    last = ops.narrow(ordered, -1, size - 1, 1)
    if ignore:
        most: Any = ops.clamp(ops.sum(~ops.isnan(ordered), -1, True) - 1, 0)
    else:
        most = size - 1
    quantiles = _between(ordered, levels.reshape(-1) * most, interpolation)
    quantiles = quantiles if ignore else ops.where(ops.isnan(last), last, quantiles)
    keep = [1] * rank if dim is None else [1 if at == along else length for at, length in enumerate(input.shape)]
    if levels.ndim:
        quantiles = ops.movedim(quantiles, -1, 0)
        return quantiles.reshape(-1, *keep) if flag(keepdim) and rank else quantiles
    quantiles = quantiles.squeeze(-1)
    return quantiles.reshape(keep) if flag(keepdim) and rank else quantiles


def _levels(name: str, input: Any, q: Any) -> Any:
    """`q` as a tensor of the input's dtype. Errors: A002 beyond 0 and 1."""
    if is_tensor(q):
        levels: Any = q
        require(levels.ndim <= 1, "S002", f"{name}: q is a number or a vector", q=levels)
        require(levels.dtype is input.dtype, "D002", f"{name}: q and input differ in dtype", q=levels, input=input)
        if asks_values():
            require_values((levels >= 0) & (levels <= 1), "A002", f"{name}: q must be between 0 and 1", q=levels)
        return levels
    value = number(q.item() if isinstance(q, TracedNumber) else q)
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(fits, "A001", f"{name}: q must be a number", q=q)
    require(0 <= value <= 1 and math.isfinite(value), "A002", f"{name}: q must be between 0 and 1", q=q)
    return full((), float(value), dtype=input.dtype, device=input.device)


def _between(ordered: Any, ranks: Any, mode: str) -> Any:
    """Elements of ranks, which lie between places, along the last dim."""
    if mode == "nearest":
        ranks = ops.round(ranks)
    below = ops.floor(ranks)
    lead = tuple(ordered.shape[:-1])
    wanted = (*lead, ranks.shape[-1])

    def at(places: Any) -> Any:
        return ops.gather(ordered, -1, places.to(int64).expand(wanted))

    if mode in ("lower", "nearest"):
        return at(below)
    if mode == "higher":
        return at(ops.ceil(ranks))
    share = 0.5 if mode == "midpoint" else ranks - below
    low, high = at(below), at(ops.ceil(ranks))
    return ops.where(
        ranks == below, low, ops.lerp(low, high, share if mode == "linear" else full((), 0.5, dtype=low.dtype))
    )
