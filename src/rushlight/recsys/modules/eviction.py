"""Which ids keep their rows, when more ids come than a table has rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import rushlight as rl
from rushlight import Tensor

Filter = Callable[[Tensor], tuple[Tensor, Tensor | float]]
"""Of the counts of new ids: which of these may have a row, and the threshold that says so."""


def average_threshold_filter(id_counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return which ids came more often than the mean, and the mean."""
    threshold = id_counts.float().mean()
    return id_counts > threshold, threshold


def dynamic_threshold_filter(id_counts: Tensor, threshold_skew_multiplier: float = 10.0) -> tuple[Tensor, Tensor]:
    """Return which ids came more than so many times the mean, and that count."""
    count = max(id_counts.shape[0], 1)
    threshold = id_counts.sum() / count * threshold_skew_multiplier
    return id_counts > threshold, threshold


def probabilistic_threshold_filter(id_counts: Tensor, per_id_probability: float = 0.01) -> tuple[Tensor, Tensor]:
    """Return which ids are drawn, with this probability each time that one came, and the draws."""
    score = 1 - (1 - per_id_probability) ** id_counts.float()
    threshold = rl.rand(id_counts.shape[0])
    return score > threshold, threshold


class MCHEvictionPolicy:
    """Base of policies: of all ids, known and new, those with the highest scores have rows.

    Ids with equal scores: those that have a row keep it, then those that came more often, then the lesser ids. A
    filter says which ids of the last batches are considered at all.
    """

    states: ClassVar[tuple[str, ...]] = ()
    """What is known of each id that has a row: `counts`, `last_access_iter`."""

    def __init__(self, threshold_filtering_func: Filter | None = None) -> None:
        self.threshold_filtering_func = threshold_filtering_func

    def scores(self, states: Mapping[str, Tensor], now: int) -> Tensor:
        """Return the score of each id; `now` is the number of the batch."""
        raise NotImplementedError


class LFU_EvictionPolicy(MCHEvictionPolicy):
    """The ids that came least often go first."""

    states = ("counts",)

    def scores(self, states: Mapping[str, Tensor], now: int) -> Tensor:
        """Return how often each id came."""
        del now
        return states["counts"]


class _AgedPolicy(MCHEvictionPolicy):
    """Policies that know how many batches ago an id came."""

    def __init__(self, decay_exponent: float = 1.0, threshold_filtering_func: Filter | None = None) -> None:
        super().__init__(threshold_filtering_func)
        self._decay_exponent = decay_exponent

    def _age(self, states: Mapping[str, Tensor], now: int) -> Tensor:
        return (now - states["last_access_iter"] + 1).double() ** self._decay_exponent


class LRU_EvictionPolicy(_AgedPolicy):
    """The ids that came longest ago go first."""

    states = ("last_access_iter",)

    def scores(self, states: Mapping[str, Tensor], now: int) -> Tensor:
        """Return the negative age of each id."""
        return -self._age(states, now)


class DistanceLFU_EvictionPolicy(_AgedPolicy):
    """The ids whose count over their age is least go first."""

    states = ("counts", "last_access_iter")

    def scores(self, states: Mapping[str, Tensor], now: int) -> Tensor:
        """Return the count of each id over its age."""
        return states["counts"].double() / self._age(states, now)
