"""Functional collectives: values, gradients against one process, and graphs that keep each call, once, in order."""

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as funcol
from rushlight.distributed.nn import functional as dnn
from rushlight.ops import collective
from rushlight.support.errors import RushlightError

WORLD = 3


def _x(rank: int, *shape: int, dtype=rl.float64):
    generator = rl.Generator().manual_seed(rank)
    return rl.randn(*shape, generator=generator, dtype=dtype)


def _weights(rank: int, like):
    return rl.arange(like.numel(), dtype=like.dtype).reshape(like.shape) + rank + 1


def _whole(step, shape):
    """Results and gradients of a function of all ranks' tensors, in one process."""
    xs = [_x(rank, *shape).requires_grad_() for rank in range(WORLD)]
    outs = step(xs)
    sum((out * _weights(rank, out)).sum() for rank, out in enumerate(outs)).backward()
    return [out.tolist() for out in outs], [
        rl.zeros_like(x).tolist() if x.grad is None else x.grad.tolist() for x in xs
    ]


CASES = {
    "all_reduce": ((4, 3), lambda x: funcol.all_reduce(x, "sum"), lambda xs: [xs[0] + xs[1] + xs[2]] * WORLD),
    "avg": ((4, 3), lambda x: funcol.all_reduce(x, "avg"), lambda xs: [(xs[0] + xs[1] + xs[2]) / 3] * WORLD),
    "max": ((4, 3), lambda x: funcol.all_reduce(x, "max"), lambda xs: [rl.stack(xs).amax(0)] * WORLD),
    "product": ((4, 3), lambda x: funcol.all_reduce(x, "product"), lambda xs: [xs[0] * xs[1] * xs[2]] * WORLD),
    "all_gather": ((4, 3), lambda x: funcol.all_gather_tensor(x, 0), lambda xs: [rl.cat(xs)] * WORLD),
    "all_gather_dim1": ((4, 3), lambda x: funcol.all_gather_tensor(x, 1), lambda xs: [rl.cat(xs, 1)] * WORLD),
    "gather_list": ((2,), lambda x: rl.stack(dnn.all_gather(x)), lambda xs: [rl.stack(xs)] * WORLD),
    "reduce_scatter": (
        (6, 2),
        lambda x: funcol.reduce_scatter_tensor(x, "sum", 0),
        lambda xs: list((xs[0] + xs[1] + xs[2]).chunk(3)),
    ),
    "reduce_scatter_dim1": (
        (2, 6),
        lambda x: funcol.reduce_scatter_tensor(x, "avg", 1),
        lambda xs: list(((xs[0] + xs[1] + xs[2]) / 3).chunk(3, 1)),
    ),
    "all_to_all": (
        (6, 2),
        lambda x: funcol.all_to_all_single(x, None, None),
        lambda xs: [rl.cat([x[2 * rank : 2 * rank + 2] for x in xs]) for rank in range(WORLD)],
    ),
    "broadcast": ((3,), lambda x: dnn.broadcast(x, 1), lambda xs: [xs[1]] * WORLD),
    "reduce": ((3,), lambda x: dnn.reduce(x, 2), lambda xs: [xs[0] * 0, xs[0] * 0, xs[0] + xs[1] + xs[2]]),
    "permute": ((3,), lambda x: funcol.permute_tensor(x, [1, 2, 0]), lambda xs: [xs[2], xs[0], xs[1]]),
    "gather": (
        (3,),
        lambda x: rl.stack(dnn.gather(x, 1)),
        lambda xs: [x * rl.stack([xs[0] * 0] * 3) if i != 1 else rl.stack(xs) for i, x in enumerate(xs)],
    ),
    "scatter": (
        (3, 2),
        lambda x: dnn.scatter(list(x.unbind(0)), 1),
        lambda xs: [xs[1][rank] for rank in range(WORLD)],
    ),
    "order": (
        (4,),
        lambda x: funcol.all_reduce(funcol.all_reduce(x, "sum").sin() * x, "avg"),
        lambda xs: [sum((xs[0] + xs[1] + xs[2]).sin() * x for x in xs) / 3] * WORLD,
    ),
}


@pytest.mark.generated("name")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_one_process(name: str, compiled: bool):
    shape, call, whole = CASES[name]

    def step():
        rank = dist.get_rank()
        run = rl.compile(call, fullgraph=True) if compiled else call
        x = _x(rank, *shape).requires_grad_()
        out = run(x)
        (out * _weights(rank, out)).sum().backward()
        return out.detach(), x.grad

    outs, gradients = _whole(whole, shape)
    for rank, (out, gradient) in enumerate(dist.spawn(step, WORLD, seed=3)):
        assert rl.allclose(out, rl.tensor(outs[rank], dtype=rl.float64), rtol=1e-12, atol=1e-12)
        assert rl.allclose(gradient, rl.tensor(gradients[rank], dtype=rl.float64), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_uneven_rows_gather_and_scatter(compiled: bool):
    sizes = (2, 0, 3)

    def call(x, rows):
        whole = collective.all_gather_into_tensor(x, WORLD, "default", sizes)
        return collective.reduce_scatter_tensor(whole * whole, "sum", WORLD, "default", sizes, rows)

    def step():
        rank = dist.get_rank()
        x = _x(rank, sizes[rank], 2).requires_grad_()
        run = rl.compile(call, fullgraph=True) if compiled else call
        out = run(x, sizes[rank])
        (out * _weights(rank, out)).sum().backward()
        return x.detach(), out.detach(), x.grad

    for rank, (x, out, gradient) in enumerate(dist.spawn(step, WORLD)):
        assert rl.allclose(out, x * x * WORLD)
        assert rl.allclose(gradient, 2 * x * WORLD * _weights(rank, x))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda x: funcol.all_reduce(x, "median"), "A002"),
        (lambda x: funcol.all_reduce(x > 0, "avg"), "D001"),
        (lambda x: funcol.broadcast(x, 7), "A002"),
        (lambda x: funcol.reduce_scatter_tensor(x, "sum", 0), "S010"),
        (lambda x: funcol.all_to_all_single(x, [1], [1]), "A002"),
        (lambda x: funcol.all_to_all_single(x, [1, 2], [1, 1]), "S010"),
        (lambda x: funcol.permute_tensor(x, [0, 0]), "A002"),
        (lambda x: funcol.all_reduce(x, "sum", "nowhere"), "W001"),
        (lambda x: funcol.all_reduce(3, "sum"), "A001"),
        (lambda x: funcol.all_reduce(x.requires_grad_(), "premul_sum").sum().backward(), "G008"),
    ],
)
def test_wrong_arguments(call, code: str):
    with pytest.raises(RushlightError) as caught:
        dist.spawn(lambda: call(rl.ones(3)), 2)
    assert caught.value.code == code
