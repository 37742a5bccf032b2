"""Sparse tensors: how they are made, converted and multiplied, with gradients. Numbers are PyTorch's."""

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.support.errors import RushlightError

PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]  # the first and the last one are equal
DENSE = [[0.0, 0.0, 9.0], [4.0, 0.0, 5.0]]
X = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
PRODUCT = [[36.0, 45.0], [20.0, 29.0]]


def coo(values=(3.0, 4.0, 5.0, 6.0), **named):
    kept = values if isinstance(values, rl.Tensor) else rl.tensor(values)
    return rl.sparse_coo_tensor(rl.tensor(PLACES), kept, (2, 3), **named)


def csr(values=(1.0, 2.0, 3.0)):
    kept = values if isinstance(values, rl.Tensor) else rl.tensor(values)
    return rl.sparse_csr_tensor(rl.tensor([0, 2, 3]), rl.tensor([0, 2, 1]), kept, (2, 3))


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


def dense(x):
    return x.to_dense().tolist() if x.layout is not rl.strided else x.tolist()


def near(found, expected):
    flat = rl.tensor(found).flatten().tolist()
    assert flat == pytest.approx(rl.tensor(expected).flatten().tolist(), abs=1e-4)


CASES = [
    (lambda: coo(), DENSE),
    (lambda: rl.sparse_coo_tensor(PLACES, [3.0, 4, 5, 6]), DENSE),
    (lambda: rl.sparse_coo_tensor(size=(1, 2)), [[0.0, 0.0]]),
    (lambda: rl.sparse_coo_tensor([[0, 1]], rl.ones(2, 2), (3, 2)), [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]),
    (lambda: rl.sparse.FloatTensor(rl.tensor(PLACES), rl.tensor([3.0, 4, 5, 6]), rl.Size([2, 3])), DENSE),
    (lambda: csr(), [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]),
    (lambda: rl.sparse_csc_tensor([0, 1, 2, 3], [0, 1, 0], [1.0, 2, 3], (2, 3)), [[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]),
    (lambda: rl.tensor(DENSE).to_sparse(), DENSE),
    (lambda: rl.tensor(DENSE).to_sparse(1), DENSE),
    (lambda: rl.tensor(DENSE).to_sparse_csc().to_sparse_csr().to_sparse_coo(), DENSE),
    (lambda: rl.tensor(DENSE).sparse_mask(csr().to_sparse_coo()), [[0.0, 0.0, 9.0], [0.0, 0.0, 0.0]]),
    (lambda: rl.sparse.mm(coo(), rl.tensor(X)), PRODUCT),
    (lambda: coo() @ rl.tensor(X)[:, 0], [36.0, 20.0]),
    (lambda: rl.mm(csr(), rl.tensor(X)), [[8.0, 11.0], [6.0, 9.0]]),
    (lambda: csr().t() @ rl.ones(2, 2), [[1.0, 1.0], [3.0, 3.0], [2.0, 2.0]]),
    (lambda: rl.ones(2, 2) @ coo(), [[4.0, 0.0, 14.0], [4.0, 0.0, 14.0]]),
    (lambda: rl.sparse.mm(coo(), coo().t()), [[81.0, 45.0], [45.0, 41.0]]),
    (lambda: rl.spmm(csr(), coo().t()), [[18.0, 14.0], [0.0, 0.0]]),
    (lambda: rl.sparse.addmm(rl.ones(2, 2), coo(), rl.tensor(X), beta=2, alpha=0.5), [[20.0, 24.5], [12.0, 16.5]]),
    (lambda: rl.sparse.mm(csr(), rl.tensor(X), "amax"), [[8.0, 10.0], [6.0, 9.0]]),
    (lambda: nn.functional.linear(csr(), rl.ones(1, 3), rl.ones(1)), [[4.0], [4.0]]),
    (
        lambda: rl.sparse.sampled_addmm(csr(), rl.ones(2, 4), rl.ones(4, 3), alpha=2),
        [[9.0, 0.0, 10.0], [0.0, 11.0, 0.0]],
    ),
    (lambda: 2 * coo() - coo() / 2, [[0.0, 0.0, 13.5], [6.0, 0.0, 7.5]]),
    (lambda: coo() * rl.arange(6.0).reshape(2, 3), [[0.0, 0.0, 18.0], [12.0, 0.0, 25.0]]),
    (lambda: coo() * csr(), [[0.0, 0.0, 18.0], [0.0, 0.0, 0.0]]),
    (lambda: rl.ones(2, 3) + coo(), [[1.0, 1.0, 10.0], [5.0, 1.0, 6.0]]),
    (lambda: coo().sqrt(), [[0.0, 0.0, 3.0], [2.0, 0.0, 2.2361]]),
    (lambda: coo().index_select(0, rl.tensor([1, 1])), [DENSE[1], DENSE[1]]),
    (lambda: coo()[0], DENSE[0]),
    (lambda: rl.cat([coo(), coo()], 0), DENSE + DENSE),
    (lambda: coo().unsqueeze(0), [DENSE]),
    (lambda: coo().sum(), 18.0),
    (lambda: rl.sparse.sum(coo(), 1), [9.0, 9.0]),
    (lambda: rl.sparse.sum(coo(), [0, 1]), 18.0),
    (lambda: rl.sparse.softmax(coo(), 1), [[0.0, 0.0, 1.0], [0.2689, 0.0, 0.7311]]),
    (lambda: rl.sparse.softmax(coo(), 0), [[0.0, 0.0, 0.982], [1.0, 0.0, 0.018]]),
    (lambda: rl.sparse.log_softmax(coo(), 1), [[0.0, 0.0, 0.0], [-1.3133, 0.0, -0.3133]]),
    (
        lambda: rl.sparse.spdiags(rl.arange(9.0).reshape(3, 3), rl.tensor([0, -1, 2]), (3, 3)),
        [[0.0, 0.0, 8.0], [3.0, 1.0, 0.0], [0.0, 4.0, 2.0]],
    ),
    (lambda: rl.compile(lambda x: (coo_of_the_test @ x).relu() + 1)(rl.tensor(X)), [[37.0, 46.0], [21.0, 30.0]]),
    (lambda: rl.vmap(lambda x: coo_of_the_test @ x)(rl.tensor([X])), [PRODUCT]),
]
coo_of_the_test = coo()


@pytest.mark.parametrize(("function", "expected"), CASES)
def test_values_are_those_of_pytorch(function, expected):
    near(dense(function()), expected)


def test_parts_are_those_that_were_given():
    x = coo()
    assert (
        x._nnz() == 4
        and x._indices().shape == (2, 4)
        and not x.is_coalesced()
        and x.sparse_dim() == 2
        and x.dense_dim() == 0
    )
    assert x.is_sparse and not x.is_sparse_csr and x.layout is rl.sparse_coo and isinstance(x, rl.Tensor)
    assert x.shape == (2, 3) and x.size(0) == 2 and x.numel() == 6 and x.double().dtype is rl.float64
    merged = x.coalesce()
    assert merged.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and merged.values().tolist() == [9.0, 4.0, 5.0]
    assert merged.coalesce() is merged and rl.sparse.mm(x, x.t()).is_coalesced()
    rows = x.to_sparse_csr()
    assert rows.crow_indices().tolist() == [0, 1, 3] and rows.col_indices().tolist() == [2, 0, 2]
    columns = rows.t()
    assert columns.layout is rl.sparse_csc and columns.ccol_indices().tolist() == [0, 1, 3]
    assert columns.row_indices().tolist() == [2, 0, 2] and columns.shape == (3, 2)
    assert rl.tensor([[0, 1.0], [2, 0]]).to_sparse_csc().values().tolist() == [2.0, 1.0]
    text = "tensor(indices=tensor([[0],\n                       [1]]),\n       values=tensor([2.]),\n       "
    small = rl.sparse_coo_tensor([[0], [1]], [2.0], (1, 2))
    assert repr(small) == text + "size=(1, 2), nnz=1, layout=rushlight.sparse_coo)"
    assert pickle.loads(pickle.dumps(rows)).to_dense().tolist() == copy.deepcopy(x).to_dense().tolist() == DENSE


def test_gradients_are_those_of_values_and_factors():
    values, x = leaf(3.0, 4.0, 5.0, 6.0), rl.tensor(X, requires_grad=True)
    (rl.sparse.mm(coo(values), x) ** 2).sum().backward()
    assert values.grad.tolist() == [738.0, 58.0, 450.0, 738.0]
    assert x.grad.tolist() == [[160.0, 232.0], [0.0, 0.0], [848.0, 1100.0]]
    own = coo(requires_grad=True)
    (own @ rl.tensor(X)).pow(2).sum().backward()
    assert own.is_leaf and own.grad.to_dense().tolist() == [[0.0, 0.0, 738.0], [58.0, 0.0, 450.0]]
    values = leaf(1.0, 2.0, 3.0)
    (csr(values) @ rl.tensor(X)).pow(2).sum().backward()
    assert values.grad.tolist() == [22.0, 174.0, 78.0]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.coalesce().values().pow(2).sum(), [18.0, 8.0, 10.0, 18.0]),
        (lambda x: (x.to_dense() * rl.arange(6.0).reshape(2, 3)).sum(), [2.0, 3.0, 5.0, 2.0]),
        (lambda x: (rl.sparse.softmax(x, 1).to_dense() ** 2).sum(), [0.0, -0.1817, 0.1817, 0.0]),
        (lambda x: rl.sparse.sum(x, 1).to_dense().pow(2).sum(), [18.0, 18.0, 18.0, 18.0]),
    ],
)
def test_gradients_reach_values_through_conversions(function, expected):
    values = leaf(3.0, 4.0, 5.0, 6.0)
    function(coo(values)).backward()
    near(values.grad.tolist(), expected)


