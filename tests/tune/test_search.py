"""The search for tiles: what it tries gives the same bits, what it finds is kept, and it runs once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import rushlight as rl
from rushlight import tune
from rushlight.bench.models import MODELS
from rushlight.bench.parity import PRESETS
from rushlight.build.native import Chooser, compile_native
from rushlight.ir.choice import BLOCKS, Blocks, Product
from rushlight.ir.gemm_tile import Format, GemmTile, choose_tile
from rushlight.ir.graph import Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.runtime import llvm
from rushlight.support import events, settings
from rushlight.tune import search
from rushlight.tune.measure import Problem, graph_of, product_race
from rushlight.tune.records import Records, is_tile, tile_text
from rushlight.tune.search import Trial, Tuner, neighbours

WIDTH = llvm.host_target().vector_bytes


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    with settings.override(cache_dir=str(tmp_path), tuning_s=1):
        yield str(tmp_path)


def model(dtype: str = "float32", a: str = "plain row", b: str = "plain row", rows: int = 0) -> GemmTile:
    """The cost model's tile for operands that are packed, made or plain, by row or by column."""
    (a_packed, a_format), (b_packed, b_format) = (text.split() for text in (a, b))
    formats: dict[str, Format] = {"row": "row", "column": "column"}
    return choose_tile(
        dtype,
        WIDTH,
        a_packed=a_packed == "packed",
        a_format=formats[a_format],
        b_packed=b_packed == "packed",
        b_format=formats[b_format],
        b_made=b_packed == "made",
        rows=rows,
    )


def searches() -> int:
    """How many searches there have been."""
    return events.counters().get(("tuning", "search"), 0)


class Watching(Chooser):
    """Sees what there is to choose, and follows the model."""

    def __init__(self, seen: list[Product]) -> None:
        self.seen = seen

    def key(self, graph: Graph) -> None:
        """There is none."""

    def choose(self, product: Product) -> GemmTile:
        """The model's tile."""
        self.seen.append(product)
        return product.tile

    def blocks(self, graph: Graph) -> Blocks:
        """The model's blocks."""
        return BLOCKS

    def prepare(self, graph: Graph, blocks: Blocks) -> None:
        """Nothing is searched."""


class Scripted:
    """A race in which a tile takes as many seconds as a test says."""

    seconds: dict[tuple[int, int], float]

    def __init__(self, problem: Problem, race: object) -> None:
        self.problem = problem

    def prepare(self, tile: GemmTile) -> None:
        """Nothing is made ahead."""

    def close(self) -> None:
        """It holds nothing."""

    def run(self, tile: GemmTile, best: GemmTile) -> tuple[float | None, float]:
        """Their seconds, by rows and vectors."""
        return self.time_of(tile), self.time_of(best)

    def time_of(self, tile: GemmTile) -> float:
        """Seconds of a tile."""
        return self.seconds.get((tile.mr, tile.vectors), 2.0)


@pytest.mark.parametrize(
    ("dtype", "a", "b", "epilogue"),
    [
        ("float32", "plain row", "plain row", False),
        ("float32", "packed row", "packed row", True),
        ("float32", "plain row", "made row", True),
        ("float32", "plain row", "made column", False),
        ("float32", "plain column", "plain column", False),
        ("float64", "packed column", "plain row", True),
        ("float32", "plain row", "made column", True),
    ],
)
def test_every_candidate_gives_the_same_bits(dtype: str, a: str, b: str, epilogue: bool):
    tile = model(dtype, a, b, rows=37)
    problem = Problem.of(Product(tile, (2, 37, 75, 300), epilogue))
    assert f"a {a}, b {b}" in problem.name
    race = product_race(problem)
    seen: list[Product] = []
    compile_native(graph_of(problem), Watching(seen))
    assert [(product.tile, product.epilogue) for product in seen] == [(tile, epilogue)]
    candidates = [one for one in neighbours(tile) if one != tile and is_tile(one)]
    assert len({(one.mr, one.nr) for one in candidates}) >= 3
    for one in dict.fromkeys(candidates[::3]):
        assert race.run(one, tile)[0] is not None, tile_text(one)


def test_a_candidate_with_other_bits_is_seen(monkeypatch: pytest.MonkeyPatch):
    tile = model()
    race = product_race(Problem.of(Product(tile, (1, 16, 32, 8), False)))
    race._runner(tile).results[0][3, 5] += 1
    other = next(one for one in neighbours(tile) if one != tile and is_tile(one))
    assert race.run(other, tile)[0] is None


@pytest.mark.row("6.1")
def test_the_search_walks_to_the_fastest(monkeypatch: pytest.MonkeyPatch):
    tile = model()
    best = next(one for one in neighbours(tile) if is_tile(one) and one.mr != tile.mr)
    monkeypatch.setattr(search, "product_race", Scripted)
    monkeypatch.setattr(Scripted, "seconds", {(best.mr, best.vectors): 1.0}, raising=False)
    trials: list[Trial] = []
    tuner = Tuner(Records(""), "cpu", 2, tell=lambda problem, trial: trials.append(trial))
    found = tuner.choose(Product(tile, (1, 512, 512, 512), False))
    assert (found.mr, found.vectors) == (best.mr, best.vectors)
    assert sum(trial.taken for trial in trials) == 1
    (record,) = tuner.records.all()
    assert record.machine == "cpu x2"
    assert record.product == "float32, B=1, M=512, N=512, K=512, a plain row, b plain row"
    assert record.measured.startswith("1000.000 ms, 2000.000 ms by the model")


