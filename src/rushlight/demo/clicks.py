"""Generated click logs: ids by Zipf's law, and clicks whose odds are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight import Tensor
from rushlight.recsys import KeyedJaggedTensor
from rushlight.support.frozen import frozen

FEATURES = ("user", "item", "page", "query", "device", "city", "hour", "brand")
ROWS = (1000, 1000, 300, 500, 20, 100, 24, 200)
DENSE = 4
EXPONENT = 1.2  # of Zipf's law: some ids are everywhere, most are rare
FACTORS = 4


@frozen
class Clicks:
    """A batch: dense numbers, ids by feature, whether there was a click, and the logarithm of its true odds."""

    dense: Tensor
    ids: KeyedJaggedTensor
    clicked: Tensor
    odds: NDArray[np.float64]


class ClickLog:
    """Draws batches. Each id moves the odds of a click, as do the factors of the user and the item, multiplied."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._effects = [rng.normal(0, 0.5, rows) for rows in ROWS]
        self._factors = [rng.normal(0, 0.4, (rows, FACTORS)) for rows in ROWS[:2]]
        self._slope = rng.normal(0, 0.3, DENSE)
        shares = [np.arange(1, rows + 1) ** -EXPONENT for rows in ROWS]
        self._ends = [np.cumsum(share / share.sum()) for share in shares]

    def batch(self, rng: np.random.Generator, size: int) -> Clicks:
        """Draw a batch. Queries are bags of one to three words; other features have one id."""
        lengths = np.ones((len(FEATURES), size), np.int64)
        lengths[FEATURES.index("query")] = rng.integers(1, 4, size)
        drawn = [
            np.searchsorted(ends, rng.random(int(row.sum()))) for ends, row in zip(self._ends, lengths, strict=True)
        ]
        dense = rng.normal(0, 1, (size, DENSE))
        odds = dense @ self._slope - 1
        for effect, ids, row in zip(self._effects, drawn, lengths, strict=True):
            odds += np.bincount(np.repeat(np.arange(size), row), effect[ids], size) / np.sqrt(row)
        odds += (self._factors[0][drawn[0]] * self._factors[1][drawn[1]]).sum(1)
        clicked = rng.random(size) < 1 / (1 + np.exp(-odds))
        ids = KeyedJaggedTensor(
            FEATURES, rl.from_numpy(np.concatenate(drawn)), lengths=rl.from_numpy(lengths.reshape(-1))
        )
        return Clicks(rl.from_numpy(dense.astype(np.float32)), ids, rl.from_numpy(clicked.astype(np.float32)), odds)


def area_under_curve(scores: NDArray[np.floating], clicked: NDArray[np.floating]) -> float:
    """The share of pairs of a click and none that scores put in order; equal scores count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive = clicked > 0.5
    count, others = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / max(count * others, 1))
