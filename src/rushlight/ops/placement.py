"""The copy from one device to another, which is a step between the programs of both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rushlight.ir.type import CPU, META, Device, TensorType
from rushlight.ir.value import Value
from rushlight.ops.dims import Array
from rushlight.ops.pointwise.definition import sample_array, typed_result
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require

to_device = define(
    "to_device(Tensor input, Device device) -> Tensor",
    "A copy on another device: dense, in the order of dims of input where that is dense.",
    facts=Fact.HOST | Fact.STORED,
    variants="",
)


@to_device.meta
def to_device_meta(input: TensorType, device: Device) -> TensorType:
    require(input.device != META or device == META, "V003", "the tensor has no data", tensor=input)
    result = typed_result(to_device, [input])
    return TensorType(result.shape, result.dtype, device, result.strides, result.weak)


@to_device.ref
def to_device_ref(input: Array, device: Device) -> Array:
    return np.array(input)


@to_device.vjp(types=("input",))
def to_device_vjp(g: Value, input: TensorType) -> Value:
    return to_device(g, input.device)


@to_device.samples
def to_device_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape in ((), (7,), (3, 5)):
        yield Sample(sample_array(rng, shape), CPU)
