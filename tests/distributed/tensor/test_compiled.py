"""Divided tensors in compiled functions: a program for each rank, with its collectives."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.build import inlining
from rushlight.capture.function import building
from rushlight.distributed import _functional_collectives as funcol
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    dispatch,
    distribute_tensor,
    init_device_mesh,
    is_evenly_sharded,
)


def spawn(function, count):
    """Runs a function with a mesh on its ranks."""
    return dist.spawn(lambda: function(init_device_mesh("cpu", (count,))), count)


def layer(x, w):
    return (x @ w).relu().sum(0)


@pytest.mark.row("8.2")
def test_a_compiled_function_gives_what_it_gives_uncompiled_and_leaves_the_tables_alone():
    def run(mesh):
        rl.manual_seed(0)
        compiled = rl.compile(layer)
        for size in (6, 9):
            x = distribute_tensor(rl.randn(size, 4), mesh, [Shard(0)])
            w = distribute_tensor(rl.randn(4, 5), mesh, [Shard(0)])
            tables = dispatch.cache_sizes()
            dist.barrier()  # ranks that are threads share the tables
            found = compiled(x, w)
            dist.barrier()
            assert dispatch.cache_sizes() == tables
            dist.barrier()
            wanted = layer(x, w)
            assert isinstance(found, DTensor)
            assert found.placements == wanted.placements
            np.testing.assert_array_equal(found.to_local().numpy(), wanted.to_local().numpy())
            np.testing.assert_array_equal(compiled(x, w).to_local().numpy(), wanted.to_local().numpy())

    spawn(run, 2)


@pytest.mark.row("8.2")
def test_compiled_gradients_lie_as_uncompiled_ones():
    def run(mesh):
        rl.manual_seed(0)
        values = rl.randn(6, 4), rl.randn(4, 5)
        found = []
        for function in (layer, rl.compile(layer)):
            leaves = [distribute_tensor(value, mesh, [Shard(0)]).requires_grad_() for value in values]
            out = function(*leaves).redistribute(placements=[Replicate()])
            out.square().sum().backward()
            found.append([leaf.grad for leaf in leaves])
        for plain, compiled in zip(*found, strict=True):
            assert compiled.placements == plain.placements == (Shard(0),)
            np.testing.assert_allclose(compiled.to_local().numpy(), plain.to_local().numpy(), rtol=1e-5, atol=1e-6)

    spawn(run, 2)


PLACEMENTS = [Shard(0), Shard(1), Replicate()]
ONE_GRAPH = {
    "half": lambda x: x[: x.shape[0] // 2],
    "half of the columns": lambda x: x[:, : x.shape[1] // 2],
    "step": lambda x: x[1 : x.shape[0] - 1 : 2],
    "log_softmax down": lambda x: rl.nn.functional.log_softmax(x, 0),
    "log_softmax along": lambda x: rl.nn.functional.log_softmax(x, 1),
    "product": layer,
    "to columns": lambda x: x.redistribute(placements=[Shard(1)]) * 2,
}
SIZES = (8, 12, 9, 21, 14, 7)


def graphs_of(function, placement, ranks, sizes=SIZES, grad=False):
    """How many graphs each rank has made of a function for arguments of some sizes; results are compared."""
    rl.manual_seed(0)
    values = [rl.randn(size, 6) for size in sizes]
    weight = rl.randn(6, 4)

    def run(mesh):
        compiled = rl.compile(function, fullgraph=True)
        arguments = function.__code__.co_argcount
        for value in values:
            outcomes = []
            for call in (function, compiled):
                given = [
                    distribute_tensor(value, mesh, [Replicate()]).redistribute(placements=[placement]),
                    distribute_tensor(weight, mesh, [Replicate()]),
                ]
                given = [one.detach().requires_grad_(grad) for one in given[:arguments]]
                out = call(*given)
                if grad:
                    out.redistribute(placements=[Replicate()]).square().sum().backward()
                outcomes.append([out.detach(), *[one.grad for one in given if grad]])
            for plain, found in zip(*outcomes, strict=True):
                assert found.placements == plain.placements
                assert found.shape == plain.shape
                np.testing.assert_allclose(found.to_local().numpy(), plain.to_local().numpy(), rtol=1e-5, atol=1e-6)

    before = rl.compiler.graph_count()
    spawn(run, ranks)
    return (rl.compiler.graph_count() - before) / ranks


@pytest.mark.generated("name")
@pytest.mark.row("8.5")
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_a_divided_call_of_any_size_is_one_graph(name, placement):
    assert graphs_of(ONE_GRAPH[name], placement, 2) == 1


@pytest.mark.row("8.3")
@pytest.mark.parametrize("name", ["log_softmax down", "product", "half"])
def test_gradients_of_any_size_are_those_of_one_graph(name):
    assert graphs_of(ONE_GRAPH[name], Shard(0), 2, grad=True) == 1


def test_gradients_of_partial_values_are_whole_in_compiled_functions_too():
    assert graphs_of(lambda x: (x * 2).sin(), Partial(), 2, grad=True) == 1


@pytest.mark.row("8.2")
def test_an_addition_with_gradients_and_open_sizes_compiles_and_no_symbol_stays_in_a_table():
    def add(x):
        return x + x

    assert graphs_of(add, Shard(0), 3, grad=True) == 1
    known = dispatch.cache_sizes()
    assert graphs_of(lambda x: x + x, Shard(0), 3, sizes=SIZES) == 1  # another capture, with symbols of the same names
    assert dispatch.cache_sizes()[:2] == known[:2]
    assert "SizeExpr" not in dispatch.contents()


@pytest.mark.row("8.5")
def test_ranks_with_one_place_or_none_make_the_same_collectives():
    assert graphs_of(ONE_GRAPH["to columns"], Shard(0), 4, sizes=(8, 5, 3, 2, 1, 16)) <= 6


@pytest.mark.row("8.6")
def test_whether_parts_are_even_is_asked_of_open_sizes_and_guarded():
    def run(mesh):
        @rl.compile(fullgraph=True)
        def f(x):
            return x * (2 if is_evenly_sharded(x.shape, mesh, x.placements) else 3)

        found = []
        for size in (4, 8, 5, 7, 6):
            x = distribute_tensor(rl.ones(size), mesh, [Shard(0)])
            found.append(f(x).full_tensor()[0].item())
        return found

    before = rl.compiler.graph_count()
    assert spawn(run, 2) == [[2.0, 2.0, 3.0, 3.0, 2.0]] * 2
    assert rl.compiler.graph_count() - before == 4


def test_a_compiled_program_has_the_calls_of_one_that_is_written_for_a_rank(monkeypatch):
    seen: list[list[str]] = []

    def noted(graph):
        seen.append([call.op.name for call in graph.calls])
        return inlining.inlined(graph)

    monkeypatch.setattr(building, "inlined", noted)
    dist.init_process_group("fake", rank=0, world_size=2)
    try:
        mesh = init_device_mesh("cpu", (2,))
        lies = (Replicate(),), (Shard(1),), (Shard(0),)
        sizes = (6, 8), (8, 10), (10, 8)
        divided = [distribute_tensor(rl.rand(*size), mesh, how) for size, how in zip(sizes, lies, strict=True)]

        def block(x, up, down):
            return rl.nn.functional.gelu(x @ up) @ down

        rl.compile(lambda *given: block(*given).redistribute(placements=[Replicate()]), fullgraph=True)(*divided)
        parts = [one.to_local().contiguous() for one in divided]
        rl.compile(lambda *given: funcol.all_reduce(block(*given), "sum", mesh), fullgraph=True)(*parts)
    finally:
        dist.destroy_process_group()
    ours, by_hand = seen
    assert ours == by_hand and ours.count("matmul") == 2 and ours.count("all_reduce") == 1
