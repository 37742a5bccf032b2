"""Functions that count and slope: histograms over edges, slopes along dims, and reductions over segments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, fixed_integers, flag, number, required_tensor
from rushlight.eager.boundary import checked
from rushlight.eager.composite.forms import with_out
from rushlight.eager.composite.statistics import ends_of_elements
from rushlight.eager.creation import arange, full, linspace, zeros
from rushlight.eager.handle import Handle
from rushlight.eager.symbols import holds
from rushlight.ir.dtype import Kind, bool_, float32, float64, int64
from rushlight.ops.dims import same_shape, wrap_dim
from rushlight.support.errors import fail, require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor


# Slopes.


@checked
def gradient(input: Tensor, *, spacing: object = 1, dim: object = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Return the slopes along dims, by central differences of second order inside.

    `spacing` is the distance of neighbours (None is 1), one for each dim, or for each dim a vector of coordinates. At
    the ends differences are one-sided, of `edge_order` 1 or 2.
    """
    require(input.dtype is not bool_, "D001", "gradient: not for this dtype", input=input)
    require(edge_order in (1, 2), "A002", "gradient: edge_order is 1 or 2", edge_order=edge_order)
    named = tuple(range(input.ndim)) if dim is None else fixed_integers(dim) or ()
    dims = [wrap_dim(one, input.ndim, "gradient") for one in named]
    require(len(set(dims)) == len(dims), "A002", "gradient: a dim occurs twice", dim=dim)
    several = isinstance(spacing, (tuple, list))
    steps: Sequence[Any] = spacing if several else [1 if spacing is None else spacing] * len(dims)
    require(len(steps) == len(dims), "A002", "gradient: spacing is one for each dim", spacing=len(steps), dim=dim)
    return tuple([_slope(input, along, step, edge_order) for along, step in zip(dims, steps, strict=True)])


def _slope(input: Tensor, dim: int, step: object, order: int) -> Tensor:
    size = input.shape[dim]
    enough = not isinstance(size, int) or size > order
    require(enough, "S002", f"gradient: a dim needs at least {order + 1} elements", input=input, dim=dim)
    values = ops.movedim(input, dim, -1)
    coordinates: Any = step if isinstance(step, Handle) and step.ndim else None
    if coordinates is None:
        slope = _even_slope(values, size, number(step), order)
    else:
        fits = coordinates.ndim == 1 and coordinates.shape[0] == size
        require(fits, "S014", "gradient: one coordinate for each element", spacing=coordinates, input=input)
        slope = _uneven_slope(values, size, coordinates, order)
    return ops.movedim(slope, -1, dim)


def _part(values: Tensor, start: object, count: object) -> Tensor:
    return ops.narrow(values, -1, start, count)


def _even_slope(values: Tensor, size: Any, step: Any, order: int) -> Tensor:
    inner = (_part(values, 2, size - 2) - _part(values, 0, size - 2)) / (2 * step)
    first = [_part(values, at, 1) for at in range(order + 1)]
    last = [_part(values, size - 1 - at, 1) for at in range(order + 1)]
    if order == 1:
        return ops.cat(((first[1] - first[0]) / step, inner, (last[0] - last[1]) / step), -1)
    start = (first[1] * 4 - first[0] * 3 - first[2]) / (2 * step)
    return ops.cat((start, inner, (last[0] * 3 - last[1] * 4 + last[2]) / (2 * step)), -1)


def _uneven_slope(values: Tensor, size: Any, coordinates: Tensor, order: int) -> Tensor:
    gaps = _part(coordinates, 1, size - 1) - _part(coordinates, 0, size - 1)
    before, after = _part(gaps, 0, size - 2), _part(gaps, 1, size - 2)
    a, b, c = (
        -after / (before * (before + after)),
        (after - before) / (before * after),
        before / (after * (before + after)),
    )
    inner = a * _part(values, 0, size - 2) + b * _part(values, 1, size - 2) + c * _part(values, 2, size - 2)
    if order == 1:
        start = (_part(values, 1, 1) - _part(values, 0, 1)) / _part(gaps, 0, 1)
        end = (_part(values, size - 1, 1) - _part(values, size - 2, 1)) / _part(gaps, size - 2, 1)
        return ops.cat((start, inner, end), -1)
    start = _end_slope([_part(values, at, 1) for at in range(3)], _part(gaps, 0, 1), _part(gaps, 1, 1))
    backwards = [_part(values, size - 1 - at, 1) for at in range(3)]
    end = -_end_slope(backwards, _part(gaps, size - 2, 1), _part(gaps, size - 3, 1))
    return ops.cat((start, inner, end), -1)


