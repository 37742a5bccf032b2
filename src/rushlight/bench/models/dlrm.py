"""A recommender like DLRM (Naumov et al. 2019): bags of categories, an MLP of numbers, their products in pairs."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight import nn
from rushlight.bench.models.record import Extent, SmallModel

NUMBERS = 13
TABLES = (1000, 5000, 300)


class DLRM(nn.Module):
    """Numbers, and categories in bags, to the logit of a click."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for rows in TABLES])
        vectors = 1 + len(TABLES)
        pairs = vectors * (vectors - 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers: rl.Tensor, offsets: rl.Tensor, *categories: rl.Tensor) -> rl.Tensor:
        """[batch, 13], [3, batch] and three times [categories of all bags] to [batch]."""
        dense = self.bottom(numbers)
        bags = [table(category, start) for table, category, start in zip(self.tables, categories, offsets, strict=True)]
        vectors = rl.stack([dense, *bags], 1)
        count = len(bags) + 1
        rows, columns = rl.tril_indices(count, count, -1)
        pairs = (vectors @ vectors.mT)[:, rows, columns]
        return self.top(rl.cat([dense, pairs], 1)).squeeze(1)


def inputs(batch: int, first: int, second: int, third: int, seed: int = 0) -> tuple[rl.Tensor, ...]:
    """Numbers, and bags of `first`, `second` and `third` categories in all; some bags are empty."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((batch, NUMBERS), dtype=np.float32)
    counts = (first, second, third)
    cuts = [np.sort(rng.integers(0, count + 1, batch - 1)) for count in counts]
    offsets = np.array([[0, *cut] for cut in cuts], np.int64)
    categories = [rng.integers(0, rows, count) for rows, count in zip(TABLES, counts, strict=True)]
    return tuple([rl.from_numpy(array) for array in (numbers, offsets, *categories)])


MODEL = SmallModel(
    "dlrm",
    DLRM,
    inputs,
    (("batch", None), (None, "batch"), ("first",), ("second",), ("third",)),
    {"batch": Extent(1), "first": Extent(0), "second": Extent(0), "third": Extent(0)},
)
