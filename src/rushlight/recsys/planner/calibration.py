"""Fitting the estimator to a machine: constants by which measured lookups are estimated best.

A forward lookup takes an overhead, and the time in which a bandwidth reads ids, reads rows and writes results, each
times a factor, times a penalty for rows of few columns. Factors and overhead are those of least squares of relative
errors without negative ones; the penalties are searched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rushlight.recsys.planner.topology import DEFAULT_CONSTANTS, Constants
from rushlight.support.errors import require
from rushlight.support.frozen import frozen

Floats = NDArray[np.float64]
TERMS = 4  # overhead, ids, rows, results
TURNS = 20
SETTLED = 1e-6
SECTIONS = 30
LEAST_PENALTY, LARGEST_PENALTY = 0.1, 10.0


@frozen
class Measurement:
    """One lookup as it was measured: `samples` bags of `pooling` ids each, of rows of `columns` numbers.

    `backward_ms` is None if the backward pass was not measured.
    """

    rows: int
    columns: int
    samples: int
    pooling: float
    forward_ms: float
    backward_ms: float | None = None
    number_bytes: float = 4.0

    @property
    def work(self) -> tuple[float, float, float]:
        """Bytes of ids, of rows that are read, of results."""
        ids = self.samples * self.pooling
        row = self.columns * self.number_bytes
        return ids * 8.0, ids * row, self.samples * min(1.0, self.pooling) * row


@frozen
class Calibration:
    """Constants that fit measurements, and how well: rank correlation and median relative error of estimates."""

    constants: Constants
    rank_correlation: float
    median_error: float


def calibrate(measured: Sequence[Measurement], bandwidth: float, start: Constants = DEFAULT_CONSTANTS) -> Calibration:
    """Return the constants that fit measured lookups, for a topology's bandwidth in bytes a millisecond.

    calibrate(measured, Topology(2).ddr_mem_bw).constants
    """
    hint = "measure lookups of several sizes; `rushlight emb calibrate` does"
    require(
        len(measured) > TERMS, "E020", "too few lookups were measured to fit constants", given=len(measured), hint=hint
    )
    for each in measured:
        known = min(each.rows, each.columns, each.samples) >= 1 and each.pooling >= 0
        require(known and each.forward_ms > 0, "E020", "a measured lookup has a size or time that is none", given=each)
    require(bandwidth > 0, "E020", "a bandwidth is a positive number of bytes a millisecond", given=bandwidth)
    work = np.array([each.work for each in measured]) / bandwidth
    times = np.array([each.forward_ms for each in measured])
    columns = np.array([each.columns for each in measured])
    classes = np.where(columns >= 128, 0, np.where(columns >= 64, 1, 2))
    constants = _fitted(work, times, classes, start)
    backward = [each.backward_ms / each.forward_ms for each in measured if each.backward_ms is not None]
    if backward:
        constants = replace(constants, bwd_compute_multiplier=float(np.median(backward)))
    estimated = np.array([forward_ms(each, constants, bandwidth) for each in measured])
    error = float(np.median(np.abs(estimated - times) / times))
    return Calibration(constants, rank_correlation(estimated, times), error)


def forward_ms(lookup: Measurement, constants: Constants, bandwidth: float) -> float:
    """Return the estimate of a lookup's forward pass."""
    ids, rows, results = lookup.work
    size = constants.input_factor * ids + constants.lookup_factor * rows + constants.output_factor * results
    return constants.overhead_ms + size * constants.block_penalty(lookup.columns) / bandwidth


def _fitted(work: Floats, times: Floats, classes: NDArray[np.int64], start: Constants) -> Constants:
    """Search the penalties, one after the other, and fit the factors for each."""
    penalties = np.ones(3)

    def error_of(kind: int, penalty: float) -> float:
        trial = penalties.copy()
        trial[kind] = penalty
        return _factors(work, times, trial[classes])[1]

    for _ in range(TURNS):
        before = penalties.copy()
        for kind in (1, 2):
            if (classes == kind).any() and (classes == 0).any():
                penalties[kind] = _least(lambda penalty, kind=kind: error_of(kind, penalty))
        if np.abs(penalties - before).max() < SETTLED:
            break
    (overhead, ids, rows, results), _ = _factors(work, times, penalties[classes])
    return replace(
        start,
        overhead_ms=float(overhead),
        input_factor=float(ids),
        lookup_factor=float(rows),
        output_factor=float(results),
        half_block_penalty=float(penalties[1]),
        quarter_block_penalty=float(penalties[2]),
    )


def _least(error: Callable[[float], float]) -> float:
    """The penalty of least error, by golden section of its logarithm."""
    low, high = math.log(LEAST_PENALTY), math.log(LARGEST_PENALTY)
    ratio = (math.sqrt(5) - 1) / 2
    first, second = high - ratio * (high - low), low + ratio * (high - low)
    at_first, at_second = error(math.exp(first)), error(math.exp(second))
    for _ in range(SECTIONS):
        if at_first <= at_second:
            high, second, at_second = second, first, at_first
            first = high - ratio * (high - low)
            at_first = error(math.exp(first))
        else:
            low, first, at_first = first, second, at_second
            second = low + ratio * (high - low)
            at_second = error(math.exp(second))
    return math.exp((low + high) / 2)


def _factors(work: Floats, times: Floats, penalties: Floats) -> tuple[Floats, float]:
    """The factors, none negative, of least relative error, and that error.

    Four terms have fifteen subsets: the equations of all are solved.
    """
    terms = np.column_stack([np.ones(len(times)), work * penalties[:, None]]) / times[:, None]
    scale = np.maximum(np.abs(terms).max(axis=0), 1e-300)
    scaled = terms / scale
    square, sums = scaled.T @ scaled, scaled.sum(axis=0)
    best, chosen = float(len(times)), np.zeros(TERMS)
    for count in range(1, TERMS + 1):
        for subset in combinations(range(TERMS), count):
            some = list(subset)
            factors = np.linalg.lstsq(square[np.ix_(some, some)], sums[some], rcond=None)[0]
            error = float(len(times) - 2 * factors @ sums[some] + factors @ square[np.ix_(some, some)] @ factors)
            if (factors >= 0).all() and error < best:
                best, chosen = error, np.zeros(TERMS)
                chosen[some] = factors
    return chosen / scale, best


def rank_correlation(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return Spearman's correlation of two lists; equal values share their mean rank."""
    ranks = [_ranks(np.asarray(values, np.float64)) for values in (first, second)]
    spread = [float(each.std()) for each in ranks]
    if len(ranks[0]) < 2 or min(spread) == 0:
        return 0.0
    centred = [each - each.mean() for each in ranks]
    return float((centred[0] * centred[1]).mean() / (spread[0] * spread[1]))


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return (ends - (counts - 1) / 2)[inverse]
