"""Random counts: Poisson and binomial numbers. How many uniform numbers one takes depends on them: the host draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from rushlight.ir.type import TensorType
from rushlight.ops.dims import Array, compute_array
from rushlight.ops.promote import broadcast, device_of
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import require

_FACTS = Fact.RANDOM | Fact.NONDIFFERENTIABLE | Fact.HOST | Fact.REFUSING
_STATE = "Tensor? seed=None, Tensor? ordinal=None"
_MOST = 9.2e18  # numpy counts in 64 bits


def generator_of(seed: object, ordinal: object) -> np.random.Generator:
    """Numbers that depend on seed and ordinal alone.

    The key's second half keeps them apart from the numbers that kernels draw.
    """
    key = np.array([np.asarray(seed).astype(np.uint64), 0x706F6973736F6E], np.uint64)
    counter = np.array([0, 0, 0, np.asarray(ordinal).astype(np.uint64)], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


poisson = define(
    f"poisson(Tensor input, *, {_STATE}) -> Tensor",
    "Poisson numbers, each with its element as the rate.",
    facts=_FACTS,
    dtypes="float",
    variants="",
)


@poisson.meta
def poisson_meta(input: TensorType, seed: TensorType, ordinal: TensorType) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@poisson.ref
def poisson_ref(input: Array, seed: ArrayLike, ordinal: ArrayLike) -> Array:
    rates = compute_array(input).astype(np.float64)
    fits = not np.any(~((rates >= 0) & (rates < _MOST)))
    require(fits, "A002", "poisson: rates are numbers of 0 and more")
    return np.asarray(generator_of(seed, ordinal).poisson(rates)).astype(input.dtype)


@poisson.samples
def poisson_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.abs(rng.standard_normal((3, 5))).astype(np.float32), seed=42, ordinal=7, domain="probability")


binomial = define(
    f"binomial(Tensor count, Tensor prob, *, {_STATE}) -> Tensor",
    "Binomial numbers: successes of `count` trials, each with the chance `prob`.",
    facts=_FACTS,
    dtypes="float",
    variants="",
)


@binomial.meta
def binomial_meta(count: TensorType, prob: TensorType, seed: TensorType, ordinal: TensorType) -> TensorType:
    require(count.dtype is prob.dtype, "D002", "binomial: count and prob differ in dtype", count=count, prob=prob)
    return TensorType(broadcast(count.shape, prob.shape), count.dtype, device_of(count, prob))


@binomial.ref
def binomial_ref(count: Array, prob: Array, seed: ArrayLike, ordinal: ArrayLike) -> Array:
    trials, chances = compute_array(count).astype(np.float64), compute_array(prob).astype(np.float64)
    fits = not np.any(~(trials < _MOST)) and not np.any(np.isnan(chances))
    require(fits, "A002", "binomial: counts and chances are numbers")
    # As PyTorch does: chances beyond 0 and 1 are these, and no trials have no successes.
    whole = np.floor(np.clip(trials, 0, None)).astype(np.int64)
    return np.asarray(generator_of(seed, ordinal).binomial(whole, np.clip(chances, 0, 1))).astype(count.dtype)


@binomial.samples
def binomial_samples(rng: np.random.Generator) -> Iterator[Sample]:
    counts = rng.integers(0, 9, (2, 3)).astype(np.float32)
    yield Sample(counts, rng.random(3).astype(np.float32), seed=42, ordinal=7, domain="probability")
