"""Greatest common divisors and least common multiples. How many divisions one takes depends on values: the host's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.type import TensorType
from rushlight.ops.pointwise.definition import Array, computed, sample_array, typed_result
from rushlight.ops.record import Fact, Operator, Sample, define


def _divisors(name: str, doc: str, function: Callable[..., Any]) -> Operator:
    op = define(
        f"{name}(Tensor input, Tensor other) -> Tensor",
        doc,
        facts=Fact.HOST | Fact.NONDIFFERENTIABLE,
        dtypes="int",
        variants="function method inplace out",
    )

    @op.meta
    def divisors_meta(input: TensorType, other: TensorType) -> TensorType:
        return typed_result(op, [input, other])

    @op.ref
    def divisors_ref(input: ArrayLike, other: ArrayLike) -> Array:
        return computed(op, function, [input, other])

    @op.samples
    def divisors_samples(rng: np.random.Generator) -> Iterator[Sample]:
        for left, right in (((), ()), ((3, 1), (1, 5))):
            yield Sample(sample_array(rng, left, None, "int"), sample_array(rng, right, None, "int"))

    return op


gcd = _divisors("gcd", "The greatest common divisor of two integers; 0 of two zeros.", np.gcd)
lcm = _divisors("lcm", "The least common multiple of two integers; 0 where one of them is 0.", np.lcm)
