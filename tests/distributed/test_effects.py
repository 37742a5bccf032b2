"""Graphs keep collectives: each call, once, in order, and no value lives longer for it."""

import random

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.build.segments import HostStep, verify_steps
from rushlight.capture import segmented
from rushlight.distributed import _functional_collectives as funcol
from rushlight.ir.graph import Call, Graph, has_effect
from rushlight.runtime.allocator import CPU


def _calls(step) -> list[tuple[str, ...]]:
    """What collectives a function of each rank issues, by rank, in order."""

    def record():
        issued: list[str] = []
        engine = dist.GroupMember.WORLD.engine
        issue = engine.issue

        def noted(call):
            issued.append(f"{call.verb} {call.size}")
            return issue(call)

        engine.issue = noted
        step()
        return tuple(issued)

    return dist.spawn(record, 2)


def test_a_result_that_nothing_needs_is_still_exchanged():
    @rl.compile(fullgraph=True)
    def f(x):
        funcol.all_reduce(x, "sum")
        return x * 2

    assert _calls(lambda: f(rl.ones(3))) == [("all_reduce 3",)] * 2


def test_equal_calls_are_two_exchanges():
    @rl.compile(fullgraph=True)
    def f(x):
        return funcol.all_reduce(x, "sum") + funcol.all_reduce(x, "sum")

    assert _calls(lambda: f(rl.ones(3))) == [("all_reduce 3",) * 2] * 2


def test_independent_calls_keep_their_order():
    """The second call's operand is ready first: it needs no value of another call."""

    @rl.compile(fullgraph=True)
    def f(x, y, z):
        a = funcol.all_reduce(funcol.all_reduce(x, "sum").sin(), "sum")
        b = funcol.all_reduce(y, "sum")
        return funcol.all_reduce(z, "max"), b, a

    issued = _calls(lambda: f(rl.ones(3), rl.ones(2), rl.ones(1)))
    assert issued == [("all_reduce 3", "all_reduce 3", "all_reduce 2", "all_reduce 1")] * 2


def test_the_backward_pass_exchanges_once_and_in_order():
    @rl.compile(fullgraph=True)
    def f(x, y):
        return funcol.all_reduce(x, "sum").sum() + funcol.all_reduce(y, "avg").sum()

    def step():
        f(rl.ones(3, requires_grad=True), rl.ones(2, requires_grad=True)).backward()

    first, second = _calls(step)
    assert first == second and sorted(first) == ["all_reduce 2"] * 2 + ["all_reduce 3"] * 2
    assert first[:2] == ("all_reduce 3", "all_reduce 2")


def two_branches(p, q, x, y):
    a = rl.cond(p, lambda: funcol.all_reduce(x, "sum"), lambda: funcol.all_reduce(x * 2, "sum"))
    b = rl.cond(q, lambda: funcol.all_reduce(y, "sum"), lambda: funcol.all_reduce(y * 3, "sum"))
    return (b * 2).cumsum(0), a.sin().sum(), y.sum()


def in_any_order(graph: Graph, rng: random.Random) -> Graph:
    """A graph whose calls stand in another order: of those that are ready any goes next, of effects the first."""
    calls = [*graph.calls]
    effects = [call for call in calls if has_effect(call)]
    ordered: list[Call] = []
    made = {id(call) for call in graph.parameters}
    while calls:
        ready = [call for call in calls if all(id(operand) in made for operand in call.inputs())]
        ready = [call for call in ready if not has_effect(call) or call is effects[0]]
        call = rng.choice(ready)
        calls.remove(call)
        effects = effects[1:] if has_effect(call) else effects
        ordered.append(call)
        made.add(id(call))
    return Graph(graph.parameters, tuple(ordered), graph.outputs, graph.mutations, graph.views, graph.name)


