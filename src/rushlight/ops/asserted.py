"""What a program's call is refused for by values, as values of a graph (`build.index_asserts`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rushlight.ir.dtype import bool_
from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import TensorType
from rushlight.ops.dims import Array, At
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require

asserted = define(
    "asserted(Tensor holds, str code, str message) -> Tensor",
    "The bools themselves, all of which are True; else the call is the error `code`.",
    facts=Fact.NONDIFFERENTIABLE,
    variants="",
)
refused = define(
    "refused(Tensor[] values) -> Tensor",
    "False, once the values have been computed: the host has refused none of what they are computed from.",
    facts=Fact.HOST | Fact.NONDIFFERENTIABLE | Fact.STORED,
    variants="",
)


@asserted.meta
def asserted_meta(holds: TensorType, code: str, message: str) -> TensorType:
    require(holds.dtype is bool_, "D001", "asserted: bools are expected", holds=holds)
    return TensorType(holds.shape, holds.dtype, holds.device)


@asserted.ref
def asserted_ref(holds: Array, code: str, message: str) -> Array:
    require(bool(holds.all()), code, message)
    return holds


@asserted.lower
def asserted_lower(at: At, holds: Operand, code: str, message: str) -> Scalar:
    return holds[at]


@asserted.samples
def asserted_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.ones((2, 3), bool), "A002", "chances lie between 0 and 1")


@refused.meta
def refused_meta(values: Sequence[TensorType]) -> TensorType:
    return TensorType((), bool_, values[0].device)


@refused.ref
def refused_ref(values: Sequence[Array]) -> Array:
    return np.zeros((), bool)


@refused.samples
def refused_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample([np.ones(3, np.float32), np.ones((2, 3), np.float32)])
