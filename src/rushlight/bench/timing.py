"""Samples of time, taken in turns so that other load on the machine affects all contestants alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from rushlight.bench.records import Record

SAMPLE_SECONDS = 0.02
MOST_CALLS = 10_000
WARM_BELOW = 0.05  # seconds of a call: a longer one is not called an extra time before it is timed
PAUSE = 0.05  # seconds between samples: threads of the one before stop waiting actively, some only then
FEWEST_ROUNDS = 3


class Entrant(Protocol):
    """A contestant or ceiling that answers questions."""

    name: str

    def ask(self, do: str, **values: object) -> Record:
        """The answer to a question."""
        ...


class Turn(NamedTuple):
    """An entrant ready for a case, the approximate seconds of a call, and what it is asked for a sample."""

    entrant: Entrant
    call_s: float
    question: str = "sample"

    @property
    def repeat(self) -> int:
        """Calls in a sample."""
        return max(1, min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / max(self.call_s, 1e-9))))

    @property
    def warm(self) -> bool:
        """Is a call made before the timed ones?"""
        return self.call_s < WARM_BELOW

    @property
    def sample_s(self) -> float:
        """Seconds that a sample takes, about."""
        return self.call_s * (self.repeat + self.warm)


def rounds_within(turns: Sequence[Turn], rounds: int, budget: float) -> int:
    """As many rounds as fit in `budget` seconds, but three at least and `rounds` at most."""
    fitting = budget / max(sum([turn.sample_s for turn in turns]), 1e-9)
    return min(rounds, max(FEWEST_ROUNDS, int(fitting)))


def take_turns(turns: Sequence[Turn], rounds: int) -> tuple[dict[str, list[float]], dict[str, Record]]:
    """Seconds of single calls by contestant, in order, and the answers of contestants that failed.

    In each round every contestant has its turn, the first to go changing from round to round.
    """
    seconds: dict[str, list[float]] = {turn.entrant.name: [] for turn in turns}
    failed: dict[str, Record] = {}
    for number in range(rounds):
        for turn in turns if number % 2 == 0 else turns[::-1]:
            name = turn.entrant.name
            if name in failed:
                continue
            time.sleep(PAUSE)
            answer = turn.entrant.ask(turn.question, repeat=turn.repeat, warm=turn.warm)
            if answer["status"] == "ready":
                seconds[name].append(answer["seconds"])
            else:
                failed[name] = answer
    return {name: taken for name, taken in seconds.items() if name not in failed}, failed


class Spread(NamedTuple):
    """The median of samples, and their 10th and 90th percentiles."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread:
    """Median, 10th and 90th percentile, between samples by proportion."""
    ordered = sorted(samples)

    def at(share: float) -> float:
        rank = share * (len(ordered) - 1)
        below = ordered[math.floor(rank)]
        return below + (ordered[math.ceil(rank)] - below) * (rank - math.floor(rank))

    return Spread(at(0.5), at(0.1), at(0.9))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of samples of the same round: above 1 where we are slower."""
    return statistics.median([a / b for a, b in zip(ours, theirs, strict=True)])
