"""Later calls of compiled functions with divided tensors: generated code, and what is left to the general way."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh


@pytest.fixture(autouse=True)
def ranks():
    dist.init_process_group("fake", rank=0, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.fixture
def general(monkeypatch):
    """How often a divided tensor is taken apart the general way."""
    count = [0]
    flatten = DTensor.__tensor_flatten__

    def counted(self):
        count[0] += 1
        return flatten(self)

    monkeypatch.setattr(DTensor, "__tensor_flatten__", counted)
    return count


def lying(values, placement):
    return distribute_tensor(values, init_device_mesh("cpu", (2,)), [placement], src_data_rank=None)


def same(found, wanted):
    assert type(found) is type(wanted) and found.placements == wanted.placements
    assert found.shape == wanted.shape and found.dtype is wanted.dtype
    assert found.stride() == wanted.stride() or not found.numel()
    assert found.requires_grad == wanted.requires_grad
    np.testing.assert_array_equal(found.to_local().detach().numpy(), wanted.to_local().detach().numpy())


def product(x, w):
    return (x @ w).relu()


def asked(function, compiled, general, *args):
    """Compares a call with the uncompiled one, and says whether it was made directly."""
    before = general[0]
    found = compiled(*args)
    direct = general[0] == before
    wanted = function(*args)
    for one, other in zip(*[out if isinstance(out, tuple) else (out,) for out in (found, wanted)], strict=True):
        same(one, other) if isinstance(other, DTensor) else np.testing.assert_array_equal(one, other)
    return direct


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_third_call_of_the_same_forms_takes_nothing_apart(general, fullgraph):
    compiled = rl.compile(product, fullgraph=fullgraph)
    for size in (6, 9, 1):
        x, w = lying(rl.randn(size, 4), Shard(0)), lying(rl.randn(4, 5), Replicate())
        calls = [asked(product, compiled, general, x, w) for _ in range(3)]
        assert not calls[0] and calls[2]
    assert asked(product, compiled, general, lying(rl.randn(6, 4), Shard(0)), lying(rl.randn(4, 5), Replicate()))


def test_what_is_otherwise_is_no_direct_call(general):
    compiled = rl.compile(product, fullgraph=True)
    x, w = lying(rl.randn(4, 4), Shard(0)), lying(rl.randn(4, 4), Replicate())
    while not asked(product, compiled, general, x, w):
        pass
    others = {
        "placement": (lying(rl.randn(4, 4), Shard(1)), w),
        "dtype": (x.double(), w.double()),
        "history": (x.detach().requires_grad_(), w),
        "parameter": (x, rl.nn.Parameter(w, requires_grad=False)),
        "the same twice": (w, w),
        "more dims": (lying(rl.randn(2, 4, 4), Shard(0)), w),
    }
    for name, args in others.items():
        assert not asked(product, compiled, general, *args), name
    assert asked(product, compiled, general, x, w)
    with rl.no_grad():
        asked(product, compiled, general, x, w)
    assert compiled(x=x, w=w).placements == (Shard(0),)


def several(x, count, plain):
    return x * count, plain + 1, x.sum(1)


def test_results_and_arguments_of_several_kinds(general):
    compiled = rl.compile(several, fullgraph=True)
    x, plain = lying(rl.arange(12).view(4, 3), Shard(0)), rl.ones(2)
    for _ in range(4):
        last = asked(several, compiled, general, x, 3, plain)
    assert last
    asked(several, compiled, general, x, 5, plain)
    asked(several, compiled, general, x, 2.5, plain)  # another dtype, of the same forms
    asked(several, compiled, general, x, True, plain)
    assert compiled(x, 3, x)[1].placements == (Shard(0),)
    assert asked(several, compiled, general, x, 3, plain)


def test_sizes_that_a_number_decides(general):
    def rows(x, count):
        return x[:, :count] * 1

    compiled = rl.compile(rows, fullgraph=True)
    x = lying(rl.randn(4, 6), Shard(0))
    for count in (2, 2, 3, 4, 5, 5, 1, 0):
        asked(rows, compiled, general, x, count)


def test_a_tensor_that_is_reached(general):
    w = lying(rl.randn(4, 5), Replicate())

    def f(x):
        return x @ w

    compiled = rl.compile(f, fullgraph=True)
    for _ in range(3):
        last = asked(f, compiled, general, lying(rl.randn(6, 4), Shard(0)))
    assert last
    w = lying(rl.randn(4, 5), Replicate())
    for _ in range(3):
        asked(f, compiled, general, lying(rl.randn(6, 4), Shard(0)))


def test_writes_and_inputs_among_the_results_stay_general(general):
    def write(x):
        x.add_(1)
        return x

    compiled = rl.compile(write, fullgraph=True)
    x = lying(rl.zeros(4), Shard(0))
    versions = []
    for count in range(1, 4):
        assert compiled(x) is x
        versions.append(x._version)
        assert x.to_local().tolist() == [count, count]
    assert versions == [1, 2, 3]


def test_ranks_are_asked():
    dist.destroy_process_group()

    def run():
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(rl.arange(6.0), mesh, [Shard(0)])
        return [compiled(x).to_local().tolist() for _ in range(4)]

    compiled = rl.compile(lambda x: x.cumsum(0).redistribute(placements=[Shard(0)]), fullgraph=True)
    assert dist.spawn(run, 2) == [[[0.0, 1.0, 3.0]] * 4, [[6.0, 10.0, 15.0]] * 4]
    dist.init_process_group("fake", rank=0, world_size=2)