def _end_slope(values: Sequence[Tensor], near: Any, far: Any) -> Tensor:
    """The slope at the first of three values, by the distances between them."""
    a = -(near * 2 + far) / (near * (near + far))
    b, c = (near + far) / (near * far), -near / (far * (near + far))
    return a * values[0] + b * values[1] + c * values[2]


# Histograms.


class Histogram(NamedTuple):
    """How many elements, or how much weight, lie between each two neighbours of `bin_edges`."""

    hist: Any
    bin_edges: Any


def _check_counted(name: str, input: Tensor, weight: Tensor | None, count: object) -> None:
    fits = required_tensor(input).dtype in (float32, float64)
    require(fits, "D001", f"{name}: the dtype must be float32 or float64", input=input)
    if weight is not None:
        same = required_tensor(weight).dtype is input.dtype
        require(same, "D002", f"{name}: input and weight differ in dtype", input=input, weight=weight)
        require(weight.numel() == count, "S014", f"{name}: there is one weight for each element", weight=weight)


@with_out
def histogram(
    input: Tensor,
    bins: int | Tensor | Sequence[object],
    *,
    range: Iterable[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Return how many elements lie in bins, and the bins' edges.

    `bins` is a number of equal ones between the ends in `range`, by default the least and greatest element, or a vector
    of edges. Elements count as their `weight`; with `density` the result is divided by its sum and the bins' widths.
    """
    _check_counted("histogram", input, weight, input.numel())
    edges = _edges("histogram", input.reshape(-1), bins, range)
    hist = _histogram(input.reshape(-1, 1), [edges], None if weight is None else weight.reshape(-1), flag(density))
    return Histogram(hist, edges)


@checked
def histogramdd(
    input: Tensor,
    bins: int | Tensor | Sequence[object],
    *,
    range: Iterable[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Return how many points, rows along the last dim, lie in the bins of a grid, and each dim's edges.

    `bins` is one number for all dims, or for each dim a number or a vector of edges; `range` has two ends for each dim.
    """
    require(input.ndim >= 2, "S002", "histogramdd: points are along the last of at least 2 dims", input=input)
    size = input.shape[-1]
    points = input.reshape(-1, size)
    _check_counted("histogramdd", input, weight, points.shape[0])
    each = list(bins) if isinstance(bins, (tuple, list)) else [bins] * size
    require(len(each) == size, "A002", "histogramdd: bins are one for each dim", bins=len(each), input=input)
    ends = None if range is None else [number(end) for end in islice(range, 2 * size + 1)]
    require(ends is None or len(ends) == 2 * size, "A002", "histogramdd: range has two ends for each dim", range=range)
    edges = [
        _edges("histogramdd", points[:, at], one, None if ends is None else ends[2 * at : 2 * at + 2])
        for at, one in enumerate(each)
    ]
    hist = _histogram(points, edges, None if weight is None else weight.reshape(-1), flag(density))
    return Histogram(hist, tuple(edges))


def _edges(name: str, values: Tensor, bins: object, ends: object) -> Tensor:
    if isinstance(bins, Handle):
        edges: Any = bins
        require(edges.ndim == 1 and edges.numel() > 0, "S002", f"{name}: edges are a vector", bins=edges)
        require(edges.dtype is values.dtype, "D002", f"{name}: edges differ in dtype", bins=edges, input=values)
        return edges
    count = fixed_integer(bins)
    require(count > 0, "A002", f"{name}: there must be a bin", bins=bins)
    low, high = (0.0, 1.0) if ends is None else _given_ends(name, ends)
    if ends is None and values.numel():
        low, high = ends_of_elements(name, values, 0.5)
    return linspace(low, high, count + 1, dtype=values.dtype, device=values.device)


def _given_ends(name: str, ends: Any) -> tuple[float, float]:
    limits = [float(number(end)) for end in ends]
    require(len(limits) == 2, "A002", f"{name}: range has two ends", range=limits)
    low, high = limits
    fits = math.isfinite(low) and math.isfinite(high) and low <= high
    require(fits, "A002", f"{name}: the range is from one number to a greater one", low=low, high=high)
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _histogram(points: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    counts = [one.shape[0] - 1 for one in edges]
    inside: Any = None
    position: Any = None
    for at, one in enumerate(edges):
        values = points[:, at]
        fits = (values >= one[0]) & (values <= one[-1])
        bin_ = ops.clamp(ops.searchsorted(one, values.contiguous(), right=True) - 1, 0, counts[at] - 1)
        inside = fits if inside is None else inside & fits
        position = bin_ if position is None else position * counts[at] + bin_
    total = 1
    for count in counts:
        total *= count
    share = inside.to(points.dtype) if weight is None else ops.where(inside, weight, 0)
    hist = ops.scatter_add(zeros(total, dtype=points.dtype, device=points.device), 0, position, share).reshape(counts)
    if density:
        hist = hist / ops.sum(hist)
        for at, one in enumerate(edges):
            widths = (one[1:] - one[:-1]).reshape([-1 if at == dim else 1 for dim, _ in enumerate(counts)])
            hist = hist / widths
    return hist


# Segments.

_REDUCTIONS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0)}
_BOUNDS = {"max": ("amax", float("-inf")), "min": ("amin", float("inf"))}


@checked
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: object = None,
) -> Tensor:
    """Return reductions over segments of a dim: sum, mean, max, min or prod.

    Segments follow each other along `axis`; either their `lengths` are given, or `offsets`, where each begins and the
    last ends. Each starts from `initial`. Unless `unsafe`, S014 where segments do not cover the dim.
    """
    rules = {**_REDUCTIONS, **_BOUNDS}
    require(reduce in rules, "A002", f"segment_reduce: reduce is one of {', '.join(rules)}", given=reduce)
    require(data.dtype.kind is Kind.FLOAT, "D001", "segment_reduce: the dtype must be floating-point", data=data)
    if indices is not None:
        fail("A006", "segment_reduce: indices are not supported", hint="give lengths or offsets")
    require((lengths is None) != (offsets is None), "A003", "segment_reduce: takes either lengths or offsets")
    along = wrap_dim(fixed_integer(axis), data.ndim, "segment_reduce")
    sizes = _lengths(data, lengths, offsets, along)
    ends = ops.cumsum(sizes, -1)
    count, size = sizes.shape[-1], data.shape[along]
    if not flag(unsafe) and count:
        uncovered = ops.sum(ends[..., -1] != size) + ops.sum(sizes < 0)
        whole = holds(uncovered.item() == 0, "segment_reduce: segments cover the dim")
        require(whole, "S014", "segment_reduce: segments do not cover the dim", lengths=sizes, data=data)
    places = arange(size, device=data.device).expand((*ends.shape[:-1], size)).contiguous()
    segment = ops.searchsorted(ends.contiguous(), places, right=True)  # what lies beyond the last one is dropped
    shape = tuple(data.shape)
    segment = segment.reshape((*shape[:along], size) + (1,) * (data.ndim - along - 1)).expand(shape)
    start, rest = shape[:along], shape[along + 1 :]
    method, neutral = rules[reduce]
    first = neutral if initial is None else float(number(initial))
    begun = full((*start, count + 1, *rest), first, dtype=data.dtype, device=data.device)
    reduced = ops.scatter_reduce(begun, along, segment, data, method, include_self=True)
    result: Tensor = ops.narrow(reduced, along, 0, count).contiguous()
    if reduce != "mean":
        return result
    divisor = sizes.reshape((*start, count) + (1,) * len(rest))
    empty = divisor == 0
    return ops.where(empty, float("nan") if initial is None else first, result / ops.where(empty, 1, divisor))


def _lengths(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, along: int) -> Tensor:
    given = required_tensor(offsets if lengths is None else lengths)
    require(given.dtype.kind is Kind.INT, "I004", "segment_reduce: lengths are integers", lengths=given)
    lead = given.ndim == along + 1 and same_shape(given.form.shape[:along], data.form.shape[:along])
    require(lead, "S014", "segment_reduce: the dims before axis are those of data", lengths=given, data=data)
    given = given.to(int64)
    return given if lengths is not None else given[..., 1:] - given[..., :-1]