@pytest.mark.row("5.5")
def test_branches_with_collectives_keep_the_order_on_all_ranks_whatever_is_ready(monkeypatch):
    """Of both ranks' graphs ready calls are shuffled 200 times; ranks run in 20 orders."""
    cut, rng, orders = segmented.cut_at_unbacked_outputs, random.Random(0), set[tuple[int, ...]]()

    def cut_shuffled(graph):
        if not any(map(has_effect, graph.calls)):
            return cut(graph)
        numbers = {id(call): number for number, call in enumerate(graph.calls)}
        for _ in range(200):
            shuffled = in_any_order(graph, rng)
            orders.add(tuple([numbers[id(call)] for call in shuffled.calls]))
            steps = cut(shuffled)
            verify_steps(shuffled, steps)
            issued = [step.call for step in steps if isinstance(step, HostStep) and has_effect(step.call)]
            assert issued == [call for call in graph.calls if has_effect(call)]
        return steps

    monkeypatch.setattr(segmented, "cut_at_unbacked_outputs", cut_shuffled)

    def step():
        rank = dist.get_rank()
        compiled = rl.compile(two_branches, fullgraph=True)
        for p, q in ((0, 1), (1, 1)):
            b, _, total = compiled(rl.tensor(rank == p), rl.tensor(rank == q), rl.ones(3), rl.ones(2))
            assert (b.tolist(), total.item()) == ([8.0, 16.0], 2.0)

    for seed in range(20):
        dist.spawn(step, 2, seed=seed)
    assert len(orders) > 20


@pytest.mark.row("5.5")
def test_branches_that_exchange_other_things_are_the_named_mismatch():
    @rl.compile(fullgraph=True)
    def f(p, x):
        return rl.cond(p, lambda: funcol.all_reduce(x, "sum"), lambda: funcol.all_reduce(x, "max"))

    with pytest.raises(rl.DistError, match="ranks disagree in the reduction"):
        dist.spawn(lambda: f(rl.tensor(dist.get_rank() == 0), rl.ones(3)), 2)


@pytest.mark.row("5.5")
@pytest.mark.unpoisoned
def test_order_keeps_no_value_alive():
    """Small collectives between large ones, on values of their own, leave the peak of memory as it is."""
    nbytes = 4 << 18

    def peak(ordered: bool) -> int:
        @rl.compile(fullgraph=True)
        def f(x, y):
            for _ in range(6):
                x = funcol.all_reduce(x.sin(), "sum")
                if ordered:
                    y = funcol.all_reduce(y, "sum")
            return x.sum(), y

        def step():
            x, y = rl.ones(nbytes // 4), rl.ones(1)
            f(x, y)
            CPU.reset_peak()
            before = CPU.statistics().used_bytes
            f(x, y)
            return CPU.statistics().peak_bytes - before

        return dist.spawn(step, 1)[0]

    assert peak(True) < peak(False) + nbytes // 2


def test_a_program_that_depends_on_its_rank_is_traced_for_each():
    @rl.compile(fullgraph=True)
    def f(x):
        return x + dist.get_rank() * 10 + dist.get_world_size()

    assert dist.spawn(lambda: f(rl.zeros(1)).item(), 2) == [2.0, 12.0]
    assert dist.spawn(lambda: f(rl.zeros(1)).item(), 3) == [3.0, 13.0, 23.0]


def test_one_trace_serves_all_sizes():
    def step():
        f = rl.compile(lambda x: funcol.all_gather_tensor(x, 0).sin().sum(), fullgraph=True)
        results = [f(rl.ones(rows, 2)).item() for rows in (3, 1, 5)]
        return results, rl.compiler.graph_count()

    rl.compiler.reset()
    for results, _ in dist.spawn(step, 2):
        assert results == [float(rl.ones(2 * rows, 2).sin().sum()) for rows in (3, 1, 5)]


@pytest.mark.row("8.9")
def test_sizes_that_values_tell():
    @rl.compile(fullgraph=True)
    def f(x, counts):
        taken = funcol.all_to_all_single(counts, None, None)
        return funcol.all_to_all_single(x, taken.tolist(), counts.tolist()) * 2

    def step():
        rank = dist.get_rank()
        results = []
        for sizes in ([[1, 2], [3, 0]], [[0, 4], [2, 2]]):
            counts = rl.tensor(sizes[rank])
            x = (rl.arange(sum(sizes[rank])) + 100.0 * rank).requires_grad_()
            out = f(x, counts)
            (out * (rank + 1)).sum().backward()
            results.append((out.tolist(), x.grad.tolist()))
        return results

    assert dist.spawn(step, 2) == [
        [([0.0, 200.0, 202.0, 204.0], [2.0, 4.0, 4.0]), ([200.0, 202.0], [4.0] * 4)],
        [([2.0, 4.0], [2.0] * 3), ([0.0, 2.0, 4.0, 6.0, 204.0, 206.0], [2.0, 2.0, 4.0, 4.0])],
    ]
