"""A hash of elements that does not depend on their order: the exclusive or of their bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.dtype import uint64
from rushlight.ir.type import TensorType
from rushlight.ops.dims import Array, Dims, integers, normal
from rushlight.ops.record import Fact, Sample, define
from rushlight.ops.reduce.minmax import require_elements
from rushlight.ops.reduce.reduction import axes_tuple, reduced_shape
from rushlight.support.errors import require

hash_tensor = define(
    "hash_tensor(Tensor input, int[]? dim=None, *, bool keepdim=False, int mode=0) -> Tensor",
    "The exclusive or of the bits of elements as float64 or int64, in uint64; of none I007. A host call. mode: 0.",
    facts=Fact.HOST | Fact.NONDIFFERENTIABLE,
    dtypes="real",
    variants="function method out",
)


@hash_tensor.meta
def hash_tensor_meta(input: TensorType, dim: Dims, keepdim: bool, mode: int) -> TensorType:
    require(mode == 0, "A002", "hash_tensor: the only mode is 0", mode=mode)
    require_elements(input.shape, dim, "hash_tensor")
    return TensorType(reduced_shape(input.shape, dim, keepdim, "hash_tensor"), uint64, input.device)


@hash_tensor.ref
def hash_tensor_ref(input: Array, dim: Dims, keepdim: bool, mode: int) -> Array:
    wide = input.astype(np.int64 if input.dtype.kind in "biu" else np.float64)
    axes = axes_tuple(input, dim, "hash_tensor")
    return np.asarray(np.bitwise_xor.reduce(wide.view(np.uint64), axes, keepdims=keepdim))


@hash_tensor.samples
def hash_tensor_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 5))
    yield Sample(normal(rng, 2, 3, 4), (0, 2), keepdim=True)
    yield Sample(integers(rng, -9, 9, 4, 3), 1)
