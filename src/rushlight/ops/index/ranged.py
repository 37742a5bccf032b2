"""Numbers that are handed on once they are in range.

Composites call these, since what is checked of a composite itself is not where it is taken apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require
from rushlight.sym import Size

not_negative = define(
    "not_negative(Tensor input) -> Tensor",
    "The numbers themselves, none of which is below 0 (A002).",
    dtypes="real",
    variants="",
)
offsets_within = define(
    "offsets_within(Tensor offsets, Size end, bool whole=False) -> Tensor",
    "The integers themselves, which ascend from 0 to `end` at most (I001). If `whole`, they end there (E003).",
    facts=Fact.NONDIFFERENTIABLE,
    dtypes="integral",
    variants="",
)


@not_negative.meta
def not_negative_meta(input: TensorType) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@not_negative.ref
def not_negative_ref(input: Array) -> Array:
    return input


@not_negative.lower
def not_negative_lower(at: At, input: Operand) -> Scalar:
    return input[at]


@not_negative.vjp
def not_negative_vjp(g: Value) -> Value:
    return g


@not_negative.samples
def not_negative_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.integers(0, 9, (3, 5)))
    yield Sample(rng.uniform(1, 2, (3, 5)).astype(np.float32), domain="positive")


@offsets_within.meta
def offsets_within_meta(offsets: TensorType, end: Size, whole: bool) -> TensorType:
    return TensorType(offsets.shape, offsets.dtype, offsets.device)


@offsets_within.ref
def offsets_within_ref(offsets: Array, end: int, whole: bool) -> Array:
    steps = np.diff(offsets.astype(np.int64), prepend=0, append=end)
    fits = bool((steps >= 0).all()) and not offsets[:1].any()
    require(fits, "I001", "offsets_within: offsets must ascend from 0", offsets=offsets.tolist(), end=end)
    ends = not whole or not len(offsets) or offsets[-1] == end
    require(ends, "E003", "offsets_within: offsets must end with the number of values", offsets=offsets.tolist())
    return offsets


@offsets_within.lower
def offsets_within_lower(at: At, offsets: Operand, end: Size, whole: bool) -> Scalar:
    return offsets[at]


@offsets_within.samples
def offsets_within_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.array([0, 2, 2, 7]), 7)
    yield Sample(np.array([0, 2, 2, 7]), 7, True)
