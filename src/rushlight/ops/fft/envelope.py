"""The check of `istft`: where windows add up to nothing there is nothing to divide by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.type import TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, compute_array
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require

checked_envelope = define(
    "checked_envelope(Tensor input, float least) -> Tensor",
    "The input, the sums of squares of windows; error R002 where the magnitude of one is not above `least`.",
    facts=Fact.HOST | Fact.REFUSING,
    dtypes="inexact",
    variants="",
)


@checked_envelope.meta
def checked_envelope_meta(input: TensorType, least: float) -> TensorType:
    del least
    return TensorType(input.shape, input.dtype, input.device)


@checked_envelope.ref
def checked_envelope_ref(input: Array, least: float) -> Array:
    lowest = float(np.min(np.abs(compute_array(input)), initial=np.inf))
    require(not lowest <= least, "R002", "istft: the windows do not overlap everywhere", least=lowest)
    return input.copy()


@checked_envelope.vjp
def checked_envelope_vjp(g: Value) -> Value:
    return g


@checked_envelope.samples
def checked_envelope_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.uniform(1, 2, (2, 3)).astype(np.float32), -1.0)
