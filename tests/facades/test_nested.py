"""Nested tensors, against plain tensors member by member. Shapes, names and refusals are PyTorch's."""

import pickle

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.support.errors import RushlightError

BATCHES = [(), (0,), (1,), (2, 5), (3, 0, 1), (4, 4)]


def members(lengths, width=4, seed=0):
    rl.manual_seed(seed)
    return [rl.randn(length, width) for length in lengths]


def jagged(parts):
    if not parts:
        return rl.nested.nested_tensor_from_jagged(rl.zeros(0, 4), rl.zeros(1, dtype=rl.int64))
    return rl.nested.nested_tensor(parts, layout=rl.jagged)


def failure(function, *args, **named):
    with pytest.raises(RushlightError) as error:
        function(*args, **named)
    return error.value.code


LAYER, NORM = rl.nn.Linear(4, 6), rl.nn.LayerNorm(4)
SQUARE = rl.arange(16.0).reshape(4, 4) / 8
EACH = {
    "add a number": lambda x: x + 1.5,
    "number minus": lambda x: 2 - x,
    "number over": lambda x: 1 / (x * x + 1),
    "itself": lambda x: x * x + x,
    "row": lambda x: x * SQUARE[1],
    "compare": lambda x: x > 0,
    "sin": lambda x: x.sin(),
    "gelu": lambda x: F.gelu(x),
    "relu": lambda x: x.relu(),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "where": lambda x: rl.where(x > 0, x, x * 0.1),
    "pow": lambda x: x**2,
    "double": lambda x: x.double(),
    "to": lambda x: x.to(rl.float16),
    "zeros_like": rl.zeros_like,
    "linear": LAYER,
    "layer_norm": NORM,
    "matmul": lambda x: x @ SQUARE,
    "softmax of rows": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "sum of rows": lambda x: x.sum(-1),
    "mean of rows": lambda x: x.mean(-1, keepdim=True),
    "largest": lambda x: x.amax(-1),
    "unflatten": lambda x: x.unflatten(-1, (2, 2)),
    "flatten": lambda x: x.unflatten(-1, (2, 2)).flatten(-2),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(-1),
    "cat": lambda x: rl.cat([x, x * 2], -1),
    "chunk": lambda x: x.chunk(2, -1)[1],
    "split": lambda x: x.split([1, 3], -1)[0],
    "eval dropout": lambda x: F.dropout(x, 0.5, training=False),
}
# Over the members' own dim: 0 of a member, 1 of the batch.
OVER = {
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: F.log_softmax(x, dim),
    "sum": lambda x, dim: x.sum(dim),
    "sum kept": lambda x, dim: x.sum(dim, keepdim=True),
    "sum of more": lambda x, dim: x.sum((dim, -1)),
    "mean": lambda x, dim: x.mean(dim),
    "mean of more": lambda x, dim: x.mean((dim, -1), keepdim=True),
}


def close(batch, parts):
    own = batch.unbind() if batch.is_nested else tuple(batch)
    assert len(own) == len(parts)
    for one, other in zip(own, parts, strict=True):
        other = other.reshape(one.shape)
        assert one.dtype is other.dtype and rl.allclose(one.double(), other.double(), 1e-5, 1e-6, equal_nan=True)


@pytest.mark.parametrize("lengths", BATCHES, ids=str)
@pytest.mark.parametrize("name", EACH)
def test_functions_act_on_each_member(name, lengths):
    parts = members(lengths)
    close(EACH[name](jagged(parts)), [EACH[name](part) for part in parts])


@pytest.mark.parametrize("lengths", BATCHES, ids=str)
@pytest.mark.parametrize("name", OVER)
def test_functions_reduce_each_member(name, lengths):
    parts = members(lengths)
    close(OVER[name](jagged(parts), 1), [OVER[name](part, 0) for part in parts])


def test_the_largest_of_each_member():
    parts = members((2, 5, 1))
    close(jagged(parts).amax(1), [part.amax(0) for part in parts])
    close(jagged(parts).amin((1, 2)), [part.amin() for part in parts])
    assert jagged(parts).sum().item() == pytest.approx(sum(part.sum().item() for part in parts), rel=1e-5)
    close(jagged(parts).sum((0, 1)).reshape(1, -1), [rl.cat(parts).sum(0)])
    assert jagged([part.long() for part in parts]).sum(1).tolist() == [part.long().sum(0).tolist() for part in parts]


@pytest.mark.parametrize("name", ["linear", "layer_norm", "row", "gelu", "matmul", "unflatten", "softmax of rows"])
def test_gradients_are_those_of_members(name):
    parts = [part.requires_grad_() for part in members((3, 0, 1))]
    LAYER.zero_grad()
    (EACH[name](rl.nested.as_nested_tensor(parts, layout=rl.jagged)) ** 2).sum().backward()
    got, weight = [part.grad for part in parts], LAYER.weight.grad
    LAYER.zero_grad()
    again = [part.detach().requires_grad_() for part in parts]
    sum((EACH[name](part) ** 2).sum() for part in again).backward()
    assert all(rl.allclose(one, other.grad, 1e-4, 1e-5) for one, other in zip(got, again, strict=True))
    assert weight is None or rl.allclose(weight, LAYER.weight.grad, 1e-4, 1e-5)


