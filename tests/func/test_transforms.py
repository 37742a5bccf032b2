"""Transforms of functions against closed forms, finite differences and each other, nested and compiled."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from rushlight.support.errors import RushlightError


def data(*shape):
    return rl.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def near(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def energy(x):
    return (x.sin() * x).sum()


def energy_slope(x):
    return np.cos(x) * x + np.sin(x)


def energy_bend(x):
    return np.diag(2 * np.cos(x) - x * np.sin(x))


def test_derivatives_have_their_closed_forms():
    x = data(5)
    a = x.numpy()
    near(grad(energy)(x), energy_slope(a))
    gradient, value = grad_and_value(energy)(x)
    near(value, np.sum(np.sin(a) * a))
    near(gradient, energy_slope(a))
    near(jacrev(rl.exp)(x), np.diag(np.exp(a)))
    near(jacfwd(rl.exp)(x), np.diag(np.exp(a)))
    near(hessian(energy)(x), energy_bend(a))
    near(jvp(rl.sin, (x,), (x,))[1], np.cos(a) * a)
    result, pullback = vjp(rl.sin, x)
    near(result, np.sin(a))
    near(pullback(x)[0], np.cos(a) * a)
    result, derivative = linearize(rl.sin, x)
    near(derivative(x), np.cos(a) * a)
    near(derivative(2 * x), 2 * np.cos(a) * a)


def test_transforms_nest():
    x = data(3, 4)
    near(vmap(grad(energy))(x), energy_slope(x.numpy()))
    near(vmap(hessian(energy))(x), np.stack([energy_bend(row) for row in x.numpy()]))
    near(grad(lambda t: vmap(grad(energy))(t).sum())(x), np.stack([np.diag(energy_bend(row)) for row in x.numpy()]))
    near(vmap(vmap(lambda a, b: a * b + a.sin(), (None, 0)), (0, None))(x[0], x[1]),
         x[0].numpy()[:, None] * x[1].numpy() + np.sin(x[0].numpy())[:, None])  # fmt: skip
    near(jacrev(jacfwd(energy))(x[0]), energy_bend(x[0].numpy()))


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_functions_are_mapped(fullgraph):
    """As they are: `vmap` wants to see their operators."""
    compiled = rl.compile(energy, fullgraph=fullgraph)
    x = data(3, 4)
    near(compiled(x[0]), energy(x[0]))
    for _ in range(2):
        near(vmap(compiled)(x), rl.stack([energy(row) for row in x]))
        near(vmap(grad(compiled))(x), energy_slope(x.numpy()))
        near(vmap(lambda a, b: compiled(b) * a, (0, None))(x, x[0]), energy(x[0]) * x)


def test_transforms_are_what_they_are_under_compiled_autograd():
    x = data(4)

    def everything():
        transformed = [one(energy)(x) for one in (grad, jacrev, jacfwd, hessian)]
        return [*transformed, rl.autograd.functional.jacobian(rl.sin, x, vectorize=True)]

    wanted = everything()
    with rl.compiler.compiled_autograd.enable():
        found = everything()
    assert [one.numpy().tobytes() for one in found] == [one.numpy().tobytes() for one in wanted]


def test_leaves_of_the_caller_keep_their_gradients():
    x, w = data(4), data(4).requires_grad_()
    inner = grad(lambda t: (t * t * w).sum())(x)
    inner.sum().backward()
    near(w.grad, 2 * x.numpy())
    assert x.grad is None


def test_gradients_of_each_sample_and_ensembles_of_modules():
    rl.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)) for _ in range(2)]
    parameters, buffers = stack_module_state(models)
    x = data(5, 4)
    found = vmap(lambda p, b, t: functional_call(models[0], (p, b), (t,)), (0, 0, None))(parameters, buffers, x)
    near(found.detach(), np.stack([model(x).detach().numpy() for model in models]))

    def loss(named, sample):
        return (functional_call(models[0], named, (sample,)) ** 2).sum()

    named = {name: value.detach() for name, value in models[0].named_parameters()}
    each = vmap(grad(loss), (None, 0))(named, x)
    for row in range(5):
        for name, value in grad(loss)(named, x[row]).items():
            near(each[name][row], value, 1e-4)


def test_an_inner_step_is_differentiated():
    weight, x = data(4), data(4)

    def adapted(w):
        step = w - 0.1 * grad(lambda v: ((v * x) ** 2).sum())(w)
        return ((step * x) ** 2).sum()

    a, w = x.numpy().astype(np.float64), weight.numpy().astype(np.float64)
    factor = 1 - 0.2 * a * a
    near(grad(adapted)(weight), 2 * w * (a * factor) ** 2, 1e-4)


@pytest.mark.parametrize(
    "transform",
    [vmap(energy), vmap(grad(energy)), jacrev(rl.sin), hessian(energy)],
    ids=["vmap", "each", "jacrev", "hessian"],
)
def test_compiled_equals_eager(transform):
    x = data(3, 4)
    compiled = rl.compile(transform)
    assert compiled(x).numpy().tobytes() == transform(x).numpy().tobytes()


def test_places_of_the_batch():
    x = data(2, 3, 4)
    near(vmap(rl.sin, in_dims=1, out_dims=2)(x), np.moveaxis(np.sin(x.numpy()), 1, 2))
    near(
        vmap(lambda pair: pair["a"] + pair["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}),
        x.numpy() + x[0].numpy(),
    )
    near(vmap(rl.sin, chunk_size=2)(data(5, 2)), np.sin(data(5, 2).numpy()))
    assert vmap(rl.sin)(rl.zeros(0, 3)).shape == (0, 3)
    same = vmap(lambda t: t + rl.rand(2), randomness="same")(rl.zeros(3, 2))
    assert bool((same[0] == same[1]).all())
    other = vmap(lambda t: t + rl.rand(2), randomness="different")(rl.zeros(3, 2))
    assert not bool((other[0] == other[1]).any())


@pytest.mark.parametrize(
    ("code", "run"),
    [
        ("A006", lambda x: vmap(lambda t: t + rl.rand(2))(x)),
        ("A006", lambda x: vmap(lambda t: t if t.sum() > 0 else -t)(x)),
        ("A006", lambda x: vmap(lambda t: x.add_(t))(x)),
        ("A006", lambda x: rl.compile(vmap(rl.sin, chunk_size=2), dynamic=True, fullgraph=True)(x)),
        ("A002", lambda x: vmap(rl.sin, in_dims=5)(x)),
        ("A002", lambda x: vmap(rl.add)(x, x[:1])),
        ("A002", lambda x: grad(rl.sin)(x)),
        ("A002", lambda x: jvp(rl.sin, (x,), (x[0],))),
    ],
)
def test_mistakes_are_refused(code, run):
    with pytest.raises(RushlightError) as caught:
        run(data(3, 2))
    assert caught.value.code == code


def test_batch_norms_without_running_statistics_are_mapped():
    module = rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.BatchNorm1d(2))
    assert rl.func.replace_all_batch_norm_modules_(module) is module
    norm = module[1]
    assert norm.running_mean is None and norm.running_var is None and not norm.track_running_stats
    x = rl.arange(24.0).reshape(2, 4, 3).sin()
    assert rl.vmap(module)(x).tolist() == rl.stack([module(x[0]), module(x[1])]).tolist()


READS = {
    "index": lambda rows, at: rows[at],
    "index_select": lambda rows, at: rl.index_select(rows, 0, at.reshape(1)),
    "gather": lambda rows, at: rows.gather(0, at.reshape(1)),
    "take": rl.take,
    "embedding": lambda rows, at: rl.nn.functional.embedding(at, rows[:, None]),
    "index_add": lambda rows, at: rows.index_add(0, at.reshape(1), rows[:1]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", READS)
def test_an_index_out_of_range_of_its_place_is_an_error(name, compiled):
    mapped = rl.func.vmap(READS[name])
    call = rl.compile(mapped) if compiled else mapped
    x = rl.arange(12.0).reshape(3, 4)
    expected = rl.stack([READS[name](row, rl.tensor(at)) for row, at in zip(x, (0, 3, 1), strict=True)])
    assert call(x, rl.tensor([0, 3, 1])).tolist() == expected.tolist()
    with pytest.raises(rl.RushlightError) as caught:
        call(x, rl.tensor([0, 4, 1]))  # inside of the batch's memory, outside of the row
    assert caught.value.code == "I001"


def test_pullbacks_are_differentiable_in_their_cotangents():
    x, g = rl.tensor(0.7), rl.tensor(2.0)
    _, pullback = rl.func.vjp(rl.sin, x)
    assert rl.allclose(rl.func.grad(lambda g: pullback(g)[0])(g), x.cos())
    assert rl.allclose(rl.func.grad(lambda g: pullback(g * g)[0])(g), 2 * g * x.cos())
    assert rl.allclose(rl.func.jvp(lambda g: pullback(g)[0], (g,), (rl.tensor(3.0),))[1], 3 * x.cos())
    tracked = g.clone().requires_grad_()
    pullback(tracked)[0].backward()
    assert rl.allclose(tracked.grad, x.cos())
    assert not pullback(g)[0].requires_grad


def test_pullbacks_record_nothing_without_gradients():
    x = rl.tensor(3.0, requires_grad=True)
    out, pullback = rl.func.vjp(lambda a: a**2, x)
    with rl.no_grad():
        (y,) = pullback(rl.tensor(1.0))
    assert y.item() == 6.0 and not y.requires_grad and out.requires_grad
    assert pullback(rl.tensor(1.0))[0].requires_grad
