"""Rows of a table combined in bags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ir.dtype import int64
from rushlight.ir.loops import Operand, Scatter, axes_of
from rushlight.ir.scalar import cast, constant
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import count_of, filled, positions, zeros_of
from rushlight.ops.dims import Array, At, convert, integers, normal, same_shape, widened
from rushlight.ops.index.ranged import offsets_within, offsets_within_ref
from rushlight.ops.index.read import embedding, require_integers
from rushlight.ops.index.write import embedding_backward
from rushlight.ops.join import cat, constant_pad_nd
from rushlight.ops.pointwise import rounding
from rushlight.ops.pointwise.arithmetic import floor_divide
from rushlight.ops.pointwise.comparison import eq
from rushlight.ops.pointwise.selection import where
from rushlight.ops.pool.window import lowest
from rushlight.ops.ragged import segment_lengths, segment_sum
from rushlight.ops.record import Gradients, Sample, define
from rushlight.ops.reduce.scan import cumsum
from rushlight.ops.view.part import select, slice_
from rushlight.ops.view.reorder import unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import fail, require
from rushlight.sym import Size, ceildiv, ge, maximum, required

BLOCK, LEVELS = 32, 2
"""Of running sums, which take time that grows with the square of what is summed at once."""

extreme_rows = define(
    "extreme_rows(Tensor rows, Tensor indices, Size count, bool largest) -> Tensor",
    "For each index below `count`, the largest (or smallest) elements of the rows that have it; the least (greatest) "
    "number of the dtype where none has. The first of equal elements gets the gradient.",
    dtypes="ordered",
    variants="",
)


def _start(largest: bool, dtype: np.dtype[Any]) -> float:
    if largest:
        return lowest(dtype)
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else np.inf


@extreme_rows.meta
def extreme_rows_meta(rows: TensorType, indices: TensorType, count: Size, largest: bool) -> TensorType:
    require_integers("extreme_rows", indices=indices)
    fits = rows.ndim == 2 and same_shape(rows.shape[:1], indices.shape)
    require(fits, "S014", "extreme_rows: an index for each row is needed", rows=rows, indices=indices)
    return TensorType((count, rows.shape[1]), rows.dtype, rows.device)


@extreme_rows.ref
def extreme_rows_ref(rows: Array, indices: Array, count: int, largest: bool) -> Array:
    result = np.full((count, rows.shape[1]), _start(largest, rows.dtype), rows.dtype)
    (np.maximum if largest else np.minimum).at(result, indices, rows)
    return result


@extreme_rows.lower
def extreme_rows_lower(at: At, rows: Operand, indices: Operand, count: Size, largest: bool) -> Scatter:
    axes = axes_of(rows.shape, "s")
    initial = constant(_start(largest, rows.dtype.numpy), rows.dtype)
    return Scatter(initial, axes, (cast(indices[axes[0]], int64), axes[1]), rows[axes], "max" if largest else "min")


@extreme_rows.vjp
def extreme_rows_vjp(g: Value, out: Value, rows: Value, indices: Value, count: Size) -> Gradients:
    number = unsqueeze(positions(rows, rows.shape[0]), 1)
    wins = eq(rows, embedding(indices, out))
    candidates = where(wins, number, count_of(rows, rows.shape[0]))
    first = extreme_rows(candidates, indices, count, False)
    chosen = eq(number, embedding(indices, first))
    return where(chosen, embedding(indices, g), zeros_of(g, ())), None


@extreme_rows.samples
def extreme_rows_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 7, 3), rng.permutation(np.arange(7) % 4), 4, True)
    yield Sample(normal(rng, 5, 2), rng.permutation(np.arange(5) % 3), 3, False)


embedding_bag = define(
    "embedding_bag(Tensor weight, Tensor input, Tensor? offsets=None, Tensor? per_sample_weights=None, "
    "str mode='mean', bool include_last_offset=False, int? padding_idx=None) -> Tensor",
    "Rows of a table, combined in bags by sum, mean or max. A bag is a row of the input or, with offsets, begins at "
    "each of them and ends at the next. Rows may have weights in sums; those of `padding_idx` are left out. An empty "
    "bag gives 0.",
    dtypes="float",
    variants="",
)


def _require_bags(
    input: Value, weight: Value, offsets: Value | None, per_sample_weights: Value | None, mode: str
) -> None:
    require_integers("embedding_bag", input=input)
    require(weight.ndim == 2, "S002", "embedding_bag: the weight must have 2 dims", weight=weight.shape)
    if offsets is None:
        require(input.ndim == 2, "S002", "embedding_bag: without offsets the input must have 2 dims", input=input.shape)
    else:
        fits = input.ndim == offsets.ndim == 1
        require(fits, "S002", "embedding_bag: input and offsets must have 1 dim", input=input.shape)
    require(mode in ("sum", "mean", "max"), "A002", "embedding_bag: mode has to be one of sum, mean or max", mode=mode)
    if per_sample_weights is not None:
        if mode != "sum":
            fail("A006", f"embedding_bag: per_sample_weights go with mode sum, not {mode}")
        fits = same_shape(per_sample_weights.shape, input.shape)
        require(fits, "S014", "embedding_bag: weights and input differ in shape", per_sample_weights=input.shape)


def _bags(input: Value, flat: Value, offsets: Value | None, include_last_offset: bool) -> tuple[Value, Size]:
    """(The bag of each element of the flattened input, how many bags there are)."""
    if offsets is None:
        numbers = positions(input, flat.shape[0])
        # A row without elements has none whose bag is asked for.
        length = count_of(numbers, maximum(input.shape[1], 1))
        return floor_divide(numbers, length), input.shape[0]
    # One place more: for bags that begin after the last element.
    members = flat.shape[0]
    starts = offsets_within(offsets, members)
    begun = embedding_backward(filled(offsets, (*offsets.shape, 1), 1, int64), starts, members + 1, None)
    bags = _running_sums(reshape(begun, (members + 1,)), LEVELS) - 1
    count = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    require(required(ge(count, 0)), "S002", "embedding_bag: the last offset is missing", offsets=offsets.shape)
    return slice_(bags, 0, 0, members), count


def _running_sums(counts: Value, levels: int) -> Value:
    """cumsum of ints, which may be added in any order: within blocks, and over the blocks before."""
    if levels == 0:
        return cumsum(counts, 0)
    (size,) = counts.shape
    blocks = ceildiv(size, BLOCK)
    rows = reshape(constant_pad_nd(counts, (0, blocks * BLOCK - size)), (blocks, BLOCK))
    within = cumsum(rows, 1)
    totals = select(within, 1, BLOCK - 1)
    before = _running_sums(totals, levels - 1) - totals
    return slice_(reshape(within + unsqueeze(before, 1), (-1,)), 0, 0, size)


@embedding_bag.decompose
def embedding_bag_decompose(
    weight: Value,
    input: Value,
    offsets: Value | None,
    per_sample_weights: Value | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Value:
    _require_bags(input, weight, offsets, per_sample_weights, mode)
    flat = reshape(input, (-1,))
    if mode == "max":
        return _maxima(weight, input, flat, offsets, include_last_offset, padding_idx)
    ends = _ends(input, flat, offsets, include_last_offset)
    # A sum leaves out a row that does not exist.
    kept = flat if padding_idx is None else where(eq(flat, padding_idx), -1, convert(flat, int64))
    weights = None if per_sample_weights is None else reshape(per_sample_weights, (-1,))
    total = segment_sum(widened(weight) if mode == "mean" else weight, ends, kept, weights)
    if mode == "sum":
        return total
    if padding_idx is None:
        members = unsqueeze(segment_lengths(convert(ends, total.dtype), ends.shape[0] - 1), 1)
    else:
        one = filled(total, (flat.shape[0], 1), 1)
        members = segment_sum(where(unsqueeze(eq(flat, padding_idx), 1), 0.0, one), ends, None, None)
    return convert(total / rounding.maximum(members, 1.0), weight.dtype)


def _ends(input: Value, flat: Value, offsets: Value | None, include_last_offset: bool) -> Value:
    """Where each bag begins, and at last where the last one ends."""
    if offsets is None:
        starts = positions(input, input.shape[0] + 1)
        return starts * count_of(starts, input.shape[1])
    members = flat.shape[0]
    starts = offsets_within(offsets, members)
    if include_last_offset:
        require(required(ge(starts.shape[0], 1)), "S002", "embedding_bag: the last offset is missing", offsets=offsets)
        return starts
    last = filled(starts, (1,), 1, int64) * count_of(starts, members)
    return cat([convert(starts, int64), last], 0)


def _maxima(
    weight: Value, input: Value, flat: Value, offsets: Value | None, include_last_offset: bool, padding_idx: int | None
) -> Value:
    bags, count = _bags(input, flat, offsets, include_last_offset)
    rows = widened(embedding(flat, weight, padding_idx))
    kept = filled(rows, (flat.shape[0], 1), 1)
    if padding_idx is not None:
        padded = unsqueeze(eq(flat, padding_idx), 1)
        kept = where(padded, 0.0, kept)
        rows = where(padded, lowest(rows.dtype.numpy), rows)
    members = embedding_backward(kept, bags, count, None)
    maxima = extreme_rows(rows, bags, count, True)
    return convert(where(eq(members, 0.0), zeros_of(maxima, ()), maxima), weight.dtype)


@embedding_bag.ref
def embedding_bag_ref(
    weight: Array,
    input: Array,
    offsets: Array | None,
    per_sample_weights: Array | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Array:
    flat = input.reshape(-1)
    numbers = np.arange(len(flat))
    if offsets is None:
        bags, count = numbers // max(input.shape[1], 1), input.shape[0]
    else:
        offsets = offsets_within_ref(offsets, len(flat), False)
        bags, count = np.sum(offsets[:, None] <= numbers, 0) - 1, len(offsets) - include_last_offset
    rows = weight[flat]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1).astype(weight.dtype)
    result = np.zeros((count, weight.shape[1]), weight.dtype)
    for bag in range(count):
        members = rows[(bags == bag) & (flat != padding_idx)]
        if len(members):
            result[bag] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](members, 0)
    return result


@embedding_bag.samples
def embedding_bag_samples(rng: np.random.Generator) -> Iterator[Sample]:
    offsets = np.array([0, 2, 2, 7])
    yield Sample(normal(rng, 6, 4), integers(rng, 0, 6, 9), offsets)
    yield Sample(normal(rng, 6, 4), integers(rng, 0, 6, 9), offsets, normal(rng, 9), "sum")
    yield Sample(normal(rng, 6, 4), integers(rng, 0, 6, 9), np.append(offsets, 9), None, "max", True)
    yield Sample(normal(rng, 3, 2), integers(rng, 0, 3, 3, 4), None, None, "max", False, 1)
    yield Sample(normal(rng, 3, 2), integers(rng, 0, 3, 3, 4), padding_idx=2)
    yield Sample(normal(rng, 3, 2), integers(rng, 0, 3, 3, 4), None, normal(rng, 3, 4), "sum")
