"""Ways to search: what a race is asked next, within a budget, and what is made of the answers."""

from __future__ import annotations

import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any, ClassVar, Generic

from rushlight.support.frozen import frozen
from rushlight.tune.measure import Choice, Contest, share_of

LAST = 2  # what is left of the budget is enough for so many trials: a candidate's, and the last one
GAIN = 0.98  # a candidate replaces the best if its time is at most this part of the other's
EVEN = 1.01  # a choice that is nearer to the model's replaces the best if its time is at most this part of the other's
PARENTS, STEPS, DRAWS = 4, 3, 50

Tell = Callable[[Any, float | None, float], None]


def is_taken(seconds: float | None, best_seconds: float) -> bool:
    """Whether a choice replaces the best."""
    return seconds is not None and seconds < GAIN * best_seconds


@frozen
class Found(Generic[Choice]):
    """The best choice, its seconds, those of the cost model's, and how many others were tried."""

    best: Choice
    seconds: float
    model_seconds: float
    tried: int

    def __str__(self) -> str:
        now, before = 1e3 * self.seconds, 1e3 * self.model_seconds
        return f"{now:.3f} ms, {before:.3f} ms by the model, {self.tried} tried"


class Strategy(ABC, Generic[Choice]):
    """A search from a choice on. No trial is begun that would not end in time.

    `near` gives the choices beside one. `tell` hears of each trial: the choice, its seconds, and those of the best so
    far. The one that comes next, if a choice is not taken, is prepared while that choice runs. In the end the best must
    beat the first once more.
    """

    follows_best: ClassVar[bool]
    """Whether what comes next depends on the best so far."""

    def __init__(
        self,
        race: Contest[Choice],
        start: Choice,
        near: Callable[[Choice], Iterable[Choice]],
        end: float,
        tell: Tell,
    ) -> None:
        self.race = race
        self.start: Choice = start
        self.best: Choice = start
        self.near = near
        self.end = end
        self.tell = tell
        self.tried = {start}
        self._longest = 0.0

    @abstractmethod
    def propose(self) -> Choice | None:
        """A choice that has not been tried; None where there is none."""

    def hear(self, choice: Choice, share: float) -> None:
        """Hears how long a choice took, as a share of the best one's time before it."""

    def run(self, rounds: int = 0) -> Found[Choice]:
        """Searches, then simplifies in so many rounds."""
        following = self.propose()
        while following is not None and self._has_time():
            choice, begun = following, time.perf_counter()
            self.tried.add(choice)
            for one in (choice, self.best, following := self.propose()):
                if one is not None:
                    self.race.prepare(one)
            answer = self.race.run(choice, self.best)
            if answer is None:
                break
            self.tell(choice, *answer)
            self.hear(choice, share_of(answer))
            if is_taken(*answer):
                self.best = choice
                following = self.propose() if self.follows_best else following
            self._longest = max(self._longest, time.perf_counter() - begun)
        self._simplify(rounds)
        now, before = self.race.run(self.best, self.start) or (math.inf, math.inf)
        if now is None or not is_taken(now, before):
            self.best, now = self.start, before
        return Found(self.best, now, before, len(self.tried) - 1)

    def _has_time(self) -> bool:
        return time.perf_counter() + self._longest * LAST < self.end

    def _simplify(self, rounds: int) -> None:
        """Takes choices that are nearer to the first one and as fast."""
        for _ in range(rounds):
            before = self.best
            for simpler in simpler_than(self.best, self.start):
                if not self._has_time() or not self.race_is_even(simpler):
                    continue
                self.best = simpler
                break
            if self.best == before:
                return

    def race_is_even(self, simpler: Choice) -> bool:
        """Whether a choice is as fast as the best."""
        answer = self.race.run(simpler, self.best)
        if answer is not None:
            self.tell(simpler, *answer)
        return answer is not None and answer[0] is not None and answer[0] <= EVEN * answer[1]


def simpler_than(choice: Choice, start: Choice) -> Iterator[Choice]:
    """A choice with one field of the first one's, for each that differs."""
    named: Any = choice
    for field in fields(named):
        if getattr(choice, field.name) != getattr(start, field.name):
            yield replace(named, **{field.name: getattr(start, field.name)})


class Climb(Strategy[Choice]):
    """Walks from a choice to better ones near it."""

    follows_best = True

    def propose(self) -> Choice | None:
        """The next one near the best."""
        return next((choice for choice in self.near(self.best) if choice not in self.tried), None)


class Population(Strategy[Choice]):
    """Walks some random steps from one of the fastest choices: it leaves places where all neighbours are slower."""

    follows_best = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._random = Random(0)
        self._scores: dict[Choice, float] = {self.start: 1.0}
        self._asked = {self.start}

    def hear(self, choice: Choice, share: float) -> None:
        """See `Strategy`."""
        self._scores[choice] = share * self._scores[self.best]

    def propose(self) -> Choice | None:
        """See `Strategy`."""
        parents = sorted(self._scores, key=lambda one: self._scores[one])[:PARENTS]
        for _ in range(DRAWS):
            choice = self._random.choice(parents)
            for _ in range(self._random.randint(1, STEPS)):
                beside = list(itertools.islice(self.near(choice), DRAWS))
                choice = self._random.choice(beside) if beside else choice
            if choice not in self._asked:
                self._asked.add(choice)
                return choice
        return None


STRATEGIES: Mapping[str, type[Strategy[Any]]] = {"climb": Climb, "population": Population}
