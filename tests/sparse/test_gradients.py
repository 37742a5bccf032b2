"""Sparse gradients: of tables, accumulated, taken by optimizers, and compiled; against numbers of PyTorch."""

import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.sparse import gradient_cases as cases

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.support.errors import RushlightError

TORCH = json.loads(Path(__file__).with_name("torch_gradients.json").read_text(encoding="utf-8"))


@contextmanager
def refused(code, text=None):
    with pytest.raises(RushlightError, match=text) as error:
        yield
    assert error.value.code == code


def compare(found, expected):
    """Lists of the same structure, with numbers as near as two orders of additions leave them."""
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected)
        for key, value in expected.items():
            compare(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            compare(one, two)
    else:
        assert isinstance(found, bool) == isinstance(expected, bool)
        assert found == pytest.approx(expected, rel=3e-6, abs=1e-6)


@pytest.mark.parametrize("name", cases.GRADIENTS)
def test_gradient_agrees_with_frozen_torch_values(name):
    compare(cases.GRADIENTS[name](rl), TORCH["gradients"][name])


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_optimizer_agrees_with_frozen_torch_values(name):
    compare(cases.run_optimizer(rl, name), TORCH["optimizers"][name])


@pytest.mark.parametrize("name", ["sgd", "adagrad", "sgd_momentum"])
def test_a_step_is_that_of_the_dense_gradient(name):
    tables = []
    for sparse in (True, False):
        w = cases.table(rl)
        optimizer = cases.OPTIMIZERS[name](rl.optim, [w])
        for _ in range(3):
            optimizer.zero_grad()
            cases.weighted(rl, F.embedding(rl.tensor([3, 0]), w, sparse=sparse)).backward()
            optimizer.step()
        tables.append(w.tolist())
    assert tables[0] == tables[1]


@pytest.mark.parametrize("name", cases.REFUSING)
def test_other_optimizers_refuse_sparse_gradients(name):
    w = cases.embedding(rl, sparse=True)
    before = w.tolist()
    with refused("A006", f"{name} does not support sparse gradients"):
        getattr(rl.optim, name)([w]).step()
    assert w.tolist() == before


@pytest.mark.parametrize("make", [rl.optim.SGD, rl.optim.Adagrad])
def test_weight_decay_of_sparse_gradients_is_refused(make):
    w = cases.embedding(rl, sparse=True)
    with refused("A006", "weight_decay option is not compatible"):
        make([w], weight_decay=0.1).step()


def test_sparse_adam_refuses_dense_gradients_and_sparse_parameters():
    with refused("A006", "SparseAdam does not support dense gradients"):
        rl.optim.SparseAdam([cases.embedding(rl)]).step()
    with refused("A002", "SparseAdam requires dense parameter tensors"):
        rl.optim.SparseAdam([rl.ones(2).to_sparse().requires_grad_()])
    for wrong in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}):
        with refused("A002"):
            rl.optim.SparseAdam([cases.table(rl)], **wrong)


def test_sparse_adam_goes_on_from_a_state_dict():
    def steps(optimizer, w, count):
        for _ in range(count):
            optimizer.zero_grad()
            F.embedding(rl.tensor(cases.INDICES), w, sparse=True).square().sum().backward()
            optimizer.step()

    whole, first = cases.table(rl), cases.table(rl)
    steps(rl.optim.SparseAdam([whole], lr=0.1), whole, 5)
    begun = rl.optim.SparseAdam([first], lr=0.1)
    steps(begun, first, 2)
    second = rl.nn.Parameter(first.detach().clone())
    resumed = rl.optim.SparseAdam([second])
    resumed.load_state_dict(begun.state_dict())
    steps(resumed, second, 3)
    assert second.tolist() == whole.tolist()


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_clip_grad_norm_counts_equal_places_once(norm_type):
    w, other = cases.embedding(rl, sparse=True), rl.nn.Parameter(rl.ones(3))
    other.grad = rl.tensor([1.0, -2.0, 3.0])
    dense = np.concatenate([w.grad.to_dense().numpy().ravel(), other.grad.numpy()])
    total = rl.nn.utils.clip_grad_norm_([w, other], 1.5, norm_type)
    expected = np.linalg.norm(dense, norm_type)
    assert total.item() == pytest.approx(expected, rel=1e-6)
    found = np.concatenate([w.grad.to_dense().numpy().ravel(), other.grad.numpy()])
    np.testing.assert_allclose(found, dense * 1.5 / (expected + 1e-6), rtol=1e-5)
    assert w.grad.is_sparse


