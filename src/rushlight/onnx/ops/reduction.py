"""Reductions along dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.registry import define, operator
from rushlight.onnx.values import Numbers, integers

Reduce = Callable[[Tensor, list[int], bool], Tensor]


def _extreme(name: str) -> Reduce:
    def reduce(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
        if x.dtype is rl.bool:
            return _any_or_all(x, dims, keepdim, name == "amax")
        if any(x.shape[dim] == 0 for dim in dims):
            return _of_nothing(x, dims, keepdim, name == "amax")
        return getattr(rl, name)(x, dims, keepdim)

    return reduce


def _any_or_all(x: Tensor, dims: list[int], keepdim: bool, largest: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = x.any(dim, keepdim) if largest else x.all(dim, keepdim)
    return x


def _of_nothing(x: Tensor, dims: list[int], keepdim: bool, largest: bool) -> Tensor:
    low, high = (
        (-float("inf"), float("inf")) if x.is_floating_point() else (rl.iinfo(x.dtype).min, rl.iinfo(x.dtype).max)
    )
    return x.sum(dims, keepdim).to(x.dtype).fill_(low if largest else high)


def _sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return x.sum(dims, keepdim, dtype=x.dtype)


def _mean(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return x.mean(dims, keepdim) if x.is_floating_point() else x.double().mean(dims, keepdim).to(x.dtype)


def _product(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim, dtype=x.dtype)
    return x


def _absolute_sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return _sum(x.abs(), dims, keepdim)


def _length(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    number = x if x.is_floating_point() else x.double()
    return number.square().sum(dims, keepdim).sqrt().to(x.dtype)


def _log_sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return _sum(x, dims, keepdim).log()


def _log_sum_exp(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return rl.logsumexp(x, dims, keepdim)


def _square_sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return _sum(x * x, dims, keepdim)


_KINDS: dict[str, tuple[Reduce, int]] = {
    "ReduceMax": (_extreme("amax"), 18),
    "ReduceMin": (_extreme("amin"), 18),
    "ReduceSum": (_sum, 13),
    "ReduceMean": (_mean, 18),
    "ReduceProd": (_product, 18),
    "ReduceL1": (_absolute_sum, 18),
    "ReduceL2": (_length, 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
    "ReduceSumSquare": (_square_sum, 18),
}


def _along(reduce: Reduce, x: Tensor, axes: Sequence[int] | None, keepdims: int, leave: int) -> Tensor:
    if not axes and leave:
        return x
    dims = sorted({axis % x.dim() for axis in axes}) if axes else list(range(x.dim()))
    return reduce(x, dims, bool(keepdims)) if dims else reduce(x.reshape(1), [0], False)


def _by_operand(reduce: Reduce) -> Callable[..., Tensor]:
    def rule(x: Tensor, axes: Numbers | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        return _along(reduce, x, None if axes is None else integers(axes), keepdims, noop_with_empty_axes)

    return rule


def _by_attribute(reduce: Reduce) -> Callable[..., Tensor]:
    def rule(x: Tensor, *, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Tensor:
        return _along(reduce, x, axes, keepdims, 0)

    return rule


for _name, (_reduce, _since) in _KINDS.items():
    define(_name, _by_operand(_reduce), _since, host=(1,))
    define(_name, _by_attribute(_reduce))


def _last(x: Tensor, axis: int, keepdims: int, largest: bool) -> Tensor:
    flipped = x.flip(axis)
    places = flipped.argmax(axis, bool(keepdims)) if largest else flipped.argmin(axis, bool(keepdims))
    return x.shape[axis] - 1 - places


@operator("ArgMax")
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the largest number is along a dim: first, or last."""
    return _last(x, axis, keepdims, largest=True) if select_last_index else x.argmax(axis, bool(keepdims))


@operator("ArgMin")
def argmin(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the smallest number is along a dim: first, or last."""
    return _last(x, axis, keepdims, largest=False) if select_last_index else x.argmin(axis, bool(keepdims))


@operator("TopK", host=(1,))
def topk(x: Tensor, count: Numbers, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """The largest or smallest numbers along a dim, and their places; the first of equal ones comes first."""
    values, places = x.sort(dim=axis, descending=bool(largest), stable=True)
    size = integers(count)[0]
    return values.narrow(axis, 0, size), places.narrow(axis, 0, size)
