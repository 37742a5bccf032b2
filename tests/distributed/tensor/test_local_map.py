"""Functions on the parts of divided tensors."""

import functools
from collections import Counter

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.build import inlining
from rushlight.capture.function import building
from rushlight.capture.gradients import orders
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    comm_report,
    distribute_tensor,
    init_device_mesh,
    local_map,
)
from rushlight.eager.interception import TorchDispatchMode
from rushlight.ir.graph import Graph
from rushlight.support.errors import DistError, RushlightError
from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def spawn(function, *shape):
    """Runs a function with a mesh on its ranks."""
    return dist.spawn(lambda: function(init_device_mesh("cpu", shape)), int(np.prod(shape)))


@pytest.mark.row("8.7")
def test_attention_over_heads_and_its_gradients_are_those_of_whole_tensors():
    rl.manual_seed(0)
    arrays = [rl.randn(2, 4, 5, 3) for _ in range(3)]
    leaves = [array.clone().requires_grad_() for array in arrays]
    wanted = rl.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
    (wanted**2).sum().backward()

    def run(mesh):
        heads = [Shard(1)]

        def attend(q, k, v):
            assert type(q) is rl.Tensor
            return rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        mapped = local_map(attend, heads, (heads, heads, heads), redistribute_inputs=True)
        given = [distribute_tensor(array, mesh, [Shard(0)]).requires_grad_() for array in arrays]
        out = mapped(*given)
        assert isinstance(out, DTensor)
        assert out.placements == (Shard(1),)
        (out**2).sum().backward()
        np.testing.assert_allclose(out.full_tensor().detach().numpy(), wanted.detach().numpy(), rtol=1e-5)
        for one, leaf in zip(given, leaves, strict=True):
            assert one.grad.placements == one.placements
            np.testing.assert_allclose(one.grad.full_tensor().numpy(), leaf.grad.numpy(), rtol=1e-4, atol=1e-5)

    spawn(run, 2)


@pytest.mark.row("8.7")
def test_parts_that_lie_otherwise_or_differ_in_shape_are_errors():
    def run(mesh):
        mapped = local_map(lambda x: x * 2, [Shard(0)], ([Shard(0)],))
        with pytest.raises(DistError, match=r"lies \[S\(1\)\], not \[S\(0\)\]"):
            mapped(distribute_tensor(rl.ones(4, 4), mesh, [Shard(1)]))
        with pytest.raises(DistError, match="different shapes") as caught:
            mapped(distribute_tensor(rl.ones(5, 4), mesh, [Shard(0)]))
        assert caught.value.code == "W024"
        with pytest.raises(DistError, match="is a plain tensor"):
            mapped(rl.ones(4, 4))
        return mapped(distribute_tensor(rl.ones(4, 4), mesh, [Shard(0)])).full_tensor().sum().item()

    assert spawn(run, 2) == [32.0] * 2


@pytest.mark.row("8.8")
def test_another_number_of_inputs_or_results_is_an_error_that_counts():
    def run(mesh):
        x = distribute_tensor(rl.ones(4), mesh, [Shard(0)])
        with pytest.raises(DistError, match="Expecting 2 inputs to local_map function based on placements, but"):
            local_map(lambda x: x, [Shard(0)], ([Shard(0)], [Shard(0)]))(x)
        with pytest.raises(DistError, match="Expecting 2 results to local_map function") as caught:
            local_map(lambda x: x, ([Shard(0)], [Shard(0)]), ([Shard(0)],))(x)
        assert caught.value.code == "W027"

    spawn(run, 2)


@pytest.mark.row("8.7")
def test_results_may_be_partial_and_gradients_lie_as_they_are_said_to():
    def run(mesh):
        x = distribute_tensor(rl.arange(4.0), mesh, [Replicate()]).requires_grad_()

        def share(x):
            return x * (mesh.get_local_rank() + 1), 7

        mapped = local_map(share, ([Partial()], None), ([Replicate()],), ([Partial()],))
        with comm_report() as report:
            total, number = mapped(x)
            total.redistribute(placements=[Replicate()]).sum().backward()
        assert number == 7
        assert x.grad.placements == (Replicate(),)
        return total.full_tensor().tolist(), x.grad.to_local().tolist(), report.counts()

    assert spawn(run, 2)[0] == ([0.0, 3.0, 6.0, 9.0], [3.0] * 4, {"all_reduce": 2})


HEADS = [Shard(1)]


def attend(q, k, v):
    """Attention by products, so that each shows in a graph."""
    return ((q @ k.mT) * 0.5).softmax(-1) @ v


