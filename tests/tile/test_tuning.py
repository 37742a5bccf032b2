"""Searching for blocks: records, budgets, bits, and every block of the space before memory that may not be touched."""

import importlib
import pkgutil
import random
import sys
import time
from dataclasses import replace

import examples.tile
import numpy as np
import pytest
from tests.codegen.guarded_memory import before_a_hole

import rushlight as rl
from rushlight import tune
from rushlight.build.native import compile_native
from rushlight.eager.execution.signature import signature_of, symbols_of
from rushlight.ir.choice import BLOCKS, AxisBlock, AxisSpace, Blocks
from rushlight.ir.graph import GraphBuilder
from rushlight.ir.graph_parse import parse_graph
from rushlight.ops.record import OPERATORS
from rushlight.tile import kernel, register_block_size, tile, tuning
from rushlight.tune import Records, Tuner, search
from rushlight.tune.measure import Always, Prepared

MIXED = 24  # of a space's combinations of blocks of loops with other fields, which are thousands
NAMES = [module.name for module in pkgutil.iter_modules(examples.tile.__path__)]


@pytest.fixture
def tuner(monkeypatch: pytest.MonkeyPatch) -> Tuner:
    """A tuner without records, which others do not see."""
    made = Tuner(Records(""), "cpu", 2)
    monkeypatch.setattr(tune, "tuner_here", lambda: made)
    return made


def made_softmax(**options: float):
    def softmax(x):
        out = rl.empty_like(x)
        for i in tile(x.shape[0]):
            row = (x[i, :] - x[i, :].amax(1, keepdim=True)).exp()
            out[i, :] = row / row.sum(1, keepdim=True)
        return out

    return kernel(**options)(softmax)


def test_what_is_found_is_recorded_and_used(tuner: Tuner, monkeypatch: pytest.MonkeyPatch):
    fast = Blocks(grain=1024)

    class Scripted:
        """A race that a grain of 1024 wins."""

        def __init__(self, *args: object) -> None:
            pass

        def prepare(self, blocks: Blocks) -> None:
            pass

        def run(self, blocks: Blocks, best: Blocks) -> tuple[float, float]:
            return (1.0 if blocks == fast else 2.0, 1.0 if best == fast else 2.0)

        def close(self) -> None:
            pass

    monkeypatch.setattr(search, "Race", Scripted)
    softmax, x = made_softmax(), rl.randn(40, 30)
    before = softmax(x)
    assert tuning.tune(softmax, x, budget=60) == fast
    (record,) = tuner.records.all()
    assert record.tile == str(fast) and record.measured.startswith("1000.000 ms, 2000.000 ms by the model")
    assert rl.equal(softmax(x), before)
    monkeypatch.setattr(search, "Race", None)  # nothing is measured where a record fits
    assert tuning.tune(made_softmax(), x, budget=60) == fast


def test_a_kernel_tunes_at_its_first_call_within_its_budget(tuner: Tuner):
    softmax, x = made_softmax(tune=1.0), rl.randn(64, 64)
    begun = time.perf_counter()
    found = softmax(x)
    assert time.perf_counter() - begun < 15  # the first trial is begun, however slow the machine
    assert len(tuner.records.all()) == 1
    assert rl.allclose(found, x.softmax(1))
    assert made_softmax(tune=1.0)(rl.randn(0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "grain=x",
        "grain=4 row_bytes=4 chains=1",
        "grain=0 row_bytes=1 chains=1 splits=1 unroll=1 inverted=0",
        "grain=1 row_bytes=1 chains=1 splits=1 unroll=0 inverted=0",
        "grain=1 row_bytes=1 chains=1 splits=1 unroll=1 inverted=0 block.0.1=0",
        "grain=1 row_bytes=1 chains=1 splits=1 unroll=1 inverted=0 block.0=4",
        "grain=1 row_bytes=1 chains=1 splits=1 unroll=1 inverted=0 block.a.0=4",
    ],
)
def test_impossible_records_are_the_default(text: str, tuner: Tuner):
    assert Blocks.parse(text) is None
    blocks = Blocks(7, 8, False, True, 2, True, (AxisBlock(0, 1, 32), AxisBlock(3, 0, 5)))
    assert Blocks.parse(str(blocks)) == blocks


