"""What a search chose is compared with every tile there is."""

from __future__ import annotations

import pytest
from tests.tune.test_search import model

from rushlight.ir.choice import Product
from rushlight.ir.gemm_tile import GemmTile
from rushlight.tune.exhaustive import SIZES, all_tiles, compare_with_all
from rushlight.tune.measure import Problem
from rushlight.tune.records import Records, is_tile
from rushlight.tune.search import Tuner


class Told:
    """A race in which every tile takes a second, but one."""

    def __init__(self, fast: GemmTile, seconds: list[float]) -> None:
        self.fast = fast
        self.seconds = seconds

    def prepare(self, choice: GemmTile) -> None:
        """Nothing is made."""

    def close(self) -> None:
        """Nothing is held."""

    def run(self, choice: GemmTile, best: GemmTile) -> tuple[float, float]:
        return (self.seconds.pop(0) if choice == self.fast else 1.0), 1.0


@pytest.mark.row("6.1")
def test_the_best_of_all_counts_when_it_is_faster_twice(monkeypatch: pytest.MonkeyPatch):
    problem = Problem.of(Product(model(), (1, 32, 48, 16), False))
    monkeypatch.setattr(Tuner, "search", lambda self, problem: (problem.tile, ""))
    tuner = Tuner(Records(""), "cpu", 2)
    other = next(tile for tile in all_tiles(model()) if tile != model())
    for seconds, ratio in (([0.5, 0.8], 1.25), ([0.5, 1.2], 1.0)):
        monkeypatch.setattr(Tuner, "race_of", lambda self, problem, told=list(seconds): Told(other, told))
        found = compare_with_all(tuner, problem)
        assert found.ratio == ratio and found.chosen == model()
        assert found.best == (other if ratio > 1 else model())


def test_there_are_twenty_products_and_all_tiles_are_sound():
    assert len(set(SIZES)) == 20
    tiles = list(all_tiles(model()))
    assert len(set(tiles)) > 30 and all(map(is_tile, tiles)) and model() in tiles
