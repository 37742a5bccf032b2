"""Ways to search share a base: what they find, how they end, and that they may simplify."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.tune.measure import Always, Race
from rushlight.tune.strategies import STRATEGIES, Climb, Population, Strategy, simpler_than


@dataclass(frozen=True)
class Place:
    """A choice of two fields."""

    x: int = 0
    y: int = 0


def beside(place: Place) -> Iterator[Place]:
    for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        yield replace(place, x=place.x + x, y=place.y + y)


class Landscape:
    """A race in which a place takes as many seconds as a function says."""

    def __init__(self, height: dict[Place, float], elsewhere: float = 10.0) -> None:
        self.height = height
        self.elsewhere = elsewhere

    def prepare(self, choice: Place) -> None:
        """Nothing is made."""

    def close(self) -> None:
        """Nothing is held."""

    def run(self, choice: Place, best: Place) -> tuple[float, float]:
        return self.height.get(choice, self.elsewhere), self.height.get(best, self.elsewhere)


def search(kind: type[Strategy[Place]], landscape: Landscape, rounds: int = 0, seconds: float = 2.0) -> Place:
    end = time.perf_counter() + seconds
    return kind(landscape, Place(), beside, end, lambda *told: None).run(rounds).best


@pytest.mark.row("6.13")
@pytest.mark.parametrize("kind", STRATEGIES.values())
def test_all_ways_reach_a_place_that_a_slope_leads_to(kind: type[Strategy[Place]]):
    slope = {Place(x, y): 10.0 - min(x, 3) - min(y, 2) for x in range(8) for y in range(8)}
    found = search(kind, Landscape(slope))
    assert slope[found] == 5.0


def test_random_steps_leave_a_place_among_slower_ones():
    """A ring of slow places is around the first."""
    height = {Place(): 5.0, Place(1, 1): 1.0}
    assert search(Climb, Landscape(height)) == Place()
    assert search(Population, Landscape(height)) == Place(1, 1)


@pytest.mark.row("6.13")
def test_finishing_rounds_take_what_is_nearer_to_the_model_and_as_fast():
    height = {Place(): 4.0, Place(1, 0): 3.0, Place(1, 1): 2.0, Place(0, 1): 2.01}
    assert search(Climb, Landscape(height)) == Place(1, 1)
    assert search(Climb, Landscape(height), rounds=2) == Place(0, 1)
    worse = {**height, Place(0, 1): 2.03}
    assert search(Climb, Landscape(worse), rounds=2) == Place(1, 1)


def test_each_field_is_simplified_by_itself():
    assert list(simpler_than(Place(2, 3), Place())) == [Place(0, 3), Place(2, 0)]
    assert list(simpler_than(Place(), Place())) == []


def test_a_search_of_nothing_ends():
    for kind in STRATEGIES.values():
        found = kind(Landscape({}), Place(), lambda place: (), math.inf, lambda *told: None).run(1)
        assert found.best == Place() and found.tried == 0


@pytest.mark.row("6.9")
def test_operands_that_are_overwritten_are_given_anew():
    """Code is compared by what its first run leaves in its operands too, and those of the race stay as they are."""
    text = (
        "g(%x: f32[64], %y: f32[64]) {\n  %0 = mul(%x, %y) : f32[64]\n  %1 = neg(%0) : f32[64]\n"
        "  write %x <- %0\n  return %1\n}"
    )
    graph = parse_graph(text, OPERATORS)
    assert [position for position, _ in graph.mutations] == [0]
    x, y = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    race = Race(graph, [x, y], lambda tile: Always())
    for choice in (1, 2):
        seconds, best = race.run(choice, 1)
        assert seconds is not None and seconds > 0 and best > 0
    assert x.tolist() == list(range(64))
    left, kept = (np.frombuffer(made, np.float32) for made in race._runner(1).made())
    assert left.tolist() == (-2 * x).tolist() and kept.tolist() == (2 * x).tolist()
    race.close()
