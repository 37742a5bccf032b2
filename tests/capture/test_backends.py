"""Backends that are callables, and by name: results, gradients, effects and random numbers are eager code's."""

import pytest

import rushlight as rl
from rushlight import nn
from tensors import same


def collecting(graphs):
    def backend(graph, inputs):
        graphs.append((graph, inputs))
        return graph

    return backend


def step(x, w):
    h = (x @ w).relu()
    return h / h.sum(-1, keepdim=True), h.argmax(-1)


def _name(backend):
    return backend if isinstance(backend, str) else "callable"


def test_a_callable_gets_the_graph_and_example_inputs_once():
    graphs = []
    compiled = rl.compile(step, backend=collecting(graphs))
    x, w = rl.rand(5, 4), rl.rand(4, 3)
    for _ in range(3):
        for result, expected in zip(compiled(x, w), step(x, w), strict=True):
            same(result, expected)
    ((graph, inputs),) = graphs
    assert [tuple(value.shape) for value in inputs] == [(5, 4), (4, 3)]
    nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert [node.target for node in nodes][:2] == [rl.fx.ops.matmul, rl.fx.ops.relu]
    assert [str(node) for node in nodes[1].args] == ["matmul"]
    assert "matmul(in0, in1)" in graph.code
    assert len(graph.graph.output_node().args[0]) == 2


def test_one_graph_serves_other_sizes_and_stays_as_it_is():
    graphs = []
    compiled = rl.compile(step, backend=collecting(graphs))
    compiled(rl.rand(5, 4), rl.rand(4, 3))
    before = graphs[0][0].code
    for rows in (1, 0, 9):
        x, w = rl.rand(rows, 4), rl.rand(3, 4).T
        for result, expected in zip(compiled(x, w.contiguous()), step(x, w), strict=True):
            same(result, expected)
    assert len(graphs) == 1
    assert graphs[0][0].code == before
    same(graphs[0][0](x, w)[0], step(x, w)[0])  # the operand's elements lie in another order


def test_the_function_of_a_backend_decides_the_results():
    def doubled(graph, inputs):
        return lambda *values: [result * 2 for result in graph(*values)]

    compiled = rl.compile(lambda x: x + 1, backend=doubled)
    assert compiled(rl.ones(3)).tolist() == [4.0] * 3


@pytest.mark.parametrize("backend", [collecting([]), "eager", "aot_eager", "cudagraphs", "inductor"], ids=_name)
@pytest.mark.parametrize("options", [{}, {"fullgraph": False}, {"mode": "reduce-overhead"}], ids=str)
def test_gradients_effects_and_random_numbers_are_those_of_eager_code(backend, options):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)

        def forward(self, x, scale):
            return self.drop(self.norm(self.layer(x))).pow(2).sum() * scale

    outcomes = []
    for wrapped in (lambda model: model, lambda model: rl.compile(model, backend=backend, **options)):
        rl.manual_seed(3)
        model = Net()
        run = wrapped(model)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for turn in range(3):
            optimizer.zero_grad()
            loss = run(rl.rand(6, 4), 0.5 + turn)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        outcomes.append((losses, [p.tolist() for p in model.state_dict().values()], rl.rand(2).tolist()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("backend", [collecting([]), "eager"], ids=_name)
def test_writes_reach_what_is_written(backend):
    def writes(x, y):
        x.add_(1)
        y[0] = x[1] * 2
        return x.T

    one, other = (rl.arange(6.0).reshape(2, 3), rl.zeros(2, 3)), (rl.arange(6.0).reshape(2, 3), rl.zeros(2, 3))
    result, expected = rl.compile(writes, backend=backend)(*one), writes(*other)
    for left, right in [(result, expected), *zip(one, other, strict=True)]:
        same(left, right)
    result[0, 0] = 9.0
    assert one[0][0, 0] == 9.0


def test_sizes_that_values_tell_and_low_precision():
    def picks(x):
        positive = x[x > 0]
        return positive.bfloat16() * 2, positive.shape[0]

    compiled = rl.compile(picks, backend=collecting([]))
    for values in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0], [4.0, 5.0, 6.0]):
        x = rl.tensor(values)
        (result, count), (expected, length) = compiled(x), picks(x)
        same(result, expected)
        assert count == length


def test_a_size_that_a_promise_tells_by_others_is_shown_by_these():
    def splits(x, counts):
        first, second = counts.tolist()
        return rl.zeros(first + second), *x.split([first, second])

    compiled = rl.compile(splits, backend=collecting([]))
    for counts in ([3, 5], [1, 7], [8, 0]):
        given = rl.arange(8.0), rl.tensor(counts)
        for result, expected in zip(compiled(*given), splits(*given), strict=True):
            same(result, expected)


@pytest.mark.parametrize("fullgraph", [None, False])
def test_an_error_of_the_backend_reaches_the_caller_and_leaves_nothing(fullgraph):
    def fails(graph, inputs):
        raise LookupError("no kernel")

    compiled = rl.compile(lambda x: x + 1, backend=fails, fullgraph=fullgraph)
    for _ in range(2):
        with pytest.raises(LookupError, match="no kernel"):
            compiled(rl.ones(2))


def test_a_size_that_a_guard_has_fixed_is_known_to_operators_that_run_one_by_one():
    def fills(n):
        filled = rl.zeros(3, n)
        filled[0, 0] = 1.0
        filled[1, 0] = 2.0
        return filled.reshape(3, 2)  # which asks whether n is 2

    compiled = rl.compile(fills, backend="eager")
    assert compiled(2).tolist() == fills(2).tolist()


def test_a_backend_is_given_operators_over_a_batch():
    def function(x, y):
        return rl.func.vmap(lambda row: (row.sum(0) + row.sum(1) + y).unsqueeze(0).reshape(3, 1))(x)

    compiled = rl.compile(function, backend=lambda module, inputs: module, fullgraph=True)
    for count in (2, 4):
        x, y = rl.arange(count * 9.0).reshape(count, 3, 3), rl.arange(3.0)
        assert same(compiled(x, y), function(x, y))
