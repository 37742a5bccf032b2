"""Where values belong in sorted sequences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import compute_dtype, int32, int64
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar, apply, cast, constant, guard, lift, select
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, convert, normal, same_shape
from rushlight.ops.index.read import gather
from rushlight.ops.pointwise.definition import array_type
from rushlight.ops.promote import promote, promote_dtypes
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require
from rushlight.sym import guard_or_false, lt

STEPS = (5, 10, 16)  # of bisections of short sequences, each for two thirds of the time of the next
MANY = 40  # of one of any sequence that fits in memory

count_before = define(
    "count_before(Tensor sorted_sequence, Tensor input, bool right, int steps=40) -> Tensor",
    "How many elements of a sequence (of a row of sequences, along the last dim) lie before each value: smaller ones "
    "or, to the `right`, those that are not larger. They are found by bisection, as in PyTorch: where the sequence is "
    "not sorted, the result is the end of such a search. Everything is before NaN. So many `steps` decide among fewer "
    "than 2^steps elements.",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="",
)


@count_before.meta
def count_before_meta(sorted_sequence: TensorType, input: TensorType, right: bool, steps: int) -> TensorType:
    alone = sorted_sequence.ndim == 1
    fits = alone or (
        sorted_sequence.ndim == input.ndim > 0 and same_shape(sorted_sequence.shape[:-1], input.shape[:-1])
    )
    require(
        fits,
        "S014",
        "searchsorted: the sequences have 1 dim, or all dims of the input but the last",
        sorted_sequence=sorted_sequence,
        input=input,
    )
    same = input.weak or sorted_sequence.dtype is input.dtype
    require(same, "D002", "searchsorted: dtypes differ", sorted_sequence=sorted_sequence, input=input)
    return TensorType(input.shape, int64, sorted_sequence.device)


@count_before.ref
def count_before_ref(sorted_sequence: Array, input: Array, right: bool, steps: int = MANY) -> Array:
    values = np.asarray(input).astype(sorted_sequence.dtype)
    size = sorted_sequence.shape[-1]
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, size, np.int64)
    for _ in range(size.bit_length()):
        middle = low + ((high - low) >> 1)
        probe = np.minimum(middle, size - 1)
        probed = np.take_along_axis(sorted_sequence, probe, -1) if sorted_sequence.ndim > 1 else sorted_sequence[probe]
        before = (low < high) & ~(probed > values if right else probed >= values)
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    return low


@count_before.lower
def count_before_lower(at: At, sorted_sequence: Operand, input: Operand, right: bool, steps: int) -> Scalar:
    dtype = compute_dtype(sorted_sequence.dtype)
    places = int32 if steps < MANY and dtype.itemsize <= 4 else int64  # as wide as the lanes of what is compared
    value = cast(input[at if input.shape else ()], dtype)
    row = at[: len(sorted_sequence.shape) - 1]
    size = lift(sorted_sequence.shape[-1], int64)
    one, low, left = constant(1, places), constant(0, places), cast(size, places)
    last = left - one
    for _ in range(steps):
        half = left >> one
        middle = low + half
        # Where nothing is left to search, `low` may be the end.
        boundary = cast(sorted_sequence[(*row, cast(apply("minimum", middle, last), int64))], dtype)
        behind = value < boundary if right else value <= boundary
        before = (constant(0, places) < left) & ~behind
        low, left = select(before, middle + one, low), select(before, left - half - one, half)
    low = cast(low, int64)
    return guard(size > 0, low, constant(0, int64))  # nothing is read of an empty sequence


@count_before.samples
def count_before_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.sort(normal(rng, 5)), normal(rng, 3, 4), False)
    yield Sample(np.array([1, 3, 3, 7]), np.array([[0, 1, 3], [4, 7, 9]]), True)
    yield Sample(np.sort(normal(rng, 2, 6), -1), normal(rng, 2, 3), False)
    yield Sample(np.sort(normal(rng, 4)), 0.5, True)


searchsorted = define(
    "searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? side=None, "
    "Tensor? sorter=None) -> Tensor",
    "Where each value belongs in a sorted sequence (along the last dim): in front of equal elements, or behind them.",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="function out",
)


@searchsorted.decompose
def searchsorted_decompose(
    sorted_sequence: Value, input: Value | float, out_int32: bool, right: bool, side: str | None, sorter: Value | None
) -> Value:
    require(side in (None, "left", "right"), "A002", "searchsorted: side is left or right", side=side)
    require(not (right and side == "left"), "A002", "searchsorted: side and right contradict each other")
    if sorter is not None:
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    if isinstance(input, Value):
        dtype = promote_dtypes(sorted_sequence.dtype, input.dtype)
        sorted_sequence, input = convert(sorted_sequence, dtype), convert(input, dtype)
    counts = count_before(sorted_sequence, input, right or side == "right", _steps_of(sorted_sequence))
    return convert(counts, int32) if out_int32 else counts


def _steps_of(sequence: Value) -> int:
    """The steps of a bisection of a sequence."""
    if not sequence.shape:
        return STEPS[0]
    size = sequence.shape[-1]
    enough = (steps for steps in STEPS if guard_or_false(lt(size, 1 << steps), "40 steps of bisection"))
    return next(enough, MANY)


@searchsorted.ref
def searchsorted_ref(
    sorted_sequence: Array, input: Array, out_int32: bool, right: bool, side: str | None, sorter: Array | None
) -> Array:
    ordered = sorted_sequence if sorter is None else np.take_along_axis(sorted_sequence, sorter, -1)
    if isinstance(input, np.ndarray | np.generic):
        dtype = promote(array_type(ordered), array_type(input)).numpy
        ordered, input = ordered.astype(dtype), np.asarray(input).astype(dtype)
    counts = count_before_ref(ordered, input, right or side == "right")
    return counts.astype(np.int32) if out_int32 else counts


@searchsorted.samples
def searchsorted_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.sort(normal(rng, 5)), normal(rng, 3, 4))
    yield Sample(np.sort(normal(rng, 2, 6), -1), normal(rng, 2, 3), side="right", out_int32=True)
    sequence = normal(rng, 6)
    yield Sample(sequence, normal(rng, 4), right=True, sorter=np.argsort(sequence))
    yield Sample(np.array([-1, 0, 2]), np.array([[0.5, -1.0], [2.0, 2.5]], np.float32))


bucketize = define(
    "bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    "The number of the bucket of each value: how many boundaries lie before it.",
    facts=Fact.NONDIFFERENTIABLE | Fact.LEADING,
    dtypes="real",
    variants="function out",
)


@bucketize.decompose
def bucketize_decompose(input: Value | float, boundaries: Value, out_int32: bool, right: bool) -> Value:
    require(len(boundaries.shape) == 1, "S002", "bucketize: the boundaries have 1 dim", boundaries=boundaries.shape)
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@bucketize.ref
def bucketize_ref(input: Array, boundaries: Array, out_int32: bool, right: bool) -> Array:
    return searchsorted_ref(boundaries, input, out_int32, right, None, None)


@bucketize.samples
def bucketize_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), np.sort(normal(rng, 5)))
    yield Sample(normal(rng, 3), np.sort(normal(rng, 5)), right=True, out_int32=True)
