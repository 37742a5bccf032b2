"""Ranks that are selected rather than sorted, and integers that are marked: the same as by sorting."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops.index.order import SELECTED, ranked


@pytest.mark.parametrize("broken", [0.0, 0.3, 1.0])
def test_selected_ranks_are_those_of_a_stable_sort(broken: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(150):
        rows, size = rng.integers(1, 5), rng.integers(SELECTED, 60)
        array = rng.integers(0, rng.integers(1, 40), (rows, size)).astype(np.float32)
        array[rng.random(array.shape) < broken] = np.nan
        count = int(rng.integers(1, size // SELECTED + 1))
        for start in (0, int(rng.integers(0, size - count + 1)), size - count):
            wanted = np.argsort(array, -1, kind="stable")[:, start : start + count]
            assert np.array_equal(ranked(array, start, count), wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_integers_that_occur(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for least in (limits.min, limits.max - 100):
        few = np.random.default_rng(3).integers(0, 100, 500).astype(dtype) + np.array(least, dtype)
        far = np.array([limits.max, limits.min, limits.max, limits.min], dtype)
        for values in (few, few[:1], few[:0], far):
            found = rl.from_numpy(values).unique()
            assert found.numpy().dtype == values.dtype
            assert np.array_equal(found.numpy(), np.unique(values))
