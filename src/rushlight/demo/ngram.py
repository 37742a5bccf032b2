"""An interpolated 4-gram model of bytes: the loss that counting alone achieves, beside the network's.

Probabilities are interpolated as Witten and Bell (1991, method C) do:

    p(x | c) = (n(c, x) + t(c) p(x | shorter c)) / (n(c) + t(c))

where n counts and t is the number of different bytes seen after the context c. Below the empty context all bytes are
equally likely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.support.frozen import frozen

Codes = NDArray[Any]  # uint32


@frozen
class Counts:
    """n-grams of one length, packed into integers and sorted, with how often each occurs.

    `starts` says where each context's n-grams begin: `contexts`, sorted as well.
    """

    codes: Codes
    counts: NDArray[np.int64]
    contexts: Codes
    totals: NDArray[np.int64]
    kinds: NDArray[np.int64]

    def interpolate(self, codes: Codes, shorter: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of each n-gram's last byte, given its probability after the shorter context."""
        seen = _look_up(self.codes, self.counts, codes)
        contexts = codes >> 8
        total, kinds = _look_up(self.contexts, self.totals, contexts), _look_up(self.contexts, self.kinds, contexts)
        return (seen + np.where(total, kinds, 1) * shorter) / np.where(total, total + kinds, 1)


@frozen
class NGram:
    """Counts of all n-grams up to a length, shortest first."""

    orders: tuple[Counts, ...]

    def loss(self, text: NDArray[np.uint8], positions: NDArray[np.int64]) -> float:
        """Mean nats per byte of predicting a text's bytes at some positions from the bytes before each."""
        padded = np.concatenate([np.zeros(len(self.orders) - 1, np.uint8), text])
        probability = np.full(len(positions), 1 / 256)
        for length, counts in enumerate(self.orders, 1):
            codes = pack(padded, length)[positions + len(self.orders) - length]
            probability = counts.interpolate(codes, probability)
        return float(-np.log(probability).mean())


def fit(text: NDArray[np.uint8], length: int = 4) -> NGram:
    """Counts the n-grams of a text."""
    return NGram(tuple([_count(pack(text, n)) for n in range(1, length + 1)]))


def pack(text: NDArray[np.uint8], length: int) -> Codes:
    """Every n-gram of a text as an integer, its last byte in the lowest bits."""
    count = len(text) - length + 1
    codes = np.zeros(count, np.uint32)
    for position in range(length):
        codes = codes << 8 | text[position : position + count]
    return codes


def _count(codes: Codes) -> Counts:
    unique, counts = np.unique(codes, return_counts=True)
    contexts, starts = np.unique(unique >> 8, return_index=True)
    kinds = np.diff(np.append(starts, len(unique)))
    return Counts(unique, counts, contexts, np.add.reduceat(counts, starts), kinds)


def _look_up(keys: Codes, values: NDArray[np.int64], wanted: Codes) -> NDArray[np.int64]:
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)
