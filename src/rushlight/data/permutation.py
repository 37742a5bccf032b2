"""Random orders of indices, for samplers and splits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.runtime.generator import Generator, default_generator


def random_words(count: int, generator: Generator | None) -> NDArray[np.uint64]:
    """Return `count` random 64-bit words of the generator's next call.

    The bits of numpy's Philox are fixed for all its versions; its `permutation` and `integers` are not.
    """
    seed, ordinal = (generator or default_generator).next_ordinal()
    return np.random.Philox(key=seed | (ordinal & 0xFFFF_FFFF_FFFF_FFFF) << 64).random_raw(count)


def permutation(count: int, generator: Generator | None = None) -> list[int]:
    """Return 0 .. count - 1 in random order; `count` up to 2^31 is uniform for every practical purpose."""
    return np.argsort(random_words(count, generator), kind="stable").tolist()


def random_indices(count: int, below: int, generator: Generator | None = None) -> list[int]:
    """Return `count` independent indices from 0 to `below` - 1; the bias is below 2^-32 for `below` up to 2^32."""
    return (random_words(count, generator) % np.uint64(below)).astype(np.int64).tolist()


def random_fractions(count: int, generator: Generator | None = None) -> NDArray[Any]:
    """Return `count` independent numbers from 0 to below 1, of 53 random bits each."""
    return (random_words(count, generator) >> np.uint64(11)) * 2.0**-53
