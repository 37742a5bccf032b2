"""Ranks that are selected rather than sorted, sorts by keys and digits, and marked integers: as by numpy's sort."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops.index.ranking import SELECTED, ranked, stable_order


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
            assert np.array_equal(ranked(array, start, count, False), wanted)
            backwards = np.argsort(np.flip(array, -1), -1, kind="stable")[:, size - start - count : size - start]
            assert np.array_equal(ranked(array, start, count, True), size - 1 - np.flip(backwards, -1))


@pytest.mark.parametrize("dtype", ["int8", "bool", "float64"])
@pytest.mark.parametrize("size", [200, 1000])
def test_ranks_selected_by_bounds_of_groups(dtype: str, size: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        array = (rng.integers(-100, 100, (3, size)) * rng.integers(0, 2, (3, size))).astype(dtype)
        for start in (0, size - 5):
            wanted = np.argsort(array, -1, kind="stable")[:, start : start + 5]
            assert np.array_equal(ranked(array, start, 5, False), wanted)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
)
def test_keys_order_as_comparisons_do(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("WORTH_KEYS", "BY_DIGITS"):
        monkeypatch.setattr(f"rushlight.ops.index.ranking.{setting}", 1)
    rng = np.random.default_rng(9)
    kind = np.dtype(dtype)
    limits = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324])
    ends = limits.astype(dtype) if kind.kind == "f" else np.array([np.iinfo(kind).min, np.iinfo(kind).max], kind)
    for spread in (1, 100, 70_000, 2**31):
        with np.errstate(over="ignore", invalid="ignore"):
            array = (rng.standard_normal((3, 50)) * spread).astype(np.int64).astype(dtype)
            near = array % 97 + ends[-1] // 2  # keys and places fit 63 bits, also of numbers of 64
        array[rng.random(array.shape) < 0.3] = rng.choice(ends)
        array[:, ::5] = rng.choice(ends, (3, 10))
        for rows in (near, array, np.flip(array, -1), array[:, :0], array[:0], array[:, :1]):
            assert np.array_equal(stable_order(rows), np.argsort(rows, -1, kind="stable"))


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
