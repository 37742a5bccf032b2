"""Indices out of range in compiled code: the error that eager code raises, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import build
from rushlight.build import with_asserts_of_dead_calls
from rushlight.export import export
from rushlight.ir.graph import Graph
from rushlight.ops.batching import Batched
from rushlight.ops.index_ranges import RULES
from rushlight.ops.ragged import ids_within, lengths_within
from rushlight.support.errors import RushlightError

X = rl.arange(12.0).reshape(3, 4)
BACKENDS = ("rushlight", "eager", "aot_eager", "reference")

# By operator: a function of a tensor [3, 4] and of rows, two indices below 3; and rows that it refuses.
READS: Mapping[str, Callable[[Any, Any], Any]] = {
    "gather": lambda x, rows: x.gather(0, rows[:, None]),
    "scatter": lambda x, rows: x.scatter(0, rows[:, None], 1.0),
    "scatter_add": lambda x, rows: x.scatter_add(0, rows[:, None], x[:2]),
    "scatter_reduce": lambda x, rows: x.scatter_reduce(0, rows[:, None], x[:2], "amax"),
    "index_select": lambda x, rows: x.index_select(0, rows),
    "take_along_dim": lambda x, rows: rl.take_along_dim(x, rows[:, None], 0),
    "searchsorted": lambda x, rows: rl.searchsorted(x[:2, 0], x[0], sorter=rows - (rows > 0)),
    "index_add": lambda x, rows: x.index_add(0, rows, x[:2]),
    "index": lambda x, rows: x[rows],
    "index_put": lambda x, rows: x.index_put((rows,), x[:2]),
    "embedding": lambda x, rows: F.embedding(rows, x),
    "embedding_bag": lambda x, rows: F.embedding_bag(rows[None], x),
    "ids_within": lambda x, rows: ids_within(rows, rl.tensor([0, 2]), rl.tensor([3])),
    "offsets_within": lambda x, rows: F.embedding_bag(X[0].long(), x.t() * 1, rl.stack([rows[1], rows[0]])),
    "lengths_within": lambda x, rows: lengths_within(rows, 2),
    "not_negative": lambda x, rows: rl.cov(x[:, :2], aweights=rows + 0.5),
    "asserted": lambda x, rows: rl.quantile(x[0], rows.float() / 2),
    "max_unpool": lambda x, rows: F.max_unpool1d(x[None, :1, :2], rows[None, None], 2, output_size=(3,)),
    "nll_loss": lambda x, rows: F.nll_loss(x[:2, :3], rows),
    "one_hot": lambda x, rows: F.one_hot(rows, 3),
    "cov": lambda x, rows: rl.cov(x[:, :2], fweights=rows),
    "cross_entropy": lambda x, rows: F.cross_entropy(x[:2, :3], rows),
    "class_cross_entropy": lambda x, rows: F.cross_entropy(x[:2, :3].double(), rows, label_smoothing=0.1),
    "take": lambda x, rows: x[:, 0].take(rows),
    "index_fill": lambda x, rows: x.index_fill(0, rows, 1.0),
    "index_copy": lambda x, rows: x.index_copy(0, rows, x[:2]),
    "index_reduce": lambda x, rows: x.index_reduce(0, rows, x[:2], "amin"),
    "put": lambda x, rows: x.clone()[:, 0].contiguous().put_(rows, x[0, :2]),
    "assignment": lambda x, rows: _assigned(x.clone(), rows),
    "mask and rows": lambda x, rows: x[:, x[0] >= 0][rows],
}


def _assigned(x: Any, rows: Any) -> Any:
    x[rows] = 1.0
    return x


def code_of(function: Callable[..., object], *args: object) -> str:
    with pytest.raises(RushlightError) as problem:
        function(*args)
    return problem.value.code


@pytest.mark.generated("name")
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_code_refuses_what_eager_code_refuses(name: str, backend: str):
    function = READS[name]
    compiled = rl.compile(function, backend=backend)
    good = rl.tensor([2, 0])
    assert rl.allclose(compiled(X, good).float(), function(X, good).float())
    for rows in (
        ([0, 7], [-5, 0]) if name not in ("cov", "not_negative") else ([-5, 0],)
    ):  # weights have no largest value
        assert code_of(compiled, X, rl.tensor(rows)) == code_of(function, X, rl.tensor(rows))
    assert rl.allclose(compiled(X, good).float(), function(X, good).float())


@pytest.mark.generated("name")
@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("way", [{"fullgraph": True}, {"backend": "reference"}], ids=["compiled", "reference"])
def test_indices_of_results_that_nobody_uses_are_checked(name: str, way: dict[str, Any]):
    def drops(x: Any, rows: Any) -> Any:
        READS[name](x, rows)
        return x * 2

    compiled = rl.compile(drops, **way)
    good = rl.tensor([2, 0])
    for _ in range(2):
        assert compiled(X, good).equal(X * 2)
        with pytest.raises(RushlightError) as problem:
            compiled(X, rl.tensor([-5, 0]))
        assert problem.value.code == code_of(drops, X, rl.tensor([-5, 0]))


# By name: a function of a tensor, what it takes, and what it refuses.
REFUSING: Mapping[str, tuple[Callable[[Any], Any], rl.Tensor, rl.Tensor]] = {
    "cholesky": (rl.linalg.cholesky, rl.eye(2), -rl.eye(2)),
    "inverse": (rl.linalg.inv, rl.eye(2), rl.zeros(2, 2)),
    "pivots": (lambda x: rl.lu_unpack(rl.eye(3), x.int()), rl.tensor([1, 2, 3]), rl.tensor([1, 2, 7])),
    "poisson": (rl.poisson, rl.ones(3), -rl.ones(3)),
    "bernoulli": (rl.bernoulli, rl.ones(3), rl.full((3,), 1.5)),
    "bernoulli_": (lambda x: rl.ones(3).bernoulli_(x), rl.ones(3), rl.full((3,), float("nan"))),
    "multinomial": (lambda x: rl.multinomial(x, 1), rl.ones(3), rl.tensor([1.0, -1.0, 2.0])),
    "a parameter": (lambda x: rl.distributions.Normal(0.0, x), rl.ones(3), rl.zeros(3)),
    "a sample": (lambda x: rl.distributions.Gamma(1.0, 1.0).log_prob(x), rl.ones(3), -rl.ones(3)),
    "a covariance": (
        lambda x: rl.distributions.MultivariateNormal(rl.zeros(2), precision_matrix=x),
        rl.eye(2),
        rl.tensor([[2.0, 1.0], [0.0, 2.0]]),
    ),
}


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", REFUSING)
def test_values_that_eager_code_refuses_are_refused_where_nobody_uses_the_result(name: str, fullgraph: bool):
    function, taken, refused = REFUSING[name]

    def drops(x: Any, written: Any) -> Any:
        written.add_(1)
        function(x)
        return written * 2

    compiled, written = rl.compile(drops, fullgraph=fullgraph), rl.zeros(2)
    for _ in range(2):
        compiled(taken, written)
        before = written.clone()
        assert code_of(compiled, refused, written) == code_of(drops, refused, rl.zeros(2))
        assert not fullgraph or written.equal(before)


def test_indices_that_nobody_uses_are_checked_before_a_write_and_in_training():
    def step(x: Any, weight: Any, rows: Any) -> Any:
        weight[rows]
        x.add_(1)
        return (x @ weight).sum()

    compiled = rl.compile(step)
    x, weight = rl.ones(2, 3), rl.ones(3, 4).requires_grad_()
    compiled(x, weight, rl.tensor([0, 2])).backward()
    assert weight.grad.tolist() == [[4.0] * 4] * 3
    with pytest.raises(RushlightError, match="out of range"):
        compiled(x, weight, rl.tensor([0, 3]))
    assert x.tolist() == [[2.0] * 3] * 2


def test_a_graph_in_which_all_calls_are_needed_stays_as_it_is():
    graph = export(lambda x, rows: x[rows] * 2, (X, rl.tensor([2, 0]))).graph
    assert with_asserts_of_dead_calls(graph) is graph


def test_every_operator_with_a_range_is_asked():
    assert {op.name for op in RULES if not isinstance(op, Batched)} <= READS.keys()


@pytest.mark.parametrize("name", ["gather", "index_select", "index", "embedding", "index_add", "index_put", "scatter"])
def test_a_step_with_its_gradient_is_refused_and_leaves_no_gradient(name: str):
    w = rl.ones(3, 4, requires_grad=True)
    step = rl.compile(lambda rows: READS[name](w * 2, rows).sum().backward())
    step(rl.tensor([2, 0]))
    before = w.grad.clone()
    assert code_of(step, rl.tensor([2, 3])) == "I001"
    assert bool((w.grad == before).all())


def test_indices_of_a_backward_pass_are_checked():
    w = rl.ones(3, 4, requires_grad=True)

    def function(rows: Any) -> Any:
        y = w * 2
        y.register_hook(lambda g: g.index_add(0, rows, g[:2]))
        return y

    compiled = rl.compile(function)
    compiled(rl.tensor([0, 1])).sum().backward()
    y = compiled(rl.tensor([0, 5])).sum()
    assert code_of(y.backward) == "I001"


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_input_is_written_to_before_the_error(backend: str):
    def step(x: Any, rows: Any) -> Any:
        x.mul_(2)
        x[rows] = 5.0
        x.add_(1)
        return x[rows].sum()

    compiled, x, known = rl.compile(step, backend=backend, fullgraph=True), X.clone(), X.clone()
    version = x._version
    assert code_of(compiled, x, rl.tensor([0, 3])) == "I001"
    assert bool((x == X).all()) and x._version == version
    assert bool(compiled(x, rl.tensor([0, 1])) == step(known, rl.tensor([0, 1])))
    assert bool((x == known).all())


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_that_is_computed_of_what_is_written_is_checked_before_the_write(backend: str):
    def step(x: Any, y: Any) -> Any:
        y.add_(1)
        x.mul_(2)
        return x.flatten()[x.sum(1).long()] + y[0, 0]

    compiled = rl.compile(step, backend=backend, fullgraph=True)
    x, y = rl.full((3, 4), 0.1), rl.zeros(3, 4)
    assert compiled(x, y).tolist() == pytest.approx([1.2] * 3)
    x, y = rl.full((3, 4), 100.0), rl.zeros(3, 4)
    assert code_of(compiled, x, y) == "I001"
    assert bool((x == 100).all()) and not bool(y.any())


@pytest.mark.parametrize("optimizer", [rl.optim.SGD, rl.optim.AdamW], ids=["sgd", "adamw"])
@pytest.mark.parametrize("layers", [1, 6])
def test_a_training_step_happens_as_a_whole_or_not_at_all(optimizer: Any, layers: int):
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Embedding(5, 4), *[rl.nn.Linear(4, 4) for _ in range(layers)])
    kept = optimizer(model.parameters(), lr=0.1)

    @rl.compile
    def step(ids: Any, classes: Any) -> Any:
        kept.zero_grad()
        loss = F.cross_entropy(model(ids), classes)
        loss.backward()
        kept.step()
        return loss

    step(rl.tensor([0, 4]), rl.tensor([0, 3]))
    before = [p.detach().clone() for p in model.parameters()]
    state = str(kept.state_dict())
    assert code_of(step, rl.tensor([0, 5]), rl.tensor([0, 3])) == "I001"
    assert code_of(step, rl.tensor([0, 4]), rl.tensor([0, 4])) == "I001"
    assert all(bool((p == old).all()) for p, old in zip(model.parameters(), before, strict=True))
    assert str(kept.state_dict()) == state
    step(rl.tensor([0, 4]), rl.tensor([0, -100]))
    assert not all(bool((p == old).all()) for p, old in zip(model.parameters(), before, strict=True))


def segmented(x: Any, rows: Any) -> Any:
    x.add_(1)
    return x[x > 5].sum() + x[rows].sum()


def branching(x: Any, rows: Any) -> Any:
    return rl.cond(x.sum() > 0, lambda: x[rows], lambda: x[:2])


def scanned(x: Any, rows: Any) -> Any:
    return rl.scan(lambda carry, row: (carry + x[row], carry), rl.zeros(4), rows)[0]


def in_parts(x: Any, rows: Any) -> Any:
    y = x * 2
    if bool(y.sum() > 0):
        y = y + 1
    return y[rows]


@pytest.mark.parametrize("function", [segmented, branching, scanned, in_parts], ids=lambda function: function.__name__)
def test_graphs_in_pieces_refuse_too(function: Callable[..., Any]):
    compiled = rl.compile(function, fullgraph=function is not in_parts)
    x, other = X.clone(), X.clone()
    assert bool((compiled(x, rl.tensor([2, 0])) == function(other, rl.tensor([2, 0]))).all())
    before = x.clone()
    assert code_of(compiled, x, rl.tensor([2, 3])) == "I001"
    assert bool((x == before).all())


def test_exported_programs_refuse_too():
    program = export(lambda x, rows: x[rows] * 2, (X, rl.tensor([2, 0])))
    module = program.module()
    for run in (module, rl.compile(module)):
        assert bool((run(X, rl.tensor([1, 1])) == X[rl.tensor([1, 1])] * 2).all())
        assert code_of(run, X, rl.tensor([1, 3])) == "I001"


def test_a_backend_of_the_user_refuses_too():
    compiled = rl.compile(lambda x, rows: x[rows] * 2, backend=lambda graph, inputs: graph)
    assert bool((compiled(X, rl.tensor([1, 1])) == X[rl.tensor([1, 1])] * 2).all())
    assert code_of(compiled, X, rl.tensor([1, 3])) == "I001"


def test_frozen_indices_are_checked_at_each_call():
    class Rows(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", rl.tensor([2, 0]))

        def forward(self, x: Any) -> Any:
            return x[self.rows]

    module = Rows()
    compiled = rl.compile(module, freeze=True)
    assert bool((compiled(X) == X[module.rows]).all())
    module.rows.add_(1)
    assert code_of(compiled, X) == "I001"


def test_the_error_says_the_size_and_the_line():
    compiled = rl.compile(lambda x, rows: x[rows])
    compiled(X, rl.tensor([0, 1]))
    with pytest.raises(RushlightError, match="out of range for a dim of size 5") as problem:
        compiled(rl.ones(5, 4), rl.tensor([0, 5]))
    assert "test_index_asserts.py" in str(problem.value)


def asserts_of(function: Callable[..., Any], *args: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of asserts in the graphs that a call compiles."""
    graphs: list[Graph] = []
    compile_graph = build.compile_graph

    def spy(graph: Graph, *others: Any) -> Any:
        graphs.append(graph)
        return compile_graph(graph, *others)

    with monkeypatch.context() as patch:
        patch.setattr(build, "compile_graph", spy, raising=False)
        rl.compile(function)(*args)
    return sum([len(graph.asserts) for graph in graphs])


