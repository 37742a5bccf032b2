"""Samples of time, taken in turns so that what else the machine does falls on all contestants alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Contestant(Protocol):
    """Somebody who can run a prepared case."""

    name: str

    def prepare(self, case: str, threads: int) -> None:
        """Makes the case ready, and runs it once or twice."""

    def sample(self, case: str, repeat: int) -> float:
        """Seconds of one call, as the mean of `repeat` calls."""
        ...


@dataclass(slots=True)
class Samples:
    """Seconds of one call of a case, by contestant, in the order they were taken."""

    case: str
    flops: float
    bytes: float
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """The median of a contestant's samples."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, other: str) -> float:
        """The median of the ratios of samples taken one after the other: above 1 where `name` is slower."""
        return statistics.median([a / b for a, b in zip(self.seconds[name], self.seconds[other], strict=True)])

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        medians = {name: self.median(name) for name in self.seconds}
        return {
            "case": self.case,
            "flops": self.flops,
            "bytes": self.bytes,
            "median_s": medians,
            "gflop_per_s": {name: self.flops / seconds / 1e9 for name, seconds in medians.items()},
            "samples_s": self.seconds,
        }


def time_calls(work: Callable[[], Any], repeat: int) -> float:
    """Seconds of one call, as the mean of several."""
    started = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - started) / repeat


def take_turns(
    case: str, flops: float, moved: float, repeat: int, contestants: Sequence[Contestant], rounds: int, threads: int
) -> Samples:
    """Samples of one case: in each round every contestant in turn, the first to go changing from round to round."""
    for contestant in contestants:
        contestant.prepare(case, threads)
    samples = Samples(case, flops, moved, {contestant.name: [] for contestant in contestants})
    for number in range(rounds):
        order = contestants if number % 2 == 0 else contestants[::-1]
        for contestant in order:
            samples.seconds[contestant.name].append(contestant.sample(case, repeat))
    return samples