def mapped_attention(**options):
    return local_map(attend, HEADS, (HEADS, HEADS, HEADS), redistribute_inputs=True, **options)


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that are compiled, before calls of parts become the calls that they stand for, and after."""
    seen: list[tuple[Graph, Graph]] = []

    def noted(graph):
        seen.append((graph, inlining.inlined(graph)))
        return seen[-1][1]

    for module in (building, orders):
        monkeypatch.setattr(module, "inlined", noted)
    return seen


def names(graph, op):
    return sum(call.op.name == op for call in graph.calls)


@pytest.mark.row("8.7")
@pytest.mark.row("2.11")
def test_a_call_is_one_node_of_a_graph_and_so_is_its_gradient(graphs):
    arrays = [rl.randn(2, 4, size, 3) for size in (5, 8, 9) for _ in range(3)]

    def f(q, k, v):
        return mapped_attention()(q * 2, k, v) ** 2

    def run(mesh):
        compiled = rl.compile(f, fullgraph=True)
        for at in (0, 3, 6):
            found = []
            for function in (f, compiled):
                given = [distribute_tensor(one, mesh, [Shard(2)]).requires_grad_() for one in arrays[at : at + 3]]
                out = function(*given)
                out.sum().backward()
                found.append([out.detach(), *[one.grad for one in given]])
            for one, other in zip(*found, strict=True):
                assert one.placements == other.placements
                np.testing.assert_allclose(other.full_tensor().numpy(), one.full_tensor().numpy(), 1e-4, 1e-5)

    before = rl.compiler.graph_count()
    spawn(run, 2)
    assert rl.compiler.graph_count() - before == 2  # one for each rank, whatever the sizes
    assert len(graphs) == 4
    assert [names(captured, "local_map") for captured, _ in graphs] == [1] * 4
    assert [names(captured, "matmul") for captured, _ in graphs] == [0] * 4
    assert [names(made, "local_map") for _, made in graphs] == [0] * 4
    # Two products forward, and four for their gradients: nothing is computed twice.
    assert sorted(names(made, "matmul") for _, made in graphs) == [2, 2, 4, 4]
    assert sorted(names(made, "softmax") for _, made in graphs) == [0, 0, 1, 1]
    (call,) = [call for call in graphs[0][0].calls if call.op.name == "local_map"]
    assert call.attr("placements")[:2] == ("attend", "[S(2)] [S(2)] [S(2)]")


@pytest.mark.row("2.11")
def test_calls_of_parts_in_a_checkpoint_and_in_each_other_are_nodes_in_nodes(graphs):
    def outer(x):
        y = DTensor.from_local(x.sin(), init_device_mesh("cpu", (2,)), [Shard(0)])
        return local_map(lambda part: part.exp() * 2, [Shard(0)], ([Shard(0)],))(y).to_local() + 1

    def f(x):
        mapped = local_map(outer, [Shard(0)], ([Shard(0)],))
        return mapped(checkpoint(mapped, x, use_reentrant=False))

    def run(mesh):
        found = []
        for function in (f, rl.compile(f, fullgraph=True)):
            x = distribute_tensor(rl.arange(8.0).reshape(4, 2) / 10, mesh, [Shard(0)]).requires_grad_()
            out = function(x)
            out.sum().backward()
            found.append((out.detach().full_tensor().numpy(), x.grad.full_tensor().numpy()))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)

    spawn(run, 2)
    nodes = [[call for call in captured.calls if call.op.name == "local_map"] for captured, _ in graphs]
    assert [len(calls) for calls in nodes] == [2] * 4
    assert all(names(call.attr("body").graph, "local_map") == 1 for calls in nodes for call in calls)
    assert all(names(made, "local_map") == 0 for _, made in graphs)


@pytest.mark.row("8.7")
def test_a_second_derivative_of_a_node_is_an_error():
    def run(mesh):
        def f(q):
            (gradient,) = rl.autograd.grad(mapped_attention()(q, q, q).sum(), q, create_graph=True)
            return gradient.square().sum()

        q = distribute_tensor(rl.ones(1, 2, 3, 2), mesh, HEADS).requires_grad_()
        with pytest.raises(RushlightError) as caught:
            rl.compile(f, fullgraph=True)(q).backward()
        assert caught.value.code == "G009"

    spawn(run, 2)


@pytest.mark.row("8.8")
@pytest.mark.parametrize("kept", [(), ("softmax",), ("matmul",), ("matmul", "softmax")])
def test_a_policy_of_what_is_kept_holds_within_a_call_on_parts(kept):
    """What the policy names is computed once; all else again, for the backward pass."""
    ran: Counter[str] = Counter()

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not any(isinstance(one, DTensor) for one in args):
                ran[func.__name__] += 1
            return func(*args, **(kwargs or {}))

    def run(mesh):
        mapped = local_map(attend, HEADS, (HEADS, HEADS, HEADS))
        contexts = functools.partial(create_selective_checkpoint_contexts, list(kept))
        given = [distribute_tensor(rl.randn(2, 2, 4, 3), mesh, HEADS).requires_grad_() for _ in range(3)]
        with Counting():
            checkpoint(mapped, *given, use_reentrant=False, context_fn=contexts).sum().backward()
        return [one.grad.to_local().numpy() for one in given], [one.detach().full_tensor() for one in given]

    (found, given), _ = spawn(run, 2)
    leaves = [one.requires_grad_() for one in given]
    attend(*leaves).sum().backward()
    for one, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(one, leaf.grad.numpy()[:, :1], rtol=1e-4, atol=1e-6)
    assert ran["softmax"] == 2 * (1 if "softmax" in kept else 2)


@pytest.mark.row("8.8")
def test_a_wrong_number_of_inputs_of_a_traced_call_names_the_function_and_what_it_got():
    def run(mesh):
        x = distribute_tensor(rl.ones(4), mesh, [Shard(0)])
        wrong = rl.compile(lambda x: local_map(attend, HEADS, ([Shard(0)], [Shard(0)]))(x), fullgraph=True)
        with pytest.raises(DistError, match="Expecting 2 inputs to local_map function") as caught:
            wrong(x)
        text = str(caught.value)
        assert "but found 1" in text
        assert "function: 'attend'" in text
        assert "found: 'DTensor'" in text
        assert "one entry for each tensor" in text

    spawn(run, 2)