def test_a_gain_that_does_not_come_again_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    model_tile = model()

    class Once(Scripted):
        def run(self, tile: GemmTile, best: GemmTile) -> tuple[float | None, float]:
            last = best == model_tile and tile in self.before
            self.before.add(tile)
            return (2.0, 2.0) if last else (1.0, 2.0)

        before: ClassVar[set[GemmTile]] = set()

    monkeypatch.setattr(search, "product_race", Once)
    monkeypatch.setattr(search, "neighbours", lambda tile: list(neighbours(tile))[:2])
    assert Tuner(Records(""), "cpu", 1).choose(Product(model_tile, (1, 64, 64, 64), True)) == model_tile


def test_without_time_the_model_is_followed():
    tile = model()
    assert Tuner(Records(""), "cpu", 1, budget_s=0).choose(Product(tile, (1, 64, 64, 64), False)) == tile


@pytest.mark.row("6.1")
def test_what_is_recorded_is_not_measured_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "product_race", Scripted)
    monkeypatch.setattr(Scripted, "seconds", {}, raising=False)
    tuner = Tuner(Records(""), "cpu", 1)
    product = Product(model(), (1, 64, 64, 64), False)
    before = searches()
    assert [tuner.choose(product) for _ in range(3)] == [product.tile] * 3
    assert searches() == before + 1


def test_sizes_that_are_not_known_are_recorded_by_range():
    text = "f(%x: f32[s0, 64]) {\n  size s0 = HINT\n  %0 = relu(%x) : f32[s0, 64]\n  return %0\n}"
    graphs = [parse_graph(text.replace("HINT", str(hint)), OPERATORS) for hint in (600, 1000, 1025)]
    names = [
        Problem.of(Product(model(), (1, graph.parameters[0].type.shape[0], 8, 64), False)).name for graph in graphs
    ]
    assert names[0] == names[1] == "float32, B=1, M<=1024, N=8, K=64, a plain row, b plain row"
    assert "M<=2048" in names[2]
    tuner = Tuner(Records(""), "cpu", 2)
    keys = [tuner.key(graph) for graph in graphs]
    assert keys[0] == keys[1] != keys[2]


def test_max_autotune_searches_once_and_changes_no_bit(folder: str):
    x, w = rl.rand(70, 200), rl.rand(200, 130)

    def product(x: Any, w: Any) -> Any:
        return (x @ w).relu()

    before = searches()
    tuned = rl.compile(product, mode="max-autotune", dynamic=False)
    assert rl.equal(tuned(x, w), product(x, w))
    assert searches() == before + 1
    again = rl.compile(lambda x, w: (x @ w).relu() + 1, mode="max-autotune", dynamic=False)
    assert rl.equal(again(x, w), product(x, w) + 1)
    assert searches() == before + 1  # an equal product is known by now
    assert len(tune.shared_records().all()) == 1
    assert rl.equal(rl.compile(product)(x, w), product(x, w))
    assert searches() == before + 1


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there is no such mode") as caught:
        rl.compile(lambda x: x, mode="fastest")
    assert caught.value.code == "C001"
    assert rl.equal(rl.compile(lambda x: x + 1, mode="reduce-overhead")(rl.ones(2)), rl.ones(2) + 1)


@pytest.mark.generated
@pytest.mark.row("5.3")
@pytest.mark.parametrize("name", MODELS)
def test_tuned_models_have_no_kernel_more_and_the_same_bits(name: str, folder: str, monkeypatch: pytest.MonkeyPatch):
    """Each product gets a tile that is not the cost model's."""
    asked: list[str] = []

    def find(self: Tuner, problem: Problem) -> tuple[GemmTile, str]:
        asked.append(str(problem))
        sound = [tile for tile in neighbours(problem.tile) if is_tile(tile) and tile != problem.tile]
        return sound[len(asked) % len(sound)], "not measured"

    monkeypatch.setattr(Tuner, "search", find)
    record = MODELS[name]
    rl.manual_seed(0)
    model = record.make().eval()
    inputs = record.inputs(*PRESETS["tiny"][name])
    made: list[list[bytes]] = []
    kernels: list[int] = []
    for mode in ("default", "max-autotune"):
        compiled = rl.compile(model, mode=mode)
        with rl.no_grad():
            found = compiled(*inputs)
        made.append([one.numpy().tobytes() for one in (found if isinstance(found, tuple) else (found,))])
        kernels.append(rl.compiler.report(compiled).kernels)
    assert asked
    assert made[0] == made[1]
    assert kernels[1] <= kernels[0]