def test_a_graph_network_trains():
    rl.manual_seed(0)
    edges = rl.tensor([[0, 1, 2, 3, 0, 2], [1, 0, 3, 2, 2, 0]])
    adjacency = rl.sparse_coo_tensor(edges, rl.ones(6), (4, 4)).to_sparse_csr()
    degree = rl.sparse.sum(adjacency.to_sparse_coo(), 1).to_dense().unsqueeze(1)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", adjacency)
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.second((self.adjacency @ self.first(x) / degree).relu())

    model, target = Network(), rl.tensor([0, 0, 1, 1])
    optimizer = rl.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rl.eye(4)), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda: rl.sparse_coo_tensor(PLACES, [3.0, 4, 5, 6], (2, 2)), "I001"),
        (lambda: rl.sparse_coo_tensor([[-1], [0]], [1.0], (2, 2)), "I001"),
        (lambda: rl.sparse_coo_tensor(PLACES, [1.0]), "S014"),
        (lambda: rl.sparse_csr_tensor([0, 2, 4], [0, 2, 1], [1.0, 2, 3], (2, 3)), "A002"),
        (lambda: coo().indices(), "A004"),
        (lambda: coo().crow_indices(), "A004"),
        (lambda: coo() @ rl.ones(2, 2), "S003"),
        (lambda: coo() @ rl.ones(3, 2).double(), "D002"),
        (lambda: coo() + 1, "A006"),
        (lambda: coo().cos(), "A006"),
        (lambda: coo().exp_(), "A006"),
        (lambda: rl.ones(2, 3).mul_(coo()), "A006"),
        (lambda: coo().tolist(), "A006"),
        (lambda: coo().numpy(), "A006"),
        (lambda: coo().view(6), "A006"),
        (lambda: nn.Parameter(coo()), "A006"),
        (lambda: coo().to_sparse(layout=rl.sparse_bsr), "A006"),
        (lambda: rl.sparse.spsolve(csr(), rl.ones(2)), "A006"),
        (lambda: rl.compile(lambda a, x: a @ x, fullgraph=True)(coo(), rl.tensor(X)), "C036"),
    ],
)
def test_what_cannot_be_is_refused(function, code):
    with pytest.raises(RushlightError) as error:
        function()
    assert error.value.code == code