def test_gradients_by_frequency_in_bags_are_divided_by_each_rows_own_count():
    w, i, o = cases.table(rl), rl.tensor([1, 2, 2, 0, 3]), rl.tensor([0, 2, 2])
    cases.weighted(rl, F.embedding_bag(i, w, o, mode="sum", scale_grad_by_freq=True)).backward()
    assert w.grad.tolist() == [[7.0, 8.0, 9.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda i, w: F.embedding(i, w, sparse=True, scale_grad_by_freq=True), "goes with dense gradients"),
        (lambda i, w: F.embedding_bag(i, w, mode="max", sparse=True), "max goes with dense gradients"),
        (lambda i, w: F.embedding_bag(i, w, mode="max", scale_grad_by_freq=True), "max goes with dense gradients"),
    ],
)
def test_what_has_no_sparse_gradient_is_refused(call, text):
    with refused("A006", text):
        call(rl.tensor(cases.INDICES), cases.table(rl))


def test_writes_that_sparse_tensors_do_not_have_are_refused():
    grad = cases.embedding(rl, sparse=True).grad
    for write in (lambda: grad.fill_(1.0), lambda: grad.add_(rl.ones(4, 3)), lambda: grad.exp_(), lambda: grad.t_()):
        with refused("A006"):
            write()
    with refused("A006"):
        rl.ones(4, 3).mul_(grad)
    with refused("S014"):
        rl.ones(3, 4).add_(grad)
    with refused("D003"):
        rl.ones(4, 3, dtype=rl.int64).add_(grad)
    leaf = grad.detach().requires_grad_()
    with refused("G002"):
        leaf.mul_(2)


def test_layers_take_the_options_and_print_them():
    layer = rl.nn.Embedding(3, 2, padding_idx=0, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)
    text = "Embedding(3, 2, padding_idx=0, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)"
    assert repr(layer) == text and repr(rl.nn.Embedding(3, 2, sparse=True)) == "Embedding(3, 2, sparse=True)"
    layer(rl.tensor([1, 2])).sum().backward()
    assert float(layer.weight.norm(1, dim=1).max()) <= 1.0 and not layer.weight.grad.is_sparse
    bag = rl.nn.EmbeddingBag(3, 2, max_norm=1.0, sparse=True, mode="sum")
    assert repr(bag) == "EmbeddingBag(3, 2, max_norm=1.0, mode='sum')"
    bag(rl.tensor([[1, 2]])).sum().backward()
    assert bag.weight.grad.is_sparse


# Compiled.


def lookups(w, i, padding_idx=None):
    return F.embedding(i, w, padding_idx, sparse=True).square(), F.embedding(i, w, sparse=True).exp(), w * 3


@pytest.mark.parametrize("chosen", [(0,), (1,), (0, 1), (0, 2), (0, 1, 2), (2,)])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_a_compiled_lookup_has_the_gradient_of_eager(chosen, padding_idx):
    found = []
    for compiled in (False, True):
        w = cases.table(rl)
        function = rl.compile(lookups) if compiled else lookups
        for size in (2, 3, 2):  # the gradients of all calls are accumulated
            results = function(w, rl.arange(size) + 1, padding_idx)
            sum([results[place].sum() for place in chosen]).backward()
        found.append(cases.parts(w.grad))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_compiled_bags_have_the_gradient_of_eager(mode):
    found = []
    for compiled in (False, True):
        w = cases.table(rl)

        def bags(i, o, w=w):
            return F.embedding_bag(i, w, o, mode=mode, sparse=True, padding_idx=1).square()

        function = rl.compile(bags) if compiled else bags
        for i in ([1, 2, 2, 0, 3], [3, 0, 1, 1, 2, 3]):
            function(rl.tensor(i), rl.tensor([0, 2, 2])).sum().backward()
        found.append(cases.parts(w.grad))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["sgd", "adagrad", "sgd_momentum", "sparse_adam"])
