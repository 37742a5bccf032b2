"""Ragged data: rows in segments that offsets bound, such as the members of bags or the steps of sequences.

Segment i is the rows from `offsets[i]` to `offsets[i + 1]`. Loops over it end where memory says (`ir/ragged.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from rushlight.ir.dtype import compute_dtype, int64, uint8
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import BLOCKED, Scalar, apply, cast, constant, index, lift, reduce
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.create import positions
from rushlight.ops.dims import Array, At, convert, guarded, integers, normal, same_shape, widened, within, zero
from rushlight.ops.index.read import embedding, require_integers
from rushlight.ops.index.write import embedding_backward
from rushlight.ops.join import cat
from rushlight.ops.pointwise.rounding import maximum
from rushlight.ops.record import Fact, Gradients, Sample, define
from rushlight.ops.reduce.reduction import sum_
from rushlight.ops.segments import segment_numbers
from rushlight.ops.view.part import slice_
from rushlight.ops.view.reorder import unsqueeze
from rushlight.ops.view.reshape import reshape
from rushlight.support.errors import require
from rushlight.sym import Size, axis_symbol, floordiv, required
from rushlight.sym import ge as at_least

V = TypeVar("V", bound=Value)

segment_sum = define(
    "segment_sum(Tensor rows, Tensor offsets, Tensor? indices=None, Tensor? weights=None) -> Tensor",
    "The sum of the rows of each segment, each row times its weight. With `indices` a segment is of these, which name "
    "rows; rows that do not exist are left out. An empty segment gives 0.",
    dtypes="float",
    variants="",
)
padded_segments = define(
    "padded_segments(Tensor rows, Tensor offsets, Size length, float padding=0.0) -> Tensor",
    "The first `length` rows of each segment as one dim; `padding` where a segment has fewer.",
    dtypes="all",
    variants="",
)
unpadded_segments = define(
    "unpadded_segments(Tensor padded, Tensor offsets, Size count) -> Tensor",
    "The inverse of padded_segments: `count` rows, 0 where a row is in no segment or beyond the padded dim.",
    dtypes="all",
    variants="",
)


def _bounds(offsets: Operand, segment: Size, count: Size) -> tuple[Scalar, Scalar]:
    """(The first place of a segment, its length), as far as places exist."""
    low, high = constant(0, int64), lift(count, int64)
    first, end = (
        apply("minimum", apply("maximum", cast(offsets[place], int64), low), high) for place in (segment, segment + 1)
    )
    return first, end - first


@segment_sum.meta
def segment_sum_meta(
    rows: TensorType, offsets: TensorType, indices: TensorType | None, weights: TensorType | None
) -> TensorType:
    require(rows.ndim == 2, "S002", "segment_sum: rows have 2 dims", rows=rows)
    places = rows.shape[:1] if indices is None else indices.shape
    if indices is not None:
        require_integers("segment_sum", indices=indices)
        require(indices.ndim == 1, "S002", "segment_sum: indices have 1 dim", indices=indices)
    if weights is not None:
        require(same_shape(weights.shape, places), "S014", "segment_sum: a weight for each member", weights=weights)
    return TensorType((_segments("segment_sum", offsets), rows.shape[1]), rows.dtype, rows.device)


def _segments(op: str, offsets: TensorType | Value) -> Size:
    """The number of segments."""
    require_integers(op, offsets=offsets)
    require(len(offsets.shape) == 1, "S002", f"{op}: offsets have 1 dim", offsets=offsets)
    has_end = required(at_least(offsets.shape[0], 1))
    require(has_end, "S002", f"{op}: the last offset is missing", offsets=offsets)
    return offsets.shape[0] - 1


@segment_sum.ref
def segment_sum_ref(rows: Array, offsets: Array, indices: Array | None, weights: Array | None) -> Array:
    members = rows
    if indices is not None:
        members = np.zeros((len(indices), rows.shape[1]), rows.dtype)
        exists = (indices >= 0) & (indices < len(rows))
        members[exists] = rows[indices[exists]]
    if weights is not None:
        members = members * weights[:, None].astype(rows.dtype)
    result = np.zeros((len(offsets) - 1, rows.shape[1]), rows.dtype)
    for segment in range(len(result)):
        result[segment] = members[offsets[segment] : offsets[segment + 1]].sum(0)
    return result


@segment_sum.lower
def segment_sum_lower(
    at: At, rows: Operand, offsets: Operand, indices: Operand | None, weights: Operand | None
) -> Scalar:
    count = rows.shape[0] if indices is None else indices.shape[0]
    first, length = _bounds(offsets, at[0], count)
    step = axis_symbol(count, "k")
    place = first + index(step)
    if indices is None:
        member = rows[place, at[1]]
    else:
        row = cast(indices[place], int64)
        member = guarded(within(row, rows.shape[0]), rows[row, at[1]], zero(rows.dtype))
    dtype = compute_dtype(rows.dtype)
    element = cast(member, dtype)
    if weights is not None:
        element = element * cast(weights[place], dtype)
    return cast(reduce("sum", (step,), guarded([index(step) < length], element, zero(dtype)), BLOCKED), rows.dtype)


@segment_sum.vjp
def segment_sum_vjp(g: Value, rows: Value, offsets: Value, indices: Value | None, weights: Value | None) -> Gradients:
    count = rows.shape[0] if indices is None else indices.shape[0]
    own = _of_own_segment(widened(g), offsets, count)
    wide = own if weights is None else own * convert(unsqueeze(weights, 1), own.dtype)
    if indices is not None:
        wide = embedding_backward(wide, indices, rows.shape[0], None)
    if weights is None:
        return convert(wide, rows.dtype), None, None, None
    members = rows if indices is None else embedding(indices, rows)
    return convert(wide, rows.dtype), None, None, convert(sum_(own * widened(members), (1,)), weights.dtype)


def _of_own_segment(rows: Value, offsets: Value, count: Size) -> Value:
    """For each of `count` places the row of its segment, 0 for places without one: a segment of one place each."""
    return segment_sum(rows, positions(offsets, count + 1), segment_numbers(offsets, count), None)


@segment_sum.samples
def segment_sum_samples(rng: np.random.Generator) -> Iterator[Sample]:
    offsets = np.array([0, 2, 2, 7])
    yield Sample(normal(rng, 7, 4), offsets)
    yield Sample(normal(rng, 7, 4), offsets, None, normal(rng, 7))
    yield Sample(normal(rng, 5, 4), np.array([1, 4, 9], np.int32), integers(rng, 0, 5, 9))
    yield Sample(normal(rng, 5, 3), offsets, integers(rng, 0, 5, 9), normal(rng, 9))
    yield Sample(normal(rng, 5, 3), np.array([0, 300, 700]), integers(rng, 0, 5, 700), normal(rng, 700))


def segment_lengths(offsets: V, count: Size) -> V:
    """The number of places of each of `count` segments."""
    lengths: Any = slice_(offsets, 0, 1, None) - slice_(offsets, 0, 0, count)
    return lengths


@padded_segments.meta
def padded_segments_meta(rows: TensorType, offsets: TensorType, length: Size, padding: float) -> TensorType:
    require(rows.ndim >= 1, "S002", "padded_segments: rows have a dim", rows=rows)
    require(required(at_least(length, 0)), "S004", "padded_segments: a length is not negative", length=length)
    shape = (_segments("padded_segments", offsets), length, *rows.shape[1:])
    return TensorType(shape, rows.dtype, rows.device)


@padded_segments.ref
def padded_segments_ref(rows: Array, offsets: Array, length: int, padding: float) -> Array:
    result = np.full((len(offsets) - 1, length, *rows.shape[1:]), padding, rows.dtype)
    for segment in range(len(result)):
        members = rows[offsets[segment] : offsets[segment + 1]][:length]
        result[segment, : len(members)] = members
    return result


@padded_segments.lower
def padded_segments_lower(at: At, rows: Operand, offsets: Operand, length: Size, padding: float) -> Scalar:
    first, members = _bounds(offsets, at[0], rows.shape[0])
    element = rows[(first + index(at[1]), *at[2:])]
    return guarded([index(at[1]) < members], element, constant(padding, rows.dtype))


@padded_segments.vjp(types=("rows",))
def padded_segments_vjp(g: Value, rows: TensorType, offsets: Value) -> Gradients:
    return unpadded_segments(g, offsets, rows.shape[0]), None


@padded_segments.samples
def padded_segments_samples(rng: np.random.Generator) -> Iterator[Sample]:
    offsets = np.array([0, 2, 2, 7])
    yield Sample(normal(rng, 7, 4), offsets, 3)
    yield Sample(normal(rng, 7), offsets, 6, -1.0)
    yield Sample(normal(rng, 9, 2, 3), np.array([1, 4, 8], np.int32), 4)


def _require_segments(op: str, padded: TensorType, offsets: TensorType) -> None:
    require(padded.ndim >= 2, "S002", f"{op}: segments and their rows are 2 dims", padded=padded)
    fits = same_shape(padded.shape[:1], (_segments(op, offsets),))
    require(fits, "S014", f"{op}: the offsets are of another number of segments", padded=padded, offsets=offsets)


@unpadded_segments.meta
def unpadded_segments_meta(padded: TensorType, offsets: TensorType, count: Size) -> TensorType:
    _require_segments("unpadded_segments", padded, offsets)
    require(required(at_least(count, 0)), "S004", "unpadded_segments: a count is not negative", count=count)
    return TensorType((count, *padded.shape[2:]), padded.dtype, padded.device)


@unpadded_segments.ref
def unpadded_segments_ref(padded: Array, offsets: Array, count: int) -> Array:
    result = np.zeros((count, *padded.shape[2:]), padded.dtype)
    for segment, rows in enumerate(padded):
        part = result[offsets[segment] : offsets[segment + 1]][: len(rows)]
        part[...] = rows[: len(part)]
    return result


@unpadded_segments.decompose
def unpadded_segments_decompose(padded: Value, offsets: Value, count: Size) -> Value:
    numbers = segment_numbers(offsets, count)
    return segment_elements(padded, offsets, numbers)


segment_elements = define(
    "segment_elements(Tensor padded, Tensor offsets, Tensor numbers) -> Tensor",
    "For each place, which lies in the segment of its number, its row of a padded tensor; 0 where that has none.",
    dtypes="all",
    variants="",
)


@segment_elements.meta
def segment_elements_meta(padded: TensorType, offsets: TensorType, numbers: TensorType) -> TensorType:
    require_integers("segment_elements", numbers=numbers)
    require(numbers.ndim == 1, "S002", "segment_elements: a number for each place", numbers=numbers)
    _require_segments("segment_elements", padded, offsets)
    return TensorType((*numbers.shape, *padded.shape[2:]), padded.dtype, padded.device)


@segment_elements.ref
def segment_elements_ref(padded: Array, offsets: Array, numbers: Array) -> Array:
    result = np.zeros((len(numbers), *padded.shape[2:]), padded.dtype)
    for place, number in enumerate(numbers):
        if 0 <= number < len(padded) and 0 <= place - offsets[number] < padded.shape[1]:
            result[place] = padded[number, place - offsets[number]]
    return result


@segment_elements.lower
def segment_elements_lower(at: At, padded: Operand, offsets: Operand, numbers: Operand) -> Scalar:
    number = numbers[at[0]]
    first = guarded(within(number, padded.shape[0]), cast(offsets[number], int64), constant(-1, int64))
    step = index(at[0]) - first
    inside = [*within(number, padded.shape[0]), *within(step, padded.shape[1])]
    return guarded(inside, padded[(number, step, *at[1:])], zero(padded.dtype))


@segment_elements.vjp(types=("padded",))
def segment_elements_vjp(g: Value, padded: TensorType, offsets: Value, numbers: Value) -> Gradients:
    return padded_segments(g, offsets, padded.shape[1]), None, None


@segment_elements.samples
def segment_elements_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 2, 4), np.array([0, 2, 2, 7]), np.array([0, 0, 2, 2, 2, 2, 2, 3]))


@unpadded_segments.vjp(types=("padded",))
def unpadded_segments_vjp(g: Value, padded: TensorType, offsets: Value) -> Gradients:
    return padded_segments(g, offsets, padded.shape[1]), None


@unpadded_segments.samples
def unpadded_segments_samples(rng: np.random.Generator) -> Iterator[Sample]:
    offsets = np.array([0, 2, 2, 7])
    yield Sample(normal(rng, 3, 4, 2), offsets, 8)
    yield Sample(normal(rng, 2, 5), np.array([1, 4, 8], np.int32), 9)


ids_within = define(
    "ids_within(Tensor ids, Tensor starts, Tensor limits) -> Tensor",
    "The ids themselves. Those from `starts[i]` to `starts[i + 1]` are not negative and below `limits[i]` (E006).",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="integral",
    variants="",
)
lengths_within = define(
    "lengths_within(Tensor lengths, Size count) -> Tensor",
    "The lengths of segments themselves. None is negative (E004), and they sum to `count` (E003).",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="integral",
    variants="",
)
pooled_segments = define(
    "pooled_segments(Tensor[] tables, Tensor indices, Tensor offsets, Tensor? weights, int[] features, bool[] means)"
    " -> Tensor",
    "The rows of each feature's table, summed or averaged segment by segment, side by side: an equal number of "
    "segments for each of `features`, which are places of tables. Ids without a row are left out; `ids_within` refuses "
    "them.",
    dtypes="float",
    variants="",
    facts=Fact.PROMISED,
)


@ids_within.meta
def ids_within_meta(ids: TensorType, starts: TensorType, limits: TensorType) -> TensorType:
    require_integers("ids_within", ids=ids, starts=starts, limits=limits)
    flat = ids.ndim == starts.ndim == limits.ndim == 1
    require(flat, "S002", "ids_within: ids, starts and limits have 1 dim", ids=ids, starts=starts, limits=limits)
    return TensorType(ids.shape, ids.dtype, ids.device)


@ids_within.ref
def ids_within_ref(ids: Array, starts: Array, limits: Array) -> Array:
    feature = np.searchsorted(starts, np.arange(len(ids)), side="right") - 1
    known = (feature >= 0) & (feature < len(limits))
    limit = np.where(known, limits[np.where(known, feature, 0)] if len(limits) else 0, 0)
    fits = bool(((ids >= 0) & (ids < limit)).all())
    require(fits, "E006", "ids_within: ids must name rows of their feature's table", ids=ids.tolist())
    return ids


@ids_within.lower
def ids_within_lower(at: At, ids: Operand, starts: Operand, limits: Operand) -> Scalar:
    return ids[at]


@ids_within.samples
def ids_within_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(integers(rng, 0, 3, 7), np.array([0, 3, 7]), np.array([100, 100]))


@lengths_within.meta
def lengths_within_meta(lengths: TensorType, count: Size) -> TensorType:
    require_integers("lengths_within", lengths=lengths)
    require(lengths.ndim == 1, "S002", "lengths_within: lengths have 1 dim", lengths=lengths)
    return TensorType(lengths.shape, lengths.dtype, lengths.device)


@lengths_within.ref
def lengths_within_ref(lengths: Array, count: int) -> Array:
    require(bool((lengths >= 0).all()), "E004", "lengths_within: lengths must not be negative")
    total = int(lengths.sum())
    require(total == count, "E003", "lengths_within: lengths must sum to the number of values", sum=total, count=count)
    return lengths


@lengths_within.lower
def lengths_within_lower(at: At, lengths: Operand, count: Size) -> Scalar:
    return lengths[at]


@lengths_within.samples
def lengths_within_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.array([2, 0, 5]), 7)


@pooled_segments.decompose
def pooled_segments_decompose(
    tables: Sequence[Value],
    indices: Value,
    offsets: Value,
    weights: Value | None,
    features: Sequence[int],
    means: Sequence[bool],
) -> Value:
    known = all(0 <= table < len(tables) for table in features)
    require(known, "A002", "pooled_segments: features name tables", features=tuple(features), tables=len(tables))
    require(features, "A002", "pooled_segments: there is a feature")
    require(len(means) == len(features), "A002", "pooled_segments: a mean or sum for each feature", means=tuple(means))
    batch = floordiv(_segments("pooled_segments", offsets), len(features))
    pooled: list[Value] = []
    for place, (table, mean) in enumerate(zip(features, means, strict=True)):
        ends = slice_(offsets, 0, place * batch, (place + 1) * batch + 1)
        total = segment_sum(tables[table], ends, indices, weights)
        if mean:
            total = total / unsqueeze(convert(maximum(segment_lengths(ends, batch), 1), total.dtype), 1)
        pooled.append(total)
    return cat(pooled, 1)


@pooled_segments.ref
def pooled_segments_ref(
    tables: Sequence[Array],
    indices: Array,
    offsets: Array,
    weights: Array | None,
    features: Sequence[int],
    means: Sequence[bool],
) -> Array:
    batch = (len(offsets) - 1) // len(features)
    pooled: list[Array] = []
    for place, (table, mean) in enumerate(zip(features, means, strict=True)):
        ends = offsets[place * batch : (place + 1) * batch + 1]
        total = segment_sum_ref(tables[table], ends, indices, weights)
        pooled.append(total / np.maximum(np.diff(ends), 1)[:, None].astype(total.dtype) if mean else total)
    return np.concatenate(pooled, 1)


@pooled_segments.samples
def pooled_segments_samples(rng: np.random.Generator) -> Iterator[Sample]:
    tables = [normal(rng, 5, 4), normal(rng, 3, 2)]
    offsets = np.array([0, 2, 2, 5, 7, 8, 9])
    ids = integers(rng, 0, 3, 9)
    yield Sample(tables, ids, offsets, None, (0, 1), (False, True))
    yield Sample(tables, ids, offsets, normal(rng, 9), (1, 0, 1), (False, False, False))
    yield Sample(tables, np.array([0, 99, 1, -1, 2, 3, 0, 5, 2]), offsets, None, (0, 1), (False, True))


quantized_segment_sum = define(
    "quantized_segment_sum(Tensor scales, Tensor codes, Tensor biases, Tensor offsets, Tensor indices, Tensor? weights,"
    " int bits) -> Tensor",
    "segment_sum of rows `code * scale + bias`. Codes are bytes; of 4 bits two share one, the first low.",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="float",
    variants="",
)


@quantized_segment_sum.decompose
def quantized_segment_sum_decompose(
    scales: Value, codes: Value, biases: Value, offsets: Value, indices: Value, weights: Value | None, bits: int
) -> Value:
    require(bits in (4, 8), "A002", "quantized_segment_sum: codes have 4 or 8 bits", bits=bits)
    require(codes.ndim == 2 and codes.dtype is uint8, "D001", "quantized_segment_sum: codes are bytes", codes=codes)
    for name, part in (("scales", scales), ("biases", biases)):
        fits = same_shape(part.shape, codes.shape[:1]) and part.dtype is scales.dtype
        require(fits, "S014", f"quantized_segment_sum: {name} are a number for each row", given=part.shape)
    require(scales.dtype.is_floating_point, "D001", "quantized_segment_sum: scales are floats", scales=scales)
    own = reshape(embedding(indices, unsqueeze(scales, 1)), (-1,))
    if weights is not None:
        own = own * convert(weights, own.dtype)
    shift = segment_sum(unsqueeze(biases, 1), offsets, indices, weights)
    parts = [codes] if bits == 8 else [codes & 15, codes >> 4]
    sums = [segment_sum(convert(part, scales.dtype), offsets, indices, own) for part in parts]
    if bits == 8:
        return sums[0] + shift
    whole = cat([unsqueeze(part, 2) for part in sums], 2)
    return reshape(whole, (sums[0].shape[0], sums[0].shape[1] * 2)) + shift


@quantized_segment_sum.ref
def quantized_segment_sum_ref(
    scales: Array, codes: Array, biases: Array, offsets: Array, indices: Array, weights: Array | None, bits: int
) -> Array:
    whole = codes if bits == 8 else np.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1)
    rows = whole.astype(scales.dtype) * scales[:, None] + biases[:, None]
    return segment_sum_ref(rows, offsets, indices, weights)


@quantized_segment_sum.samples
def quantized_segment_sum_samples(rng: np.random.Generator) -> Iterator[Sample]:
    codes, offsets = rng.integers(0, 256, (5, 4)).astype(np.uint8), np.array([0, 2, 2, 9])
    scales, biases = (rng.standard_normal(5).astype(np.float32) for _ in range(2))
    for bits in (8, 4):
        yield Sample(scales, codes, biases, offsets, integers(rng, 0, 5, 9), None, bits)
    yield Sample(scales, codes, biases, offsets, integers(rng, 0, 5, 9), normal(rng, 9), 8)