@pytest.mark.parametrize("name", OVER)
def test_gradients_of_reductions(name):
    parts = members((3, 2, 1))
    batch = rl.nested.nested_tensor(parts, layout=rl.jagged, requires_grad=True)
    OVER[name](batch, 1).sin().sum().backward()
    again = [part.detach().requires_grad_() for part in parts]
    sum(OVER[name](part, 0).sin().sum() for part in again).backward()
    assert batch.is_leaf and batch.grad.is_nested
    close(batch.grad, [part.grad for part in again])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(1,), (3, 5), (2, 0, 4)], ids=str)
def test_attention_within_members(causal, lengths):
    parts = [[part.requires_grad_() for part in members(lengths, 6, seed)] for seed in range(3)]
    q, k, v = (rl.nested.as_nested_tensor(own, layout=rl.jagged).unflatten(-1, (2, 3)).transpose(1, 2) for own in parts)
    result = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    assert result.shape[0] == len(lengths) and result.shape[1] == 2 and result.shape[3] == 3
    merged = result.transpose(1, 2).flatten(-2)
    wanted = []
    for own in zip(*parts, strict=True):
        heads = [part.unflatten(-1, (2, 3)).transpose(0, 1) for part in own]
        wanted.append(F.scaled_dot_product_attention(*heads, is_causal=causal).transpose(0, 1).flatten(-2))
    close(merged, wanted)
    merged.sin().sum().backward()
    got = [part.grad for own in parts for part in own]
    again = [part.detach().requires_grad_() for own in parts for part in own]
    count = len(lengths)
    for at in range(count):
        heads = [again[at + count * which].unflatten(-1, (2, 3)).transpose(0, 1) for which in range(3)]
        F.scaled_dot_product_attention(*heads, is_causal=causal).sin().sum().backward()
    assert all(rl.allclose(one, other.grad, 1e-4, 1e-5) for one, other in zip(got, again, strict=True))


@pytest.mark.parametrize("name", [*EACH])
def test_compiled_equals_eager(name):
    compiled = rl.compile(lambda x: EACH[name](x), fullgraph=True)
    for lengths in ((2, 5), (3, 0, 1)):
        batch = jagged(members(lengths))
        eager, result = EACH[name](batch), compiled(batch)
        assert result.is_nested and result.values().equal(eager.values())
        assert result.offsets().equal(eager.offsets()) and str(result.shape)[:15] == str(eager.shape)[:15]


@pytest.mark.parametrize("name", ["sum", "mean", "softmax"])
def test_compiled_reductions_equal_eager(name):
    compiled = rl.compile(lambda x: OVER[name](x, 1))
    for lengths in ((2, 5), (3, 1, 1)):
        batch = jagged(members(lengths))
        eager, result = OVER[name](batch, 1), compiled(batch)
        values = [one.values() if one.is_nested else one for one in (eager, result)]
        assert values[0].equal(values[1])


def test_a_compiled_step_has_the_gradients_of_the_eager_one():
    batch = jagged(members((2, 5, 0)))

    def gradient(function):
        LAYER.zero_grad()
        function(batch).sum().backward()
        return LAYER.weight.grad.clone()

    def function(x):
        return F.gelu(LAYER(x)).sum(1)

    assert gradient(rl.compile(function)).equal(gradient(function))


def test_parts_and_shapes():
    parts = members((2, 5, 0))
    batch = jagged(parts)
    assert batch.is_nested and batch.layout is rl.jagged and isinstance(batch, rl.Tensor) and not parts[0].is_nested
    assert batch.offsets().tolist() == [0, 2, 7, 7] and batch.lengths() is None and batch.values().shape == (7, 4)
    assert (batch.dim(), batch.size(0), batch.size(-1), len(batch), batch.numel()) == (3, 3, 4, 3, 28)
    assert batch.shape[1] == (batch * 2).shape[1] != jagged(members((2, 5, 0))).shape[1]
    assert batch.is_contiguous() and not batch.transpose(1, 2).is_contiguous()
    assert batch[1].equal(parts[1]) and batch[-1].shape == (0, 4) and [one.shape[0] for one in batch] == [2, 5, 0]
    assert repr(batch).startswith("NestedTensor(size=(3, j") and "offsets=tensor([0, 2, 7, 7])" in repr(batch)
    padded = batch.to_padded_tensor(-1.0)
    assert padded.shape == (3, 5, 4) and padded[0, 2:].eq(-1).all() and padded[1].equal(parts[1])
    assert rl.nested.to_padded_tensor(batch, 0.0, (3, 6, 5)).shape == (3, 6, 5)
    heads = batch.view(3, -1, 2, 2).transpose(1, 2)
    assert heads.shape[1:] == (2, batch.shape[1], 2) and heads.unbind()[1].shape == (2, 5, 2)
    assert heads.contiguous().unbind()[1].equal(parts[1].view(5, 2, 2).transpose(0, 1))
    assert batch.reshape(3, batch.shape[1], 4, 1).shape[-2:] == (4, 1)
    again = pickle.loads(pickle.dumps(batch))
    assert again.is_nested and again.values().equal(batch.values()) and again.offsets().equal(batch.offsets())
    assert batch.detach().data.values().equal(batch.values())