KNOWN: Mapping[str, Callable[[Any, Any], Any]] = {
    "argmax": lambda x, rows: x.gather(1, x.argmax(1, keepdim=True)),
    "max": lambda x, rows: x.max(0)[0] + x[x.max(0)[1].clamp(0, 0)].sum(),
    "arange": lambda x, rows: x[rl.arange(x.shape[0])],
    "part of arange": lambda x, rows: x[rl.arange(x.shape[0])[1:][:, None]],
    "remainder": lambda x, rows: x[rows % x.shape[0]] if x.shape[0] else x,
    "table of bytes": lambda x, rows: x.expand(90, 3, 4).reshape(-1)[rows.to(rl.uint8).int()],
    "mask": lambda x, rows: x[x > 3] * 2,
    "mask of three dims": lambda x, rows: x.reshape(3, 2, 2)[x.reshape(3, 2, 2) > 3],
    "nonzero": lambda x, rows: x[:, 0][x[:, 0].nonzero().squeeze(1)],
    "flat nonzero": lambda x, rows: x[:, 0][(x[:, 0] > 2).nonzero().reshape(-1)],
    "chosen of sort": lambda x, rows: x[:, 0][x[:, 0].argsort()[(x[:, 0] > 2).nonzero().reshape(-1)]],
    "sort": lambda x, rows: x.gather(1, x.sort(1)[1]),
    "topk": lambda x, rows: x[x.topk(2, dim=0)[1][:, 0]],
    "bits": lambda x, rows: x[:, rows & 3] + (0 if x.shape[1] == 4 else 1),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_to_be_in_range_is_not_checked(name: str, monkeypatch: pytest.MonkeyPatch):
    assert not asserts_of(KNOWN[name], X, rl.tensor([2, 0]), monkeypatch=monkeypatch)


UNKNOWN: Mapping[str, Callable[[Any, Any], Any]] = {
    "argmax of more": lambda x, rows: x[:, :3][:, x.T.argmax(0) - 1],
    "chosen of rows": lambda x, rows: x[:, 0][rows[(rows > 0).nonzero().reshape(-1)]],
    "other arange": lambda x, rows: x[rl.arange(x.shape[1]) // 2],
    "other remainder": lambda x, rows: x[rows % x.shape[1]],
    "mask of more": lambda x, rows: x[:2][(x[:, 0] >= 0).nonzero().squeeze(1) - 1],
    "signed": lambda x, rows: x.expand(90, 3, 4).reshape(-1)[:127][rows.to(rl.int8).int()],
    "twice": lambda x, rows: x[rows] + x[rows] * x.index_select(0, rows),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_may_be_out_of_range_is_checked_once(name: str, monkeypatch: pytest.MonkeyPatch):
    assert asserts_of(UNKNOWN[name], X, rl.tensor([2, 0]), monkeypatch=monkeypatch) == 1
