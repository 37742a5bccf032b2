"""A lower bound of the bottleneck, and prices of memory that make greedy choices right on the whole.

Each table takes at least the time of its cheapest way, where a byte of memory costs what its scarcity is worth: the
Lagrangian dual of choosing ways within the memory of all ranks together.
"""

from __future__ import annotations

import numpy as np

from rushlight.recsys.planner.search.problem import Floats, Problem

STEPS = 60  # halvings of the interval of a price
ROUNDS = 3  # over the kinds of memory


def bound_and_prices(problem: Problem) -> tuple[float, Floats]:
    """Return the lower bound, in milliseconds, and milliseconds for a byte of each kind of memory."""
    width = max([len(ways) for ways in problem.tables])
    kinds = len(problem.kinds)
    totals = np.full((len(problem.tables), width), np.inf)
    memory = np.zeros((kinds, len(problem.tables), width))
    for table, ways in enumerate(problem.tables):
        for position, way in enumerate(ways):
            totals[table, position] = way.total
            memory[:, table, position] = way.total_memory
    caps = problem.caps.sum(axis=1)
    prices = np.zeros(kinds)
    for _ in range(ROUNDS if kinds > 1 else 1):
        for kind in range(kinds):
            prices[kind] = _price(totals, memory, caps, prices, kind)
    whole = (_cheapest(totals, memory, prices)[0] - float(prices @ caps)) / problem.world_size
    longest = max([min([float(way.perfs.max()) for way in ways]) for ways in problem.tables])
    return max(whole, longest), prices


def _cheapest(totals: Floats, memory: Floats, prices: Floats) -> tuple[float, Floats]:
    """The priced time of the cheapest ways together, and the memory that they use."""
    priced = totals + np.tensordot(prices, memory, axes=1)
    choice = priced.argmin(axis=1)
    rows = np.arange(len(choice))
    return float(priced[rows, choice].sum()), memory[:, rows, choice].sum(axis=1)


def _price(totals: Floats, memory: Floats, caps: Floats, prices: Floats, kind: int) -> float:
    """The least price of one kind of memory at which the cheapest ways fit into it."""
    trial = prices.copy()
    trial[kind] = 0.0
    if _cheapest(totals, memory, trial)[1][kind] <= caps[kind]:
        return 0.0
    finite = totals[np.isfinite(totals)]
    high = max(float(finite.sum()) / max(float(caps[kind]), 1.0), 1e-30)
    for _ in range(STEPS):
        trial[kind] = high
        if _cheapest(totals, memory, trial)[1][kind] <= caps[kind]:
            break
        high *= 4
    low = 0.0
    for _ in range(STEPS):
        trial[kind] = (low + high) / 2
        if _cheapest(totals, memory, trial)[1][kind] <= caps[kind]:
            high = trial[kind]
        else:
            low = trial[kind]
    return high