def test_dense_tensors_beside_a_batch():
    parts = members((2, 3))
    batch, each = jagged(parts), rl.arange(8.0).reshape(2, 1, 4)
    close(batch + each, [part + each[at] for at, part in enumerate(parts)])
    close(each * batch, [part * each[at] for at, part in enumerate(parts)])
    matrices = rl.arange(24.0).reshape(2, 4, 3)
    close(batch @ matrices, [part @ matrices[at] for at, part in enumerate(parts)])
    close(batch.transpose(1, 2) @ batch, [part.t() @ part for part in parts])
    assert failure(lambda: batch + rl.ones(2, 3, 4)) == "S014"
    assert failure(lambda: batch + jagged(members((3, 2)))) == "S014"
    close(batch + jagged(members((2, 3), seed=1)), [a + b for a, b in zip(parts, members((2, 3), seed=1), strict=True)])


def test_ways_to_make_one():
    values = rl.arange(12.0).reshape(6, 2)
    offsets = rl.tensor([0, 2, 2, 6])
    batch = rl.nested.nested_tensor_from_jagged(values, offsets)
    assert batch.values() is values and batch.offsets() is offsets
    assert [one.shape[0] for one in batch.unbind()] == [2, 0, 4]
    by_lengths = rl.nested.nested_tensor_from_jagged(values, lengths=rl.tensor([1, 5]))
    assert by_lengths.offsets().tolist() == [0, 1, 6]
    gaps = rl.nested.nested_tensor_from_jagged(values, offsets, rl.tensor([1, 0, 2]))
    assert [one.tolist() for one in gaps.unbind()] == [values[:1].tolist(), [], values[2:4].tolist()]
    assert not gaps.is_contiguous() and gaps.lengths().tolist() == [1, 0, 2]
    assert (gaps * 2).sum(1).tolist() == [[0.0, 2.0], [0.0, 0.0], [20.0, 24.0]]
    assert gaps.contiguous().lengths() is None and gaps.sum().item() == 23.0
    dense = rl.arange(12.0).reshape(2, 3, 2)
    assert rl.nested.as_nested_tensor(dense, layout=rl.jagged).values().equal(dense.flatten(0, 1))
    part = rl.nested.narrow(dense, 1, rl.tensor([1, 0]), rl.tensor([2, 1]), layout=rl.jagged)
    assert [one.tolist() for one in part.unbind()] == [dense[0, 1:].tolist(), dense[1, :1].tolist()]
    chosen = rl.nested.masked_select(dense[0], dense[0] > 1)
    assert [one.tolist() for one in chosen.unbind()] == [[], [2.0, 3.0], [4.0, 5.0]]
    strided = rl.nested.nested_tensor([[1.0, 2.0], [3.0]])
    assert strided.layout is rl.strided and strided.to_padded_tensor(0.0).tolist() == [[1.0, 2.0], [3.0, 0.0]]
    wide = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(2, 1)])
    assert wide.unbind()[1].shape == (2, 1) and wide.sum(2).tolist() == [[3.0, 3.0], [1.0, 1.0]]


def test_what_is_refused():
    batch = jagged(members((2, 3)))
    make = rl.nested.nested_tensor
    assert failure(make, [rl.ones(2, 3), rl.ones(3, 2)], layout=rl.jagged) == "A006"
    assert failure(make, [rl.ones(2, 3), rl.ones(2, 4)], layout=rl.jagged) == "A006"
    assert (
        failure(make, [rl.ones(2), rl.ones(2, 4)]) == "S002"
        and failure(make, [rl.ones(2)], layout=rl.sparse_coo) == "A002"
    )
    jag = rl.nested.nested_tensor_from_jagged
    assert failure(jag, rl.ones(4)) == "E003" and failure(jag, rl.ones(4), rl.tensor([0, 5])) == "E003"
    assert (
        failure(jag, rl.ones(4), rl.tensor([0, 3, 2])) == "E004"
        and failure(jag, rl.ones(4), rl.tensor([0.0])) == "E003"
    )
    assert failure(jag, rl.ones(4), rl.tensor([0, 4]), jagged_dim=2) == "I002"
    for call in (
        lambda: batch.add_(1),
        lambda: batch.cumsum(1),
        lambda: batch.sum(0),
        lambda: batch.softmax(0),
        lambda: batch.transpose(0, 1),
        lambda: F.linear(batch.transpose(1, 2), rl.ones(2, 4)),
        lambda: batch[:, 0],
        lambda: rl.ones(4, 4) @ batch,
        lambda: int(batch.shape[1]),
        lambda: batch.data_ptr(),
        lambda: F.layer_norm(batch, (3, 4)),
        lambda: rl.sort(batch),
    ):
        assert failure(call) == "A006"
    assert failure(lambda: batch.size(3)) == "I002" and failure(lambda: batch[2]) == "I001"
    assert failure(lambda: batch.view(2, -1, 5)) == "S009"