def test_equal_plans_are_tried_once():
    graph = parse_graph("g(%x: f32[64, 64]) {\n  %0 = exp(%x) : f32[64, 64]\n  return %0\n}", OPERATORS)
    plans = search.DistinctPlans(graph)
    fields = ("grain", "row_bytes", "chains", "splits")
    distinct = [blocks for blocks in search.all_blocks(fields) if plans.is_new(blocks)]
    assert {blocks.grain for blocks in distinct} | {BLOCKS.grain} == set(search.SPACE["grain"])
    assert len(distinct) == len(search.SPACE["grain"]) - 1


def plan_of(run, args, blocks: Blocks) -> str:
    return search.DistinctPlans(traced(run, args)[0], blocks).first


def test_a_block_of_a_loop_is_that_of_the_code():
    @kernel
    def outer(x, y):
        out = rl.empty(x.shape[0], y.shape[0])
        for i, j in tile(x.shape[0], y.shape[0], block=[16, register_block_size(8, 64)]):
            out[i, j] = x[i, None] * y[None, j]
        return out

    args = rl.randn(50), rl.randn(70)
    assert rl.equal(outer(*args), args[0].outer(args[1]))
    assert outer.spaces == [AxisSpace(0, 0, 16, 16), AxisSpace(1, 0, 8, 64)]
    assert [block.width for block in outer.spaces[1].widths()] == [8, 8, 32, 64]
    fixed = tuning.declared_blocks(outer.spaces)
    assert fixed.axes == (AxisBlock(0, 0, 16),)
    assert "+ 15)//16 {" in plan_of(outer, args, fixed)
    assert "//16 {" not in plan_of(outer, args, BLOCKS)
    both = plan_of(outer, args, replace(fixed, unroll=2, inverted=True))
    assert both.count("] = ") == 3  # two neighbours, and one that is left


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy of an array, behind whose last element memory may not be touched."""
    return before_a_hole(array).reshape(array.shape)


def traced(run, args):
    """The graph of a kernel for the forms of some arguments, with open sizes, and whether it holds for others."""
    made = symbols_of(signature_of([arg.form for arg in args]))
    builder = GraphBuilder(run.name)
    nodes = tuple([builder.parameter(f"p{at}", type_) for at, type_ in enumerate(made.types)])
    _, constants = run._taken(tuple(args), {})
    graph = builder.graph(builder.apply(run.operator, (nodes,), {"constants": constants}))

    def holds(others) -> bool:
        values = signature_of([arg.form for arg in others]).values
        bindings = dict(zip(made.symbols, values, strict=True))
        return all(guard.condition.holds(bindings) for guard in made.scope.guards)

    return graph, holds


@pytest.mark.generated
@pytest.mark.row("7.7")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guards memory with Linux's mprotect")
@pytest.mark.parametrize("name", NAMES)
def test_no_block_of_the_space_touches_what_lies_behind(name: str):
    module = importlib.import_module(f"examples.tile.{name}")
    rl.manual_seed(0)
    shapes = [module.inputs(*sizes) for sizes in ((37, 19, 11), (5, 3, 11), (130, 65, 11))]
    graph, holds = traced(module.run, shapes[0])
    plans = search.DistinctPlans(graph)
    mixed = list(search.all_blocks(("chains", "unroll", "inverted"), module.run.spaces))
    space = [
        *search.all_blocks(("grain", "row_bytes", "chains", "splits")),
        *random.Random(name).sample(mixed, min(MIXED, len(mixed))),
    ]
    expected = [module.run(*args).numpy() for args in shapes]
    assert all(holds(args) for args in shapes)
    for blocks in (BLOCKS, *filter(plans.is_new, space)):
        executable = compile_native(graph, Always(blocks=blocks))
        for args, values in zip(shapes, expected, strict=True):
            operands = [guarded(arg.numpy()) for arg in args]
            prepared = Prepared(executable, operands, lambda shape, dtype: guarded(np.empty(shape, dtype)))
            prepared.run()
            assert prepared.results[0].tobytes() == values.tobytes(), str(blocks)
