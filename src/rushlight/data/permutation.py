"""Random orders of indices, for samplers and splits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rushlight.runtime.generator import Generator, default_generator

_CHUNK = 1 << 16


def random_chunks(count: int, generator: Generator | None) -> Iterator[NDArray[np.uint64]]:
    """Return an iterator over `count` random 64-bit words of the generator's next call.

    It yields them in parts of bounded size. The call is made now, and the words as they are asked for. The bits of
    numpy's Philox are fixed for all its versions; its `permutation` and `integers` are not.
    """
    seed, ordinal = (generator or default_generator).next_ordinal()
    bits = np.random.Philox(key=seed | (ordinal & 0xFFFF_FFFF_FFFF_FFFF) << 64)
    return (bits.random_raw(min(_CHUNK, count - start)) for start in range(0, count, _CHUNK))


def random_words(count: int, generator: Generator | None) -> NDArray[np.uint64]:
    """Return the words of `random_chunks` in one array."""
    return np.concatenate([np.zeros(0, np.uint64), *random_chunks(count, generator)])


def permutation(count: int, generator: Generator | None = None) -> list[int]:
    """Return the integers from 0 to `count` - 1 in random order.

    The order is uniform for every practical purpose for `count` up to 2^31.
    """
    return np.argsort(random_words(count, generator), kind="stable").tolist()


def random_indices(count: int, below: int, generator: Generator | None = None) -> Iterator[int]:
    """Return `count` independent random indices from 0 to `below` - 1.

    The bias is below 2^-32 for `below` up to 2^32. The indices are drawn as they are asked for, since `count` may
    stand for "without end".
    """
    chunks = random_chunks(count, generator)
    return itertools.chain.from_iterable((chunk % np.uint64(below)).astype(np.int64).tolist() for chunk in chunks)


def random_fractions(count: int, generator: Generator | None = None) -> NDArray[np.floating]:
    """Return `count` independent numbers from 0 to below 1, of 53 random bits each."""
    return as_fractions(random_words(count, generator))


def as_fractions(words: NDArray[np.uint64]) -> NDArray[np.floating]:
    """Return random words as numbers from 0 to below 1."""
    return (words >> np.uint64(11)) * 2.0**-53
