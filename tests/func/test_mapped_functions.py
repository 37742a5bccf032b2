"""Custom functions inside `vmap`: what the methods give for each place alone, with gradients of any order."""

from typing import Any

import pytest

import rushlight as rl
from rushlight.autograd import Function, grad
from rushlight.func import grad as gradient_of
from rushlight.func import hessian, jacfwd, jacrev, vmap
from tensors import same


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


class Cube(Function):
    """Two outputs, one of which is saved."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, slope = ctx.saved_tensors
        return g * slope + h * 6 * x


class Product(Function):
    """An argument that all places may share, a number, an attribute of the context."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, factor: float) -> Any:
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        return (x * w).sum() * factor

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        assert ctx.needs_input_grad[2] is False
        return g * w * ctx.factor, g * x * ctx.factor, None


class Ordered(Function):
    """An output without a gradient, and gradients that are None."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        values, places = x.sort()
        ctx.mark_non_differentiable(places)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(places)
        return values, places, x * 2

    @staticmethod
    def backward(ctx: Any, g: Any, of_places: Any, h: Any) -> Any:
        assert of_places is None and h is None
        return rl.zeros_like(g).scatter(0, ctx.saved_tensors[0], g)


class Doubled(Function):
    """A write to the argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def ordered(x: Any) -> Any:
    return (Ordered.apply(x)[0] * rl.arange(x.shape[0])).sum()


def doubled(x: Any) -> Any:
    y = x * 3
    z = Doubled.apply(y)
    assert z is y
    return (z * z).sum()


PROGRAMS = {
    "square": lambda x: Square.apply(x).sum(),
    "cube": lambda x: Cube.apply(x)[0].sum(),
    "slope": lambda x: (Cube.apply(x)[1] * x).sum(),
    "product": lambda x: Product.apply(x, x * x, 0.5),
    "ordered": ordered,
    "doubled": doubled,
    "nested": lambda x: vmap(lambda one: Square.apply(Cube.apply(one)[0]))(x).sum(),
    "twice": lambda x: (gradient_of(lambda y: Cube.apply(y)[0].sum())(x) * x).sum(),
}


def inputs(*shape: int) -> Any:
    return rl.randn(*shape, dtype=rl.float64, generator=rl.Generator().manual_seed(3))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_places_are_those_of_each_alone(name: str) -> None:
    program = PROGRAMS[name]
    x = inputs(4, 3)
    expected = rl.stack([gradient_of(program)(row) for row in x])
    assert bool((expected != 0).any())
    found = [vmap(gradient_of(program))(x), rl.compile(vmap(gradient_of(program)), fullgraph=True)(x)]
    found.append(gradient_of(lambda x: vmap(program)(x).sum())(x))
    leaf = x.clone().requires_grad_()
    found += grad(vmap(program, in_dims=1)(leaf.t()).sum(), leaf)
    found.append(vmap(vmap(gradient_of(program)))(x.reshape(2, 2, 3)).reshape(4, 3))
    for one in found:
        assert rl.allclose(one, expected, rtol=1e-12)


def test_second_derivatives_follow() -> None:
    x = inputs(3)
    want = rl.diag(6 * x)
    for made in (
        hessian(PROGRAMS["cube"]),
        jacrev(gradient_of(PROGRAMS["cube"])),
        jacfwd(gradient_of(PROGRAMS["cube"])),
    ):
        assert rl.allclose(made(x), want)
    assert rl.allclose(jacrev(lambda x: Cube.apply(x)[0])(x), rl.diag(3 * x**2))


def test_what_all_places_share_gets_the_sum_of_their_gradients() -> None:
    x, w = inputs(4, 3), inputs(3).requires_grad_()
    total = vmap(Product.apply, in_dims=(0, None, None))(x, w, 2.0)
    assert rl.allclose(total, (x * w).sum(1) * 2)
    assert rl.allclose(grad(total.sum(), w)[0], 2 * x.sum(0))
    each = vmap(gradient_of(lambda x, w: Product.apply(x, w, 2.0), argnums=1), in_dims=(0, None))(x, w)
    assert rl.allclose(each, 2 * x)


def test_a_rule_of_ones_own_runs_once_for_all_places() -> None:
    asked: list[Any] = []

    class Scaled(Function):
        @staticmethod
        def forward(x: Any, factor: float) -> Any:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.factor, None

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, factor: float) -> Any:
            asked.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
            return Scaled.apply(x.movedim(in_dims[0], -1), factor), -1

    x = inputs(2, 5)
    assert same(vmap(lambda one: Scaled.apply(one, 3.0), in_dims=1, out_dims=1)(x), x * 3)
    assert asked == [(5, "error", (0, None), (5, 2))]
    assert same(vmap(gradient_of(lambda one: Scaled.apply(one, 3.0).sum()))(x), rl.full((2, 5), 3.0, dtype=rl.float64))
    assert len(asked) == 2