def test_a_compiled_training_step_equals_eager(name):
    found = []
    for compiled in (False, True):
        w = cases.table(rl)
        optimizer = cases.OPTIMIZERS[name](rl.optim, [w])

        def step(i, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.embedding(i, w, sparse=True).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        function = rl.compile(step) if compiled else step
        losses = [function(rl.tensor(i)).item() for i in ([0, 2, 2], [3, 1, 1], [2, 0, 1])]
        found.append([losses, w.tolist(), cases.parts(w.grad)])
    assert found[0] == found[1]


def test_a_compiled_function_gives_sparse_tensors():
    w, i = cases.table(rl), rl.tensor(cases.INDICES)

    @rl.compile
    def gradient(i):
        (found,) = rl.autograd.grad(F.embedding(i, w, sparse=True).square().sum(), [w])
        return found, {"twice": found * 2, "dense": found.to_dense()}

    found, others = gradient(i)
    (expected,) = rl.autograd.grad(F.embedding(i, w, sparse=True).square().sum(), [w])
    assert cases.parts(found) == cases.parts(expected)
    assert cases.parts(others["twice"]) == cases.parts(expected * 2)
    assert others["dense"].tolist() == expected.to_dense().tolist()


@pytest.mark.parametrize("before", [False, True])
def test_a_compiled_function_refuses_a_sparse_gradient_from_before(before):
    w, i = cases.table(rl), rl.tensor(cases.INDICES)
    optimizer = rl.optim.SGD([w], lr=0.1)
    step = rl.compile(optimizer.step, fullgraph=True)
    if before:  # compiled for dense gradients
        F.embedding(i, w).sum().backward()
        step()
        optimizer.zero_grad()
    F.embedding(i, w, sparse=True).sum().backward()
    kept = w.tolist()
    for function in (
        step,
        rl.compile(lambda: w.grad * 2, fullgraph=True),
        rl.compile(lambda: w.sum().backward(), fullgraph=True),
    ):
        with refused("C036"):
            function()
    assert w.tolist() == kept and cases.parts(w.grad)[0] == [[0, 2, 2, 3]]


def test_a_program_with_sparse_results_is_not_exported():
    grad = cases.embedding(rl, sparse=True).grad
    with refused("C034", "a sparse tensor"):
        rl.export.export(lambda x: grad * x, (rl.ones(4, 3),))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_has_a_sparse_gradient(dim, compiled):
    places = rl.tensor([[0, 1], [1, -1], [0, 0]])
    x = rl.arange(12.0).reshape(3, 4).requires_grad_()
    weights = rl.arange(1.0, 7).reshape(3, 2)
    (x.gather(dim, places) * weights).sum().backward()
    dense, x.grad = x.grad, None
    read = lambda x: (rl.gather(x, dim, places, sparse_grad=True) * weights).sum()  # noqa: E731 - compiled below
    (rl.compile(read) if compiled else read)(x).backward()
    assert x.grad.is_sparse and x.grad._nnz() == 6 and x.grad.to_dense().tolist() == dense.tolist()


def test_a_gradient_keeps_its_places_where_the_input_is_written_afterwards():
    table, places = rl.nn.Embedding(6, 2, sparse=True), rl.tensor([1, 4])
    table(places).sum().backward()
    places[0] = 5
    assert table.weight.grad is not None
    assert table.weight.grad.coalesce().indices().tolist() == [[1, 4]]
    table(places).sum().backward()
    assert table.weight.grad.to_dense()[:, 0].tolist() == [0, 1, 0, 0, 2, 1]
