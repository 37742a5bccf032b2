"""Derivatives that a program takes itself: an exported program has them, although it is traced below autograd."""

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl
from rushlight import func
from rushlight.eager.pytree import flatten_tree
from rushlight.export import Dim, export
from rushlight.fx.experimental.proxy_tensor import make_fx


def energy(w, x):
    return (x @ w).tanh().square().sum()


def steps(w, x):
    last, made = rl.scan(lambda c, row: ((c @ w + row).tanh(), c * row), x[0], x)
    return made.square().sum() + last.sum()


def chosen(w, x):
    return rl.cond(x.sum() > 0, lambda w, x: (x @ w).sin().sum(), lambda w, x: (x @ w).sum(), (w, x))


def backed(w, x):
    return func.vjp(lambda w: (x @ w).exp(), w)[1](x)


def forwards(w, x):
    return func.jvp(lambda w: (x @ w).exp(), (w,), (w.cos(),))


def linear(w, x):
    value, push = func.linearize(lambda w: (x @ w).exp(), w)
    return value, push(w.cos())


CASES: dict[str, Callable[..., object]] = {
    "grad": func.grad(energy),
    "grad of both": func.grad_and_value(energy, argnums=(0, 1)),
    "grad of a scan": func.grad(steps),
    "grad of a branch": func.grad(chosen),
    "grad of a gradient": lambda w, x: func.grad(lambda w: func.grad(energy)(w, x).square().sum())(w),
    "vjp": backed,
    "jvp": forwards,
    "linearize": linear,
    "jacrev": func.jacrev(lambda w, x: (x @ w).tanh()),
    "jacfwd": func.jacfwd(lambda w, x: (x @ w).tanh()),
    "hessian": func.hessian(energy),
    "per sample": lambda w, x: func.vmap(func.grad(energy), in_dims=(None, 0))(w, x),
}


@pytest.mark.parametrize("trains", [False, True], ids=["plain", "requires gradients"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_inside_an_exported_program(name: str, trains: bool):
    rl.manual_seed(0)
    function = CASES[name]
    w, x = rl.randn(3, 3, requires_grad=trains), rl.randn(4, 3)
    program = export(function, (w, x), dynamic_shapes=({}, {0: Dim("rows", min=2, max=64)}))
    for rows in (4, 7):
        x = rl.randn(rows, 3)
        given, wanted = (flatten_tree(run(w, x))[0] for run in (program.module(), function))
        assert len(given) == len(wanted)
        for mine, other in zip(given, wanted, strict=True):
            np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-6, atol=1e-6)
            assert other.detach().abs().max() > 0, "a derivative of zeros shows nothing"


def test_derivatives_inside_a_graph_of_proxies():
    rl.manual_seed(0)
    w, x = rl.randn(3, 3), rl.randn(4, 3)
    traced = make_fx(func.grad(energy))(w, x)
    np.testing.assert_allclose(traced(w, x * 2).numpy(), func.grad(energy)(w, x * 2).numpy(), rtol=1e-6)


def test_gradients_of_a_modules_parameters_inside_an_exported_program():
    class Step(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            rl.manual_seed(0)
            self.layer = rl.nn.Linear(3, 2)

        def forward(self, x: rl.Tensor) -> dict[str, rl.Tensor]:
            def loss(parameters):
                return func.functional_call(self.layer, parameters, (x,)).square().mean()

            return func.grad(loss)(dict(self.layer.named_parameters()))

    step = Step()
    program = export(step, (rl.randn(4, 3),), dynamic_shapes=({0: Dim("rows", max=64)},))
    x = rl.randn(6, 3)
    for (name, mine), other in zip(program.module()(x).items(), step(x).values(), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-6, err_msg=name)
        assert other.abs().max() > 0
